#include "train/reducers/zero.h"

#include <stdio.h>
#include <stdlib.h>

#include "comm/device.h"
#include "core/clock.h"
#include "layer/watch.h"
#include "train/strategy.h"
#include "train/tensor.h"
#include "train/timeline.h"

/* Memory that holds a whole unit while the unit is needed. */
typedef struct zero_window {
    size_t floats; /* in each of the next two */
    gs_mem weights, gradients;
    uint64_t reading; /* the job that reads these gradients; it must end before others are written */
    double weights_since, gradients_since; /* for the timeline: when these arrived; 0: the window is empty */
    int holds;                             /* the unit to which these weights belong */
} zero_window;

/* A unit of this worker: its window, and whether its weights are in it. */
typedef struct zero_unit {
    zero_window *window;
    bool there;
    uint64_t gathering; /* the job that gathers them */
    int passes;         /* number of passes in this step whose gradients were taken */
} zero_unit;

typedef struct zero_reducer {
    gs_worker *worker;
    int stage;
    gs_partition *own;   /* the worker's partition */
    zero_unit *unit;     /* stages 2 and 3 */
    zero_window *window; /* two, and one for each unit that stays */
    int windows;
    size_t held_weights, held_gradients; /* in floats, including windows */
    gs_jobs *jobs;
    gs_layer_hooks hooks;
    int most;       /* passes in this step so far, on the worker with the most samples */
    float *sum;     /* for the largest part of a unit, if passes add to earlier ones; otherwise NULL */
    float *arrived; /* for all workers' parts, if they are added in the order of a tree; otherwise NULL */
} zero_reducer;

/* True for a shared table in a pipeline: another stage sends its part of the gradient after all micro-batches, and
 * until then this stage's parts add up in the table's window. (With --exact it sends one after each micro-batch.) */
static bool adds_up(const zero_reducer *z, int unit) {
    return z->own->unit[unit].stays && gs_has_stages(z->worker) && !z->worker->settings->exact;
}

/* Jobs for a unit: gather the whole weights from all parts; reduce all gradients to this worker's part of their sum. */
enum { GATHER, REDUCE };

/* ---- for the timeline ---- */

/* Record that a window has held a unit from `since` until now. */
static void show_window(zero_reducer *z, gs_span_kind kind, int first_row, const zero_window *window,
                        int unit, double since) {
    const gs_partition_unit *u = &z->own->unit[unit];
    const int number = (int)(window - z->window);
    if (number >= GS_WINDOW_ROWS || since <= 0) return;
    gs_timeline_span(z->worker, &(gs_span){.start = since,
                                           .end = gs_seconds(),
                                           .bytes = u->count * sizeof(float),
                                           .first = u->first,
                                           .count = u->count,
                                           .row = first_row + number,
                                           .kind = (int32_t)kind,
                                           .index = unit});
}

/* Record that the weights in a window are no longer needed. */
static void let_go(zero_reducer *z, zero_window *window) {
    show_window(z, GS_SPAN_UNIT_WEIGHTS, GS_ROW_WEIGHTS, window, window->holds, window->weights_since);
    window->weights_since = 0;
}

/* Count a collective that sends `floats` floats to each other worker. */
static void count_sent(gs_worker *w, double floats) {
    w->measured.sent += (w->groups.layout.dp - 1) * floats * sizeof(float);
}

/* --exact: leaf `leaf` joins the tree of ../ordered_sums.h. After the last leaf, x itself is the sum of all leaves. */
static void add_leaf(const zero_reducer *z, float *x, size_t at, size_t count, int leaf) {
    const bool added = z->stage == 1 && gs_has_stages(z->worker); /* by the pipeline itself */
    if (z->worker->ordered_sums.parts > 1 && !added)
        (void)gs_ordered_sums_add(&z->worker->ordered_sums, at, count, leaf, x);
}

/* ---- gradients ---- */

/* sum = the sum of all replicas' x, of `count` elements; with `part`, only this replica's `count` elements of that sum.
 * `sum` may lie in x. If z->arrived exists, all replicas' elements are added there, neighbours first (ordered_sums.h);
 * otherwise in the collective's order. An all-reduce sends at least as much as a reduce-scatter and an all-gather. */
