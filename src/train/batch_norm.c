#include "train/batch_norm.h"
#include "layer/layer.h"
#include "train/evaluate.h"
#include "train/settings.h"
#include "train/strategy.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- as text ---- */

enum { GROUP_MOST = 1000000000 };

bool gs_batch_norm_read(const char *text, gs_batch_norm_groups *out) {
    static const char ghost[] = "ghost:";
    const char *digits = text + strlen(ghost);
    *out = (gs_batch_norm_groups){GS_BATCH_NORM_GLOBAL, 0};
    if (strcmp(text, "global") == 0) return true;
    out->over = GS_BATCH_NORM_LOCAL;
    if (strcmp(text, "local") == 0) return true;
    out->over = GS_BATCH_NORM_GHOST;
    if (strncmp(text, ghost, strlen(ghost)) != 0) return false;
    size_t length = strlen(digits);
    if (length < 1 || length > 10 || strspn(digits, "0123456789") != length) return false;
    out->group = strtoul(digits, NULL, 10);
    return out->group >= 1 && out->group <= GROUP_MOST;
}

const char *gs_batch_norm_text(const gs_batch_norm_groups *g, char *text, size_t size) {
    const char *name = g->over == GS_BATCH_NORM_GLOBAL  ? "global"
                       : g->over == GS_BATCH_NORM_LOCAL ? "local"
                       : g->over == GS_BATCH_NORM_GHOST ? "ghost"
                                                        : "unknown";
    if (g->over != GS_BATCH_NORM_GHOST && g->group == 0) return name;
    snprintf(text, size, "%s:%zu", name, g->group);
    return text;
}

/* ---- checks ---- */

static const char advice[] = "wanted --batch-norm ghost:G (statistics of each G samples) or local";

enum { GLOBAL_MOST = 4096 }; /* maximum number of samples in memory; each takes 3 MB in resnet20 */

gs_status gs_has_batch_norm(const gs_settings *s, gs_shape in, bool *has) {
    gs_model *plan;
    GS_TRY(gs_model_create(NULL, &(gs_model_config){.text = s->model, .in = in}, &plan));
    *has = gs_layer_depends_on_batch(plan->net);
    gs_model_free(plan);
    return GS_OK;
}

gs_status gs_largest_micro_batch(const gs_settings *s, gs_shape in, size_t *most) {
    bool has;
    double bytes;
    *most = s->micro_batch;
    if (*most) return GS_OK;
    GS_TRY(gs_has_batch_norm(s, in, &has));
    *most = s->batch_norm.over == GS_BATCH_NORM_GLOBAL ? GLOBAL_MOST : GS_MICRO_BATCH;
    if (has) return GS_OK;
    GS_TRY(gs_output_bytes(s->model, in, &bytes));
    *most = gs_samples_within(GS_MICRO_BYTES, GS_MICRO_BATCH, bytes);
    return GS_OK;
}

/* All samples of a global batch must be in memory at the same time, on workers that wait for each other. */
static gs_status check_global(const gs_settings *s, size_t batch, int workers) {
    const gs_strategy *strategy = gs_strategy_of(s);
    size_t most = s->micro_batch ? s->micro_batch : GLOBAL_MOST;
    const size_t n = (size_t)(workers / gs_model_parallel_size(s)), leaves = GS_LEAVES / n;
    const bool whole = !s->exact || n == 1; /* otherwise its part is `leaves` leaves */
    const size_t part = whole ? (batch + n - 1) / n : gs_shard_of(batch, (int)leaves, GS_LEAVES).first;
    char parts[32] = "";
    if (s->pipeline > 1)
        snprintf(parts, sizeof parts, "--pipeline %d", s->pipeline);
    else if (s->accumulate > 1)
        snprintf(parts, sizeof parts, "--accumulate %d", s->accumulate);
    if (*parts)
        return gs_fail(
            GS_E_USAGE,
            "--batch-norm global: %s computes a batch in parts, but statistics of the global batch need all "
            "samples at once; %s",
            parts, advice);
    if (strategy->apart && workers > 1)
        return gs_fail(
            GS_E_USAGE,
            "--batch-norm global: with %s the %d workers do not wait for each other in each step, so "
            "they cannot share statistics; %s",
            strategy->option, workers, advice);
    if (part > most)
        return gs_fail(
            GS_E_USAGE,
            "--batch-norm global: --batch %zu gives a worker %zu samples, which it computes in micro-batches "
            "of %zu, and statistics of the global batch need all samples at once; wanted a batch of at "
            "most %zu; or %s",
            batch, part, most, s->exact ? most / leaves * GS_LEAVES + most % leaves : most * n,
            advice + strlen("wanted "));
    if (s->bucket && workers > 1)
        return gs_fail(
            GS_E_USAGE,
            "--batch-norm global: with --bucket gradients are summed during backward by another thread, "
            "and sums of statistics would come in between; %s, or no --bucket",
            advice);
    return GS_OK;
}

