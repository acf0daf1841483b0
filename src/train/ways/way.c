#include "train/ways/way.h"

#include <string.h>

#include "core/text.h"
#include "train/internal.h"
#include "train/layout/layout.h"
#include "train/ways/tensor.h"

/* The first is chosen by the name of any scheme, the next ones by options of their own, the others by --sync NAME. */
#define WAYS                                                                                                 \
    &gs_way_synchronous, &gs_way_tensor, &gs_way_pipeline, &gs_way_zero, &gs_way_exact, &gs_way_local,       \
        &gs_way_async, NULL

static const gs_way *const own[] = {WAYS};
static const gs_way *ways[] = {WAYS}; /* the same but for those that were replaced */
enum { BY_NAME = 5 };
static const gs_way *const *const by_name = &own[BY_NAME];

const gs_way *const *gs_ways(void) {
    return ways;
}

gs_status gs_way_replace(const char *name, const gs_way *by) {
    if (by && strcmp(by->name, name) != 0)
        return gs_fail(GS_E_USAGE, "the way '%s' cannot replace '%s': they need the same name", by->name,
                       name);
    for (int i = 0; own[i]; i++) {
        if (strcmp(own[i]->name, name) != 0) continue;
        ways[i] = by ? by : own[i];
        return GS_OK;
    }
    return gs_fail(GS_E_USAGE, "no way is called '%s'; wanted zero, local, async or another of way.h", name);
}

static const gs_way *chosen(const gs_settings *s) {
    if (s->pipeline > 1) return &gs_way_pipeline;
    if (s->zero) return &gs_way_zero;
    if (s->exact) return &gs_way_exact;
    for (const gs_way *const *way = by_name; *way; way++)
        if (strcmp((*way)->name, s->sync) == 0) return *way;
    return &gs_way_synchronous;
}

const gs_way *gs_way_of(const gs_settings *s) {
    const gs_way *way = chosen(s);
    for (int i = 0; own[i]; i++)
        if (own[i] == way) return ways[i];
    return way;
}

const gs_way *gs_way_part(const gs_settings *s, int i) {
    const gs_way *way = gs_way_of(s), *part[4] = {NULL};
    int parts = 0;
    if (s->tensor > 1) part[parts++] = &gs_way_tensor;
    part[parts++] = way;
    if (s->exact && chosen(s) != &gs_way_exact) part[parts++] = &gs_way_exact;
    return part[i];
}

const char *gs_way_option(const gs_settings *s) {
    if (s->exact && s->zero && s->pipeline < 2 && s->tensor < 2) return "--exact --zero";
    return gs_way_part(s, 0)->option;
}

void gs_way_describe(const gs_settings *s, char *text, size_t size) {
    const gs_way *way = gs_way_part(s, 0);
    *text = '\0';
    if (way->describe)
        way->describe(s, text, size);
    else
        gs_append(text, size, "%s", way->summary);
}

int gs_stages_of(const gs_settings *s) {
    const gs_layout one = gs_layout_of(s, 1);
    return one.tp * one.pp;
}

int gs_parts_of(const gs_settings *s, int workers) {
    const int groups = workers / gs_stages_of(s);
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
    const char *names[sizeof ways / sizeof *ways] = {NULL};
    for (int i = 0; by_name[i]; i++) {
        names[i] = by_name[i]->name;
        if (strcmp(names[i], s->sync) == 0) return gs_sync_find(gs_settings_default().sync, out);
    }
    return gs_sync_find_or(s->sync, names, out);
}

/* What the replicas do together. */
static const char *sum_of(const gs_worker *w, int zero) {
    const gs_settings *s = w->settings;
    if (zero > 2)
        return s->exact ? "reduce-scatter by one fixed tree, and all-gather of the weights before forward "
                          "and backward"
                        : "reduce-scatter, and all-gather of the weights before forward and backward";
    if (zero > 0)
        return s->exact ? "reduce-scatter by one fixed tree, then all-gather of the new weights"
                        : "reduce-scatter, then all-gather of the new weights";
    if (s->exact) return "one fixed tree";
    return s->pipeline > 1 ? "all-reduce" : w->sync->scheme->name;
}

const char *gs_sums_text(const gs_worker *w, char text[GS_SUMS_TEXT]) {
    const gs_settings *s = w->settings;
    const gs_way *way = gs_way_of(s);
    const gs_layout l = w->groups.layout;
    *text = '\0';
    if (l.dp == 1)
        gs_append(text, GS_SUMS_TEXT, "none %s",
                  w->comm->size == 1 ? "with one worker" : "among replicas, as there is one");
    else if (way->apart)
        gs_way_describe(s, text, GS_SUMS_TEXT);
    else
        gs_append(text, GS_SUMS_TEXT, "%s", sum_of(w, s->zero));
    if (l.dp > 1 && (l.pp > 1 || l.tp > 1))
        gs_append(text, GS_SUMS_TEXT, ", among the %d replicas of each %s", l.dp,
                  l.pp == 1   ? "part"
                  : l.tp == 1 ? "stage"
                              : "part of a stage");
    return text;
}