static gs_status sum_of_all(const zero_reducer *z, bool part, const float *x, float *sum, size_t count) {
    gs_worker *w = z->worker;
    gs_comm *c = w->groups.comm[GS_DP];
    if (count == 0) return GS_OK;
    count_sent(w, part || z->arrived ? (double)count : 2.0 * (double)count / c->size);
    if (!z->arrived)
        return part ? gs_comm_reduce_scatter(c, x, sum, count * (size_t)c->size, GS_F32, GS_SUM)
                    : gs_comm_all_reduce(c, sum, count, GS_F32, GS_SUM);
    GS_TRY(part ? gs_comm_all_to_all(c, x, z->arrived, count, GS_F32)
                : gs_comm_all_gather(c, x, z->arrived, count, GS_F32));
    gs_add_neighbours(w->device, z->arrived, count, c->size);
    gs_host_copy(w->device, sum, z->arrived, count * sizeof *sum);
    return GS_OK;
}

/* Stages 2 and 3: reduce the window x to the parts that this worker keeps. The first pass writes, later passes add. */
static gs_status reduce_to_part(zero_reducer *z, const gs_partition_unit *u, const float *x, bool first) {
    gs_device *d = z->worker->device;
    const gs_mem own = gs_at(z->own->gradients, u->own_at), rest = gs_at(z->own->gradients, u->rest_at);
    void *kept;
    GS_TRY(d->ops->map(d, own, u->own * sizeof(float), &kept));
    gs_status status = sum_of_all(z, true, x, first ? kept : z->sum, u->own);
    if (status == GS_OK && !first) gs_host_add(d, kept, z->sum, u->own);
    GS_TRY(gs_device_unmap_after(d, own, kept, status));
    if (u->rest == 0) return GS_OK;
    GS_TRY(d->ops->map(d, rest, u->rest * sizeof(float), &kept));
    if (first)
        gs_host_copy(d, kept, x + u->count - u->rest, u->rest * sizeof(float));
    else
        gs_host_add(d, kept, x + u->count - u->rest, u->rest);
    return d->ops->unmap(d, rest, kept);
}

static gs_status reduce(zero_reducer *z, const gs_job *e) {
    gs_device *d = z->worker->device;
    const gs_partition_unit *u = &z->own->unit[e->unit];
    const gs_mem gradients = u->gradients;
    gs_status status = GS_OK;
    void *host;
    GS_TRY(d->ops->map(d, gradients, u->count * sizeof(float), &host));
    float *x = host;
    add_leaf(z, x, u->at, u->count, e->part);
    if (e->last && z->stage > 1) status = reduce_to_part(z, u, x, e->first);
    if (e->last && z->stage == 1)
        status = sum_of_all(z, true, x, x + u->own * (size_t)z->own->dp_rank, u->own);
    return gs_device_unmap_after(d, gradients, x, status);
}

/* ---- weights ---- */

static gs_status gather(zero_reducer *z, const gs_job *e) {
    gs_device *d = z->worker->device;
    const gs_partition_unit *u = &z->own->unit[e->unit];
    const gs_mem weights = u->weights;
    gs_status status = GS_OK;
    void *host;
    GS_TRY(d->ops->map(d, weights, u->count * sizeof(float), &host));
    float *all = host, *own = all + u->own * (size_t)z->own->dp_rank;
    if (z->stage > 2) status = gs_partition_read(z->worker, u, all);
    if (e->counted) count_sent(z->worker, (double)u->own);
    if (status == GS_OK && u->own > 0)
        status = gs_comm_all_gather(z->worker->groups.comm[GS_DP], own, all, u->own, GS_F32);
    return gs_device_unmap_after(d, weights, host, status);
}

