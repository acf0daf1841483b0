/* What goes between workers with ZeRO: reduce-scatter and all-gather of a unit, and the sum of what all hold. */
#include "comm/device.h"
#include "core/clock.h"
#include "train/timeline/timeline.h"
#include "train/internal.h"
#include "train/order.h"
#include "train/zero/zero.h"

/* A collective is made of messages that carry `floats` floats to each other worker. */
static void count_sent(gs_worker *w, double floats) {
    w->measured.sent += (w->groups.layout.dp - 1) * floats * sizeof(float);
}

/* ---- --exact: the tree of ../order.h ---- */

/* After the last leaf x is the sum of all: it needs no place. */
static void add_leaf(const gs_zero *z, float *x, size_t at, size_t count, int leaf) {
    const bool added = z->stage == 1 && gs_has_stages(z->worker); /* by the pipeline itself */
    if (z->worker->order.leaves > 1 && !added) (void)gs_order_add(&z->worker->order, at, count, leaf, x);
}

/* ---- gradients ---- */

/* own = this replica's part of the sum of all replicas' x, a unit; it may be its place in x. z->arrived has room for
 * the own parts of all, where they are added neighbours first (order.h); else they are in the collective's order. */
static gs_status reduce_unit(const gs_zero *z, const gs_held_unit *u, const float *x, float *own) {
    gs_worker *w = z->worker;
    gs_comm *c = w->groups.comm[GS_DP];
    if (u->own == 0) return GS_OK;
    count_sent(w, (double)u->own);
    if (!z->arrived) return gs_comm_reduce_scatter(c, x, own, u->own * (size_t)c->size, GS_F32, GS_SUM);
    GS_TRY(gs_comm_all_to_all(c, x, z->arrived, u->own, GS_F32));
    gs_add_neighbours(w->device, z->arrived, u->own, c->size);
    gs_host_copy(w->device, own, z->arrived, u->own * sizeof *own);
    return GS_OK;
}

/* On all replicas. An all-reduce sends at least what a reduce-scatter and an all-gather do. */
static gs_status sum_of_all(const gs_zero *z, float *x, size_t count) {
    gs_comm *c = z->worker->groups.comm[GS_DP];
    if (count == 0) return GS_OK;
    count_sent(z->worker, z->arrived ? (double)count : 2.0 * (double)count / c->size);
    if (!z->arrived) return gs_comm_all_reduce(c, x, count, GS_F32, GS_SUM);
    GS_TRY(gs_comm_all_gather(c, x, z->arrived, count, GS_F32));
    gs_add_neighbours(z->worker->device, z->arrived, count, c->size);
    gs_host_copy(z->worker->device, x, z->arrived, count * sizeof *x);
    return GS_OK;
}

/* Stage 1: in place. */
static gs_status reduce_whole(gs_zero *z, const gs_held_unit *u, float *x) {
    return reduce_unit(z, u, x, x + u->own * (size_t)z->own->replica);
}

/* Stages 2 and 3: from the window x to the parts that are kept, where the first pass writes and the others add. */
static gs_status reduce_to_part(gs_zero *z, const gs_held_unit *u, const float *x, bool first) {
    gs_device *d = z->worker->device;
    const gs_mem own = gs_at(z->own->gradients, u->own_at), rest = gs_at(z->own->gradients, u->rest_at);
    void *kept;
    GS_TRY(d->ops->map(d, own, u->own * sizeof(float), &kept));
    gs_status status = reduce_unit(z, u, x, first ? kept : z->sum);
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

static gs_status reduce(gs_zero *z, const gs_job *e) {
    gs_device *d = z->worker->device;
    const gs_held_unit *u = &z->own->unit[e->unit];
    const gs_mem gradients = u->gradients;
    gs_status status = GS_OK;
    void *x;
    GS_TRY(d->ops->map(d, gradients, u->count * sizeof(float), &x));
    add_leaf(z, x, u->at, u->count, e->part);
    if (e->last) status = z->stage > 1 ? reduce_to_part(z, u, x, e->first) : reduce_whole(z, u, x);
    return gs_device_unmap_after(d, gradients, x, status);
}

/* ---- weights ---- */

static gs_status gather(gs_zero *z, const gs_job *e) {
    gs_device *d = z->worker->device;
    const gs_held_unit *u = &z->own->unit[e->unit];
    const gs_mem weights = u->weights;
    gs_status status = GS_OK;
    void *host;
    GS_TRY(d->ops->map(d, weights, u->count * sizeof(float), &host));
    float *all = host, *own = all + u->own * (size_t)z->own->replica;
    if (z->stage > 2) {
        status = d->ops->read(d, own, gs_at(z->own->weights, u->own_at), u->own * sizeof(float));
        if (status == GS_OK)
            status = d->ops->read(d, all + u->count - u->rest, gs_at(z->own->weights, u->rest_at),
                                  u->rest * sizeof(float));
    }
    if (e->counted) count_sent(z->worker, (double)u->own);
    if (status == GS_OK && u->own > 0)
        status = gs_comm_all_gather(z->worker->groups.comm[GS_DP], own, all, u->own, GS_F32);
    return gs_device_unmap_after(d, weights, host, status);
}

gs_status gs_zero_run(void *zero, const gs_job *e) {
    const gs_zero *z = zero;
    const bool gathers = e->what == GS_ZERO_GATHER;
    const gs_held_unit *u = &z->own->unit[e->unit];
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
    if (!gathers && z->stage > 1) gs_zero_show_summed(zero, e->unit);
    return GS_OK;
}

/* ---- what all hold ---- */

gs_status gs_zero_add_tail(gs_zero *z, int k) {
    const gs_model *m = z->worker->model;
    gs_device *d = z->worker->device;
    const gs_mem tail = gs_at(m->gradients, m->params);
    const size_t count = gs_model_tail(m);
    void *x;
    if (z->worker->order.leaves < 2) return GS_OK;
    GS_TRY(d->ops->map(d, tail, count * sizeof(float), &x));
    add_leaf(z, x, m->params, count, k);
    return d->ops->unmap(d, tail, x);
}

/* `count` of this worker's gradients, from `at` on. */
static gs_status sum_range(gs_zero *z, size_t at, size_t count) {
    gs_device *d = z->worker->device;
    const gs_mem place = gs_at(z->own->gradients, at);
    void *x;
    if (count == 0) return GS_OK;
    GS_TRY(d->ops->map(d, place, count * sizeof(float), &x));
    return gs_device_unmap_after(d, place, x, sum_of_all(z, x, count));
}

/* They lie one after the other. */
gs_status gs_zero_sum_common(gs_zero *z) {
    const size_t tail = gs_model_tail(z->worker->model), rest = z->own->rest;
    return sum_range(z, z->stage > 1 ? z->own->own : z->worker->model->params - rest, rest + tail);
}

/* ---- in a pipeline ---- */

gs_status gs_zero_sum_stage(gs_zero *z) {
    const gs_held_unit *u = z->own->unit;
    for (int i = 0; i < z->own->count; i++) {
        const gs_job job = {.what = GS_ZERO_REDUCE, .unit = i, .first = true, .last = true};
        if (z->stage == 1 || gs_zero_adds_up(z, i)) GS_TRY(gs_zero_run(z, &job));
        if (z->stage == 1) GS_TRY(sum_range(z, u[i].at + u[i].count - u[i].rest, u[i].rest));
    }
    if (z->stage > 1) GS_TRY(sum_range(z, z->own->own, z->own->rest));
    return gs_sum_states(z->worker);
}
