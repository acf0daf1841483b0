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
                                 gs_at(p->own->gradients, r.first));
}

/* With --exact by the levels of the tree above those of one pipeline. */
static gs_status sum(gs_worker *w, const gs_pipeline_worker *p, gs_shard r) {
    if (!w->settings->exact || r.count == 0) return sum_range(w, p, r);
    GS_TRY(gs_sync_sum(w->sync, w->device, gs_at(p->own->gradients, r.first), r.count));
    w->measured.sent += (double)w->sync->counted.bytes;
    return GS_OK;
}

/* ---- with --zero 1: each replica of a stage gets its part of the sum ---- */

static gs_status reduce_scatter(gs_worker *w, gs_pipeline_worker *p, const gs_held_unit *u) {
    gs_comm *c = w->groups.comm[GS_DP];
    const size_t all = u->own * (size_t)c->size;
    const gs_mem place = gs_at(p->own->gradients, u->at);
    void *host = NULL;
    if (u->own > 0) {
        count_sent(w, (double)u->own, c->size - 1);
        GS_TRY(w->device->ops->map(w->device, place, all * sizeof(float), &host));
        float *x = host;
        const gs_status status =
            gs_comm_reduce_scatter(c, x, x + u->own * (size_t)c->rank, all, GS_F32, GS_SUM);
        GS_TRY(gs_device_unmap_after(w->device, place, host, status));
    }
    return sum_range(w, p, (gs_shard){u->at + all, u->rest});
}

/* The same in the order of a tree, that of --exact: the parts of `sum` come from all replicas, and are added neighbours
 * first. */
static gs_status reduce_scatter_in_order(gs_worker *w, gs_pipeline_worker *p, const gs_held_unit *u,
                                         const float *sum) {
    gs_comm *c = w->groups.comm[GS_DP];
    const size_t all = u->own * (size_t)c->size, mine = u->own * (size_t)c->rank;
    if (u->own > 0) {
        count_sent(w, (double)u->own, c->size - 1);
        GS_TRY(gs_comm_all_to_all(c, sum, p->arrived, u->own, GS_F32));
        gs_add_neighbours(p->arrived, u->own, c->size);
        GS_TRY(w->device->ops->write(w->device, gs_at(p->own->gradients, u->at + mine), p->arrived,
                                     u->own * sizeof(float)));
    }
    if (u->rest == 0) return GS_OK;
    count_sent(w, (double)u->rest, c->size - 1);
    GS_TRY(gs_comm_all_gather(c, sum + all, p->arrived, u->rest, GS_F32));
    gs_add_neighbours(p->arrived, u->rest, c->size);
    return w->device->ops->write(w->device, gs_at(p->own->gradients, u->at + all), p->arrived,
                                 u->rest * sizeof(float));
}

static gs_status sum_params(gs_worker *w, gs_pipeline_worker *p, const gs_held_unit *u) {
    if (!w->settings->zero || w->groups.layout.dp == 1) return sum(w, p, (gs_shard){u->at, u->count});
    if (!p->arrived) return reduce_scatter(w, p, u);
    GS_TRY(
        w->device->ops->read(w->device, p->whole, gs_at(p->own->gradients, u->at), u->count * sizeof(float)));
    return reduce_scatter_in_order(w, p, u, p->whole);
}

gs_status gs_stage_gather_weights(gs_worker *w, gs_pipeline_worker *p) {
    gs_comm *c = w->groups.comm[GS_DP];
    for (int k = 0; k < p->own->count && w->settings->zero && c->size > 1; k++) {
        const gs_held_unit *u = &p->own->unit[k];
        const gs_mem place = gs_at(p->own->weights, u->at);
        void *host = NULL;
        if (u->own == 0) continue;
        count_sent(w, (double)u->own, c->size - 1);
        GS_TRY(w->device->ops->map(w->device, place, u->own * (size_t)c->size * sizeof(float), &host));
        float *x = host;
        const gs_status status = gs_comm_all_gather(c, x + u->own * (size_t)c->rank, x, u->own, GS_F32);
        GS_TRY(gs_device_unmap_after(w->device, place, host, status));
    }
    return GS_OK;
}

/* ---- the score ---- */

/* The last stage of the first pipeline has the counts, on each of its parts; the others add 0, so this sum is exact.
 * And everyone can ask to stop. */
static gs_status share_score(gs_worker *w, const gs_pipeline_worker *p, gs_score *score) {
    const bool has_counts =
        p->stage == p->shape.stages - 1 && p->own->replica == 0 && w->model->tensor.rank == 0;
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
        GS_TRY(sum_params(w, p, p->chunk[c].unit));
        GS_TRY(sum(w, p, (gs_shard){p->chunk[c].state->at, p->chunk[c].state->count}));
    }
    if (p->stage == p->shape.stages - 1) GS_TRY(sum(w, p, (gs_shard){p->own->counts, GS_STATS}));
    return share_score(w, p, score);
}