static gs_status run_job(void *zero, const gs_job *e) {
    const zero_reducer *z = zero;
    const bool gathers = e->what == GATHER;
    const gs_partition_unit *u = &z->own->unit[e->unit];
    const double start = gs_seconds();
    GS_TRY(gathers ? gather(zero, e) : reduce(zero, e));
    if (!gathers && !e->last) return GS_OK; /* nothing was sent */
    gs_timeline_span(z->worker,
                     &(gs_span){.start = start,
                                .end = gs_seconds(),
                                .bytes = (uint64_t)(z->worker->groups.layout.dp - 1) * u->own * sizeof(float),
                                .first = u->first,
                                .count = u->count,
                                .row = z->jobs && gs_jobs_have_thread(z->jobs) ? GS_ROW_SYNC : GS_ROW_COMPUTE,
                                .kind = gathers ? GS_SPAN_UNIT_GATHER : GS_SPAN_UNIT_REDUCE,
                                .index = e->unit});
    const zero_window *window = z->unit ? z->unit[e->unit].window : NULL;
    if (!gathers && window)
        show_window(zero, GS_SPAN_UNIT_GRADIENTS, GS_ROW_GRADIENTS, window, e->unit, window->gradients_since);
    return GS_OK;
}

/* ---- what all workers hold ---- */

/* Sum `count` of this worker's gradients, starting at `at`. */
static gs_status sum_range(zero_reducer *z, size_t at, size_t count) {
    gs_device *d = z->worker->device;
    const gs_mem here = gs_at(z->own->gradients, at);
    void *x;
    if (count == 0) return GS_OK;
    GS_TRY(d->ops->map(d, here, count * sizeof(float), &x));
    return gs_device_unmap_after(d, here, x, sum_of_all(z, false, x, x, count));
}

/* The rests and the model's tail are adjacent in memory. */
static gs_status sum_common(zero_reducer *z) {
    const size_t tail = gs_model_tail(z->worker->model), rest = z->own->rest;
    return sum_range(z, z->stage > 1 ? z->own->own : z->worker->model->params - rest, rest + tail);
}

static gs_status sum_stage(zero_reducer *z) {
    const gs_partition_unit *u = z->own->unit;
    for (int i = 0; i < z->own->count; i++) {
        const gs_job job = {.what = REDUCE, .unit = i, .first = true, .last = true};
        if (z->stage == 1 || adds_up(z, i)) GS_TRY(run_job(z, &job));
        if (z->stage == 1) GS_TRY(sum_range(z, u[i].at + u[i].count - u[i].rest, u[i].rest));
    }
    if (z->stage > 1) GS_TRY(sum_range(z, z->own->own, z->own->rest));
    return gs_sum_states(z->worker);
}

/* ---- windows ----
 *
 * In stages 2 and 3, layers find gradients and (in stage 3) weights in windows. While a layer computes, the weights of
 * the next one are gathered, and the gradients of the previous one are summed and dropped. */

static gs_status make_window(zero_reducer *z, zero_window *window) {
    gs_device *d = z->worker->device;
    GS_TRY(gs_alloc(d, GS_MEMORY_GRADIENTS, window->floats * sizeof(float), &window->gradients));
    z->held_gradients += window->floats;
    if (z->stage < 3) return GS_OK;
    z->held_weights += window->floats;
    return gs_alloc(d, GS_MEMORY_WEIGHTS, window->floats * sizeof(float), &window->weights);
}

/* Units alternate between two windows, each as large as its largest unit; a unit that stays has a separate window. */
static gs_status make_windows(zero_reducer *z) {
    gs_partition_unit *u = z->own->unit;
    int turns = 0;
    GS_TRY(GS_NEW(z->unit, z->own->count, "%d units (--zero)", z->own->count));
    GS_TRY(GS_NEW(z->window, z->own->count + 2, "windows of %d units (--zero)", z->own->count));
    z->windows = 2;
    for (int i = 0; i < z->own->count; i++) {
        zero_window *window = z->unit[i].window = &z->window[u[i].stays ? z->windows++ : turns++ % 2];
        if (u[i].count > window->floats) window->floats = u[i].count;
    }
    for (int i = 0; i < z->windows; i++) GS_TRY(make_window(z, &z->window[i]));
    for (int i = 0; i < z->own->count; i++) {
        u[i].gradients = z->unit[i].window->gradients;
        if (z->stage > 2) u[i].weights = z->unit[i].window->weights;
    }
    return GS_OK;
}

static void free_windows(zero_reducer *z) {
    gs_device *d = z->worker->device;
    for (int i = 0; i < z->windows; i++) {
        d->ops->free(d, z->window[i].gradients);
        d->ops->free(d, z->window[i].weights);
    }
    free(z->window);
    free(z->unit);
}

