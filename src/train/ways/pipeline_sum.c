/* What the stages of pipelines do together: the sum of gradients, with --zero 1 in parts, and the norm. See pipeline.c.
 */
#include "train/ways/pipeline.h"

#include <string.h>

#include "comm/device.h"
#include "sync/scheme.h"
#include "train/internal.h"

/* So many floats go from here to each of `others` workers. */
static void count_sent(gs_worker *w, double floats, int others) {
    w->measured.sent += floats * others * sizeof(float);
}

/* ---- the sum over the pipelines, stage by stage ---- */

static gs_status sum_range(gs_worker *w, const gs_pipeline_worker *p, gs_shard r) {
    gs_comm *c = w->groups.comm[GS_DP];
    const int n = c->size;
    if (r.count == 0 || n == 1) return GS_OK;
    count_sent(w, 2.0 * (double)r.count / n, n - 1);
    return gs_call_run_on_device(c, w->device, &(gs_call){GS_ALL_REDUCE, r.count, GS_F32, GS_SUM, 0}, GS_NONE,
                                 gs_at(p->own.gradients, r.first));
}

/* The levels of the tree above those of one pipeline: recursive doubling, as in exact.c. */
static gs_status sum_leaves(gs_worker *w, gs_pipeline_worker *p, gs_shard r) {
    float *sum = gs_leaf_sums_result(p->leaves) + r.first;
    const size_t bytes = r.count * sizeof *sum;
    gs_comm *c = w->groups.comm[GS_DP];
    if (r.count == 0) return GS_OK;
    for (int distance = 1; distance < c->size; distance *= 2) {
        const int neighbour = c->rank ^ distance;
        count_sent(w, (double)r.count, 1);
        GS_TRY(gs_comm_send(c, sum, bytes, neighbour));
        GS_TRY(gs_comm_recv(c, p->whole, bytes, neighbour));
        gs_sync_add(sum, p->whole, r.count);
    }
    return w->device->ops->write(w->device, gs_at(p->own.gradients, r.first), sum, bytes);
}

static gs_status sum(gs_worker *w, gs_pipeline_worker *p, gs_shard r) {
    return p->leaves ? sum_leaves(w, p, r) : sum_range(w, p, r);
}

/* ---- with --zero 1: each replica of a stage gets its part of the sum ---- */

/* Of a chunk with n replicas: own floats for each, and what is left over, for all. */
typedef struct division {
    size_t at, own, rest; /* at: in this worker's arrays */
} division;

static division divide(const gs_worker *w, const gs_stage_chunk *c) {
    const size_t n = (size_t)w->groups.layout.dp;
    return (division){c->params_at, c->params.count / n, c->params.count % n};
}

static gs_status reduce_scatter(gs_worker *w, gs_pipeline_worker *p, division d) {
    gs_comm *c = w->groups.comm[GS_DP];
    const size_t all = d.own * (size_t)c->size;
    const gs_mem place = gs_at(p->own.gradients, d.at);
    void *host = NULL;
    if (d.own > 0) {
        count_sent(w, (double)d.own, c->size - 1);
        GS_TRY(w->device->ops->map(w->device, place, all * sizeof(float), &host));
        float *x = host;
        const gs_status status =
            gs_comm_reduce_scatter(c, x, x + d.own * (size_t)c->rank, all, GS_F32, GS_SUM);
        GS_TRY(gs_device_unmap_after(w->device, place, host, status));
    }
    return sum_range(w, p, (gs_shard){d.at + all, d.rest});
}

/* The same in the order of a tree, that of --exact: the parts of `sum` come from all replicas, and are added neighbours
 * first. */
