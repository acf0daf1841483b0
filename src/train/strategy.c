#include "train/strategy.h"

#include "core/text.h"
#include "train/settings.h"
#include "train/reducers/zero.h"
#include "train/tensor.h"

/* The strategies, named after the option that chooses each, or after the value of --sync. */
static struct {
    const char *name;
    const gs_strategy *own, *now; /* now: own, or its replacement */
} by_name[] = {
#define ROW(name, strategy)                                                                                  \
    { name, &gs_strategy_##strategy, &gs_strategy_##strategy }
    ROW("synchronous", synchronous), ROW("zero", synchronous), ROW("exact", synchronous),
    ROW("pipeline", pipeline),       ROW("local", local),      ROW("async", async)};
enum { NAMES = sizeof by_name / sizeof *by_name, OF_SYNC = 4 /* from here on chosen by --sync NAME */ };

gs_status gs_strategy_replace(const char *name, const gs_strategy *by) {
    if (by && strcmp(by->name, name) != 0)
        return gs_fail(GS_E_USAGE, "the strategy '%s' cannot replace '%s': they need the same name", by->name,
                       name);
    for (int i = 0; i < NAMES; i++) {
        if (strcmp(by_name[i].name, name) != 0) continue;
        by_name[i].now = by ? by : by_name[i].own;
        return GS_OK;
    }
    return gs_fail(GS_E_USAGE,
                   "no strategy is called '%s'; wanted zero, local, async or another of strategy.h", name);
}

const gs_strategy *gs_strategy_of(const gs_settings *s) {
    const char *option = s->pipeline > 1 ? "pipeline" : s->zero ? "zero" : s->exact ? "exact" : NULL;
    int i = option ? 0 : OF_SYNC;
    while (i < NAMES && strcmp(by_name[i].name, option ? option : s->sync) != 0) i++;
    return by_name[i < NAMES ? i : 0].now; /* any other --sync is a scheme: synchronous */
}

const gs_reducer *gs_reducer_of(const gs_settings *s) {
    if (gs_strategy_of(s)->apart) return NULL;
    return s->zero ? &gs_reducer_zero : &gs_reducer_all_reduce;
}

void gs_strategy_describe(const gs_settings *s, char *text, size_t size) {
    static const char *const zero[] = {"updates its part of the weights",
                                       "holds its part of vectors and gradients",
                                       "holds its part of vectors, gradients and weights"};
    const gs_strategy *strategy = gs_strategy_of(s);
    const bool synchronous = strategy == &gs_strategy_synchronous;
    *text = '\0';
    if (s->tensor > 1)
        gs_append(text, size, "%sgroups of %d share each pair of linear layers%s",
                  s->exact && !s->zero ? "one fixed tree; " : "", s->tensor,
                  s->pipeline > 1 || s->zero ? "; " : "");
    if (synchronous && s->zero)
        gs_append(text, size, "%seach %s (ZeRO %d)", s->exact ? "one fixed tree; " : "", zero[s->zero - 1],
                  s->zero);
    else if (synchronous && s->exact && s->tensor < 2)
        gs_append(text, size, "gradients summed in one fixed tree");
    else if (!synchronous || s->tensor < 2)
        strategy->describe(s, text + strlen(text), size - strlen(text));
}

int gs_model_parallel_size(const gs_settings *s) {
    const gs_layout one = gs_layout_of(s, 1);
    return one.tp * one.pp;
}

int gs_batch_shards(const gs_settings *s, int workers) {
    const int groups = workers / gs_model_parallel_size(s);
    return s->exact ? GS_EXACT_SHARDS : groups > 1 ? groups : 1;
}

gs_tensor_group gs_tensor_group_of(const gs_settings *s, int rank) {
    const int size = s->tensor > 1 || s->exact ? gs_layout_of(s, 1).tp : 0;
    return (gs_tensor_group){.size = size,
                             .rank = size > 0 ? rank % size : 0,
                             .leaves = s->exact ? GS_EXACT_SHARDS : 0,
                             .sequence = size > 1 && s->sequence,
                             .outputs = s->loss == GS_SOFTMAX_CROSS_ENTROPY};
}

gs_status gs_find_scheme(const gs_settings *s, const gs_sync_scheme **out) {
    const char *names[NAMES] = {NULL};
    for (int i = OF_SYNC; i < NAMES; i++) {
        names[i - OF_SYNC] = by_name[i].name;
        if (strcmp(by_name[i].name, s->sync) == 0) return gs_sync_find(gs_settings_default().sync, out);
    }
    return gs_sync_find_or(s->sync, names, out);
}

const char *gs_sums_text(const gs_worker *w, char text[GS_SUMS_TEXT]) {
    const gs_settings *s = w->settings;
    const gs_layout l = w->groups.layout;
    *text = '\0';
    if (l.dp == 1)
        gs_append(text, GS_SUMS_TEXT, "none %s",
                  w->comm->size == 1 ? "with one worker" : "among replicas, as there is one");
    else if (w->strategy->apart)
        gs_strategy_describe(s, text, GS_SUMS_TEXT);
    else if (s->zero > 0)
        gs_append(text, GS_SUMS_TEXT, "reduce-scatter%s%s", s->exact ? " by one fixed tree" : "",
                  s->zero > 2 ? ", and all-gather of the weights before forward and backward"
                              : ", then all-gather of the new weights");
    else
        gs_append(text, GS_SUMS_TEXT, "%s",
                  s->exact          ? "one fixed tree"
                  : s->pipeline > 1 ? "all-reduce"
                                    : w->sync->scheme->name);
    if (l.dp > 1 && (l.pp > 1 || l.tp > 1))
        gs_append(text, GS_SUMS_TEXT, ", among the %d replicas of each %s", l.dp,
                  l.pp == 1   ? "part"
                  : l.tp == 1 ? "stage"
                              : "part of a stage");
    return text;
}