/* ---- weights into windows ---- */

static gs_status ask_for(zero_reducer *z, int unit, const gs_pass *pass) {
    zero_unit *u = &z->unit[unit];
    if (u->there) return GS_OK;
    u->there = true;
    let_go(z, u->window);
    u->window->weights_since = gs_seconds();
    u->window->holds = unit;
    const gs_job job = {
        .run = run_job, .context = z, .what = GATHER, .unit = unit, .counted = pass->training};
    return gs_jobs_give(z->jobs, job, &u->gathering);
}

static gs_status need(zero_reducer *z, int unit, const gs_pass *pass) {
    GS_TRY(ask_for(z, unit, pass));
    return gs_jobs_wait(z->jobs, z->unit[unit].gathering);
}

/* Wait for a unit's weights, and request the next unit's weights into the other window, whose earlier unit is done. */
static gs_status bring_weights(zero_reducer *z, int unit, const gs_pass *pass, bool backward) {
    const gs_partition_unit *u = z->own->unit;
    const int next = backward ? unit - 1 : unit + 1;
    if (z->stage < 3) return GS_OK;
    GS_TRY(need(z, unit, pass));
    return next >= 0 && next < z->own->count && u[next].run == u[unit].run ? ask_for(z, next, pass) : GS_OK;
}

/* ---- gradients out of windows ---- */

/* Wait until the window's earlier gradients have been read. If the pass adds to gradients, clear the window: earlier
 * sums are kept elsewhere. */
static gs_status make_room(zero_reducer *z, int unit, const gs_pass *pass) {
    zero_window *window = z->unit[unit].window;
    gs_device *d = z->worker->device;
    if (adds_up(z, unit) && (pass->fresh || z->unit[unit].passes > 0)) return GS_OK;
    GS_TRY(gs_jobs_wait(z->jobs, window->reading));
    window->gradients_since = gs_seconds();
    return pass->fresh ? GS_OK : d->ops->fill(d, window->gradients, 0, z->own->unit[unit].count);
}

static gs_status take_gradients(zero_reducer *z, int unit) {
    const bool exact = z->worker->settings->exact; /* each pass is a leaf */
    const int pass = z->unit[unit].passes++;
    const gs_job job = {.run = run_job,
                        .context = z,
                        .what = REDUCE,
                        .unit = unit,
                        .part = exact ? pass : 0,
                        .first = exact || pass == 0,
                        .last = !exact || pass + 1 == gs_ordered_sums_parts(&z->worker->ordered_sums)};
    if (adds_up(z, unit)) return GS_OK;
    return gs_jobs_give(z->jobs, job, &z->unit[unit].window->reading);
}

/* ---- hooks of layers ---- */

/* The unit that a pass enters at this layer; -1: none. Backward enters at a unit's last layer. */
static int unit_entered(const zero_reducer *z, int child, bool backward) {
    for (int i = 0; i < z->own->count; i++)
        if (child == (backward ? z->own->unit[i].end - 1 : z->own->unit[i].begin)) return i;
    return -1;
}

/* True if a pass enters one of this worker's runs at this layer. */
static bool begins_run(const zero_reducer *z, int child, bool backward) {
    bool found = false;
    for (int i = 0; i < z->own->runs; i++)
        found |= child == (backward ? z->own->run[i].end - 1 : z->own->run[i].begin);
    return found;
}

/* Forward and backward begin without any weights. Backward first gathers the weights that stay, because the layer that
 * borrows them is the first to use them. (In a pipeline that layer is in another stage.) */
static gs_status begin_pass(zero_reducer *z, const gs_pass *pass, bool backward) {
    for (int i = 0; i < z->own->count; i++) z->unit[i].there = false;
    for (int i = 0; i < z->windows; i++) let_go(z, &z->window[i]);
    for (int i = 0; i < z->own->count && backward && !gs_has_stages(z->worker); i++) {
        if (!z->own->unit[i].stays) continue;
        if (z->stage > 2) GS_TRY(need(z, i, pass));
        GS_TRY(make_room(z, i, pass));
    }
    return GS_OK;
}

