#include "train/zero/zero.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/device.h"
#include "core/shard.h"
#include "train/internal.h"
#include "train/tensor/tensor.h"

enum { ROOM = 16 /* collectives that wait */ };

/* ---- making and freeing ---- */

/* Buffers of gradients. */
static gs_status floats(gs_zero *z, size_t count, float **out) {
    *out = gs_host_alloc(z->worker, GS_MEMORY_COMMUNICATION, count * sizeof **out);
    z->held_gradients += count;
    return *out ? GS_OK : gs_fail(GS_E_MEMORY, "--zero: no memory for %zu floats", count);
}

static size_t largest_part(const gs_zero *z) {
    size_t most = 0;
    for (int i = 0; i < z->own->count; i++)
        if (z->own->unit[i].own > most) most = z->own->unit[i].own;
    return most;
}

/* Room for what comes from all replicas; and with --exact for a worker's own leaves, which a pipeline has itself. */
static gs_status make_tree(gs_zero *z) {
    const gs_model *m = z->worker->model;
    const bool stages = gs_has_stages(z->worker);
    const size_t common = z->own->rest + (stages ? 0 : gs_model_tail(m)), part = largest_part(z);
    if (z->worker->settings->exact && !stages) {
        GS_TRY(gs_order_create(z->worker, m->saved + GS_STATS));
        z->held_gradients += z->worker->order.floats;
    }
    return floats(z, (part > common ? part : common) * (size_t)z->worker->groups.layout.dp, &z->arrived);
}

/* A shard of several pieces would be added in another order than one that is computed at once. */
static gs_status check_shards(const gs_worker *w) {
    const gs_schedule *s = &w->schedule;
    const size_t shard = gs_schedule_cut(s->batch, 0, s->parts, s->together).count;
    if (shard <= s->most) return GS_OK;
    return gs_fail(
        GS_E_USAGE,
        "--exact --zero %d: a virtual shard of --batch %zu has %zu samples, more than the %zu that are "
        "computed at once, and its sum would be split; wanted a batch of at most %zu",
        w->settings->zero, s->batch, shard, s->most, s->most * (size_t)s->parts);
}

/* May a step have more than one pass? */
static bool has_passes(const gs_worker *w) {
    const gs_schedule *s = &w->schedule;
    return s->passes > 1 || gs_schedule_cut(s->batch, 0, s->parts, s->together).count > s->most;
}

/* Between jobs the worker must make no collective or message of its own, nor may its layers; and where its device has
 * memory of its own, no thread but the worker's may call it. */
static bool has_thread(const gs_worker *w) {
    return w->device->ops->host_memory && !gs_batch_norm_is_shared(w) && !w->tensor && !gs_has_stages(w);
}

static gs_status create(gs_worker *w) {
    gs_zero *z = w->reducer_state = calloc(1, sizeof *z);
    if (!z) return gs_fail(GS_E_MEMORY, "no memory for --zero");
    z->worker = w;
    z->stage = w->settings->zero;
    z->own = &w->holding;
    if (!gs_has_stages(w)) w->sync_most = GS_STATS;
    if (w->settings->exact || gs_tensor_needs_order(w)) GS_TRY(make_tree(z));
    z->held_weights = z->stage < 3 ? w->model->saved : w->model->weights_apart;
    z->held_gradients += z->stage < 2 ? w->model->saved + GS_STATS : w->model->gradients_apart;
    if (z->stage == 1) return GS_OK;
    if (w->settings->exact && !gs_has_stages(w)) GS_TRY(check_shards(w));
    if (has_passes(w)) GS_TRY(floats(z, largest_part(z), &z->sum));
    GS_TRY(gs_context(gs_worker_jobs(w, has_thread(w) ? ROOM : 0, &z->jobs), "--zero"));
    return gs_zero_make_windows(z);
}

static void free_zero(gs_worker *w) {
    gs_zero *z = w->reducer_state;
    if (!z) return;
    gs_jobs_free(z->jobs);
    gs_zero_free_windows(z);
    free(z->arrived);
    free(z->sum);
    free(z);
}

/* ---- a step ---- */

static gs_status add(gs_worker *w, int k) {
    gs_zero *z = w->reducer_state;
    gs_job job = {
        .what = GS_ZERO_REDUCE, .part = k, .first = true, .last = k + 1 == gs_order_leaves(&w->order)};
    if (z->stage > 1) GS_TRY(gs_zero_attend_leaf(z));
    GS_TRY(gs_zero_add_tail(z, k));
    for (; job.unit < z->own->count && z->stage == 1; job.unit++) GS_TRY(gs_zero_run(z, &job));
    return GS_OK;
}

static gs_status finish(gs_worker *w) {
    gs_zero *z = w->reducer_state;
    if (z->stage > 1) GS_TRY(gs_jobs_wait_for_all(z->jobs));
    z->most = 0; /* in the next step */
    for (int i = 0; i < z->own->count && z->stage > 1; i++) z->unit[i].passes = 0;
    if (gs_has_stages(w)) return gs_zero_sum_stage(z);
    GS_TRY(gs_tell_wish_to_stop(w));
    return gs_zero_sum_common(z);
}

static gs_status spread(gs_worker *w) {
    gs_zero *z = w->reducer_state;
    for (int i = 0; i < z->own->count;
         i++) /* of stage 3 a table that another stage of a pipeline waits for */
        if (z->stage < 3 || (z->own->unit[i].stays && gs_has_stages(w)))
            GS_TRY(gs_zero_run(z, &(gs_job){.what = GS_ZERO_GATHER, .unit = i, .counted = true}));
    return gs_phase_ends(w, GS_PHASE_SYNC);
}

static gs_status attend(gs_worker *w, int run, const gs_pass *pass, bool backward) {
    gs_zero *z = w->reducer_state;
    return z->stage > (backward ? 1 : 2) ? gs_zero_attend(z, run, pass, backward) : GS_OK;
}

static void report(const gs_worker *w, gs_result *result) {
    const gs_zero *z = w->reducer_state;
    const gs_optimizer *o = w->optimizer;
    const double workers = w->groups.layout.dp, model = (double)w->model->params * sizeof(float);
    if (gs_has_stages(w)) return; /* which hold no array of the whole model */
    result->zero = (gs_zero_report){.stage = z->stage,
                                    .replicas = w->groups.layout.dp,
                                    .weights = (double)z->held_weights * sizeof(float),
                                    .gradients = (double)z->held_gradients * sizeof(float),
                                    .vectors = (double)(o->held * (size_t)o->vectors) * sizeof(float),
                                    .model = model,
                                    .formula = (z->stage > 2 ? 3 : 2) * (workers - 1) / workers * model};
}

const gs_reducer gs_reducer_zero = {.create = create,
                                    .free = free_zero,
                                    .add = add,
                                    .finish = finish,
                                    .spread = spread,
                                    .attend = attend,
                                    .report = report};