static gs_status reduce_scatter_in_order(gs_worker *w, gs_pipeline_worker *p, division d, const float *sum) {
    gs_comm *c = w->groups.comm[GS_DP];
    const size_t all = d.own * (size_t)c->size, mine = d.own * (size_t)c->rank;
    if (d.own > 0) {
        count_sent(w, (double)d.own, c->size - 1);
        GS_TRY(gs_comm_all_to_all(c, sum, p->arrived, d.own, GS_F32));
        gs_add_neighbours(p->arrived, d.own, c->size);
        GS_TRY(w->device->ops->write(w->device, gs_at(p->own.gradients, d.at + mine), p->arrived,
                                     d.own * sizeof(float)));
    }
    if (d.rest == 0) return GS_OK;
    count_sent(w, (double)d.rest, c->size - 1);
    GS_TRY(gs_comm_all_gather(c, sum + all, p->arrived, d.rest, GS_F32));
    gs_add_neighbours(p->arrived, d.rest, c->size);
    return w->device->ops->write(w->device, gs_at(p->own.gradients, d.at + all), p->arrived,
                                 d.rest * sizeof(float));
}

static gs_status sum_params(gs_worker *w, gs_pipeline_worker *p, const gs_stage_chunk *c) {
    if (!w->settings->zero || w->groups.layout.dp == 1)
        return sum(w, p, (gs_shard){c->params_at, c->params.count});
    const division d = divide(w, c);
    if (!p->arrived) return reduce_scatter(w, p, d);
    if (p->leaves) return reduce_scatter_in_order(w, p, d, gs_leaf_sums_result(p->leaves) + d.at);
    GS_TRY(w->device->ops->read(w->device, p->whole, gs_at(p->own.gradients, d.at),
                                c->params.count * sizeof(float)));
    return reduce_scatter_in_order(w, p, d, p->whole);
}

gs_status gs_stage_gather_weights(gs_worker *w, gs_pipeline_worker *p) {
    gs_comm *c = w->groups.comm[GS_DP];
    for (int k = 0; k < p->shape.chunks && w->settings->zero && c->size > 1; k++) {
        const division d = divide(w, &p->chunk[k]);
        const gs_mem place = gs_at(p->own.weights, d.at);
        void *host = NULL;
        if (d.own == 0) continue;
        count_sent(w, (double)d.own, c->size - 1);
        GS_TRY(w->device->ops->map(w->device, place, d.own * (size_t)c->size * sizeof(float), &host));
        float *x = host;
        const gs_status status = gs_comm_all_gather(c, x + d.own * (size_t)c->rank, x, d.own, GS_F32);
        GS_TRY(gs_device_unmap_after(w->device, place, host, status));
    }
    return GS_OK;
}

/* ---- the score ---- */

/* The last stage of the first pipeline has the counts, on each of its parts; the others add 0, so this sum is exact.
 * And everyone can ask to stop. */
static gs_status share_score(gs_worker *w, const gs_pipeline_worker *p, gs_score *score) {
    const bool has_counts = p->stage == p->shape.stages - 1 && p->group == 0 && w->model->tensor.rank == 0;
    for (int i = 0; i < GS_STATS; i++) w->counts[i] = 0;
    if (has_counts)
        GS_TRY(w->device->ops->read(w->device, w->counts, gs_model_stats(w->model), sizeof w->counts));
    w->counts[GS_STAT_STOP] = gs_wishes(w, w->step + 1);
    GS_TRY(gs_comm_all_reduce(w->comm, w->counts, GS_STATS, GS_F32, GS_SUM));
    *score = gs_score_of(w->counts);
    return GS_OK;
}

gs_status gs_stage_sum(gs_worker *w, gs_pipeline_worker *p, gs_score *score) {
    for (int c = 0; c < p->shape.chunks; c++) {
        GS_TRY(sum_params(w, p, &p->chunk[c]));
        GS_TRY(sum(w, p, (gs_shard){p->chunk[c].state_at, p->chunk[c].state.count}));
    }
    if (p->stage == p->shape.stages - 1) GS_TRY(sum(w, p, (gs_shard){p->own.counts, GS_STATS}));
    return share_score(w, p, score);
}

gs_status gs_stage_reduce_norms(void *worker, int64_t *x, size_t count, bool largest) {
    const gs_worker *w = worker;
    if (w->settings->rehearses) return GS_OK;
    return gs_comm_all_reduce(w->comm, x, count, GS_I64, largest ? GS_MAX : GS_SUM);
}