static gs_status begins(void *zero, const gs_pass *pass, int child, bool backward) {
    zero_reducer *z = zero;
    const int unit = unit_entered(z, child, backward);
    const bool had_room = !backward || (unit >= 0 && z->own->unit[unit].stays && !gs_has_stages(z->worker));
    if (begins_run(z, child, backward)) GS_TRY(begin_pass(z, pass, backward));
    if (unit < 0) return GS_OK;
    GS_TRY(bring_weights(z, unit, pass, backward));
    return had_room ? GS_OK : make_room(z, unit, pass);
}

static gs_status ended(void *zero, const gs_pass *pass, int child) {
    zero_reducer *z = zero;
    const int unit = unit_entered(z, child, false);
    (void)pass;
    return unit < 0 ? GS_OK : take_gradients(z, unit);
}

static gs_status bind_windows(zero_reducer *z) {
    gs_model *m = z->worker->model;
    GS_TRY(make_windows(z));
    m->gradients_apart = z->held_gradients;
    if (z->stage > 2) m->weights_apart = z->held_weights;
    z->hooks = (gs_layer_hooks){.begins = begins, .ended = ended, .context = z};
    gs_layer_add_hooks(m->net, &z->hooks);
    return gs_has_stages(z->worker) ? GS_OK : gs_partition_bind(z->own, m->net);
}

/* ---- passes ---- */

static gs_status join_run(zero_reducer *z, int run, const gs_pass *pass, bool backward) {
    const gs_partition_run *r = &z->own->run[run];
    for (int i = r->begin; i < r->end && !backward; i++) GS_TRY(begins(z, pass, i, false));
    for (int i = r->end - 1; i >= r->begin && backward; i--) {
        GS_TRY(begins(z, pass, i, true));
        GS_TRY(ended(z, pass, i));
    }
    return GS_OK;
}

/* The number of passes on the first worker, which has the largest part of this batch. */
static int most_passes(const gs_worker *w) {
    const gs_schedule *s = &w->schedule;
    const size_t part = gs_schedule_cut(w->micro_batch.batch, 0, s->parts, s->together).count;
    size_t passes = 0;
    for (int i = 0; i < s->passes; i++)
        passes += (gs_schedule_cut(part, i, s->passes, s->together).count + s->most - 1) / s->most;
    return (int)passes;
}

/* Join those passes of a leaf that other workers still make when this one has no more samples. A model without weights
 * has no units, and needs no joining. */
static gs_status join_leaf(zero_reducer *z) {
    const gs_pass pass = {.training = true};
    z->most += most_passes(z->worker);
    while (z->own->count > 0 && z->unit[0].passes < z->most) {
        GS_TRY(join_run(z, 0, &pass, false));
        GS_TRY(join_run(z, 0, &pass, true));
    }
    for (int i = 0; i < z->windows; i++) let_go(z, &z->window[i]);
    return GS_OK;
}

/* ---- the reducer: creation and release ---- */

enum { ROOM = 16 /* pending collectives */ };

/* Allocate a buffer for gradients. */
static gs_status floats(zero_reducer *z, size_t count, float **out) {
    z->held_gradients += count;
    return gs_context(gs_host_alloc(z->worker, GS_MEMORY_COMMUNICATION, count * sizeof **out, out), "--zero");
}

static size_t largest_part(const zero_reducer *z) {
    size_t most = 0;
    for (int i = 0; i < z->own->count; i++)
        if (z->own->unit[i].own > most) most = z->own->unit[i].own;
    return most;
}

/* Allocate room for all replicas' parts; with --exact also for this worker's leaves, unless the pipeline keeps them. */
static gs_status make_tree(zero_reducer *z) {
    const gs_model *m = z->worker->model;
    const bool stages = gs_has_stages(z->worker);
    const size_t common = z->own->rest + (stages ? 0 : gs_model_tail(m)), part = largest_part(z);
    if (z->worker->settings->exact && !stages) {
        GS_TRY(gs_ordered_sums_create(z->worker, m->saved + GS_STATS));
        z->held_gradients += z->worker->ordered_sums.floats;
    }
    return floats(z, (part > common ? part : common) * (size_t)z->worker->groups.layout.dp, &z->arrived);
}

/* If a virtual shard were computed in several micro-batches, its sums would be added in a different order. */
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