/* Groups are never split, so each worker's part of a batch, each pass and each micro-batch must hold at least one. */
static gs_status check_ghost(const gs_settings *s, size_t batch, int workers) {
    const int parts = gs_batch_shards(s, workers), passes = gs_passes(s);
    const size_t group = s->batch_norm.group, cuts = (size_t)parts * (size_t)passes,
                 most = s->micro_batch ? s->micro_batch : GS_MICRO_BATCH,
                 groups = (batch + group - 1) / group;
    const gs_shard part = gs_schedule_cut(batch, 0, parts, group),
                   pass = gs_schedule_cut(part.count, 0, passes, group);
    if (group > 1 && groups < cuts)
        return gs_fail(
            GS_E_USAGE,
            "--batch-norm ghost:%zu: a batch of %zu samples has %zu group%s, which cannot be divided "
            "among %zu %s; wanted a G of at most %zu",
            group, batch, groups, gs_s(groups), cuts,
            s->exact     ? "virtual shards"
            : passes > 1 ? s->pipeline > 1 ? "micro-batches" : "passes"
                         : "workers",
            batch / cuts > 1 ? batch / cuts : 1);
    if (pass.count > most && most % group != 0)
        return gs_fail(
            GS_E_USAGE,
            "--batch-norm ghost:%zu: %zu samples are computed in micro-batches of %zu, which are no whole "
            "groups; wanted a G that divides %zu, or another --micro-batch",
            group, pass.count, most, most);
    return GS_OK;
}

gs_status gs_check_batch_norm(const gs_settings *s, const gs_dataset *set, int workers) {
    const size_t batch = s->batch ? s->batch : set->count;
    bool has;
    GS_TRY(gs_has_batch_norm(s, set->shape, &has));
    if (has && s->batch_norm.over == GS_BATCH_NORM_GLOBAL) return check_global(s, batch, workers);
    if (s->batch_norm.over == GS_BATCH_NORM_GHOST) return check_ghost(s, batch, workers);
    return GS_OK;
}

/* ---- in a step ---- */

static gs_status sum_over_workers(void *worker, double *numbers, size_t count) {
    const gs_worker *w = worker;
    return gs_comm_all_reduce(w->groups.comm[GS_DP], numbers, count, GS_F64, GS_SUM);
}

/* --exact: gather the numbers of all leaves, and add them in order. */
static gs_status sum_over_leaves(void *worker, double *numbers, size_t count) {
    const gs_worker *w = worker;
    gs_comm *c = w->groups.comm[GS_DP];
    const size_t each = GS_LEAVES / (size_t)c->size * count;
    double *mine = numbers + (size_t)c->rank * each;
    memmove(mine, numbers, each * sizeof *mine);
    GS_TRY(gs_comm_all_gather(c, mine, numbers, each, GS_F64));
    for (size_t i = count; i < GS_LEAVES * count; i++) numbers[i % count] += numbers[i];
    return GS_OK;
}

bool gs_batch_norm_is_shared(const gs_worker *w) {
    const gs_settings *s = w->settings;
    if (s->batch_norm.over != GS_BATCH_NORM_GLOBAL || w->strategy->apart) return false;
    if (w->groups.layout.dp == 1 && !s->exact) return false; /* with --exact one worker has several shards */
    return gs_layer_depends_on_batch(w->model->net);
}

void gs_batch_norm_begin(gs_worker *w, gs_pass *pass) {
    pass->group = w->settings->batch_norm.group;
    if (!gs_batch_norm_is_shared(w)) return;
    pass->sum_over_workers = w->settings->exact ? sum_over_leaves : sum_over_workers;
    pass->sum_context = w;
}