/* True if a step may have several passes. */
static bool has_passes(const gs_worker *w) {
    const gs_schedule *s = &w->schedule;
    return s->passes > 1 || gs_schedule_cut(s->batch, 0, s->parts, s->together).count > s->most;
}

/* True if a thread can do the sums: the worker and its layers send nothing themselves between jobs, and the device has
 * no memory of its own (only the worker's thread may call such a device). */
static bool has_thread(const gs_worker *w) {
    return w->device->ops->host_memory && !gs_batch_norm_is_shared(w) && w->groups.layout.tp == 1 &&
           !gs_has_stages(w);
}

static gs_status create(gs_worker *w) {
    zero_reducer *z;
    GS_TRY(GS_NEW(z, 1, "--zero"));
    w->reducer_state = z;
    z->worker = w;
    z->stage = w->settings->zero;
    z->own = &w->partition;
    if (!gs_has_stages(w)) w->sync_most = GS_STATS;
    if (w->settings->exact || gs_tensor_needs_order(w)) GS_TRY(make_tree(z));
    z->held_weights = z->stage < 3 ? w->model->saved : w->model->weights_apart;
    z->held_gradients += z->stage < 2 ? w->model->saved + GS_STATS : w->model->gradients_apart;
    if (z->stage == 1) return GS_OK;
    if (w->settings->exact && !gs_has_stages(w)) GS_TRY(check_shards(w));
    if (has_passes(w)) GS_TRY(floats(z, largest_part(z), &z->sum));
    GS_TRY(gs_context(w->jobs(w, has_thread(w) ? ROOM : 0, &z->jobs), "--zero"));
    return bind_windows(z);
}

static void free_zero(gs_worker *w) {
    zero_reducer *z = w->reducer_state;
    if (!z) return;
    gs_jobs_free(z->jobs);
    free_windows(z);
    free(z->arrived);
    free(z->sum);
    free(z);
}

/* ---- a step ---- */

static gs_status add(gs_worker *w, int k) {
    zero_reducer *z = w->reducer_state;
    gs_job job = {
        .what = REDUCE, .part = k, .first = true, .last = k + 1 == gs_ordered_sums_parts(&w->ordered_sums)};
    if (z->stage > 1) GS_TRY(join_leaf(z));
    const gs_model *m = w->model;
    GS_TRY(gs_ordered_sums_add_here(w, gs_at(m->gradients, m->params), m->params, gs_model_tail(m), k));
    for (; job.unit < z->own->count && z->stage == 1; job.unit++) GS_TRY(run_job(z, &job));
    return GS_OK;
}

static gs_status finish(gs_worker *w) {
    zero_reducer *z = w->reducer_state;
    if (z->stage > 1) GS_TRY(gs_jobs_wait_for_all(z->jobs));
    z->most = 0; /* for the next step */
    for (int i = 0; i < z->own->count && z->stage > 1; i++) z->unit[i].passes = 0;
    if (gs_has_stages(w)) return sum_stage(z);
    GS_TRY(gs_tell_wish_to_stop(w));
    return sum_common(z);
}

static gs_status gather_new_weights(gs_worker *w) {
    zero_reducer *z = w->reducer_state;
    for (int i = 0; i < z->own->count; i++) /* in stage 3, only for a table that another stage waits for */
        if (z->stage < 3 || (z->own->unit[i].stays && gs_has_stages(w)))
            GS_TRY(run_job(z, &(gs_job){.what = GATHER, .unit = i, .counted = true}));
    return gs_phase_ends(w, GS_PHASE_SYNC);
}

static gs_status join(gs_worker *w, int run, const gs_pass *pass, bool backward) {
    zero_reducer *z = w->reducer_state;
    return z->stage > (backward ? 1 : 2) ? join_run(z, run, pass, backward) : GS_OK;
}

static void report(const gs_worker *w, gs_result *result) {
    const zero_reducer *z = w->reducer_state;
    const gs_optimizer *o = w->optimizer;
    const double workers = w->groups.layout.dp, model = (double)w->model->params * sizeof(float);
    if (gs_has_stages(w)) return; /* a stage holds no array of the whole model */
    result->zero = (gs_zero_report){.stage = z->stage,
                                    .dp = w->groups.layout.dp,
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
                                    .gather = gather_new_weights,
                                    .join = join,
                                    .report = report};
