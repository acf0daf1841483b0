/* What the stages of pipelines do together: the sum of gradients, with --zero 1 in parts. See pipeline.c.
 */
#include "train/ways/pipeline.h"

#include "comm/device.h"
#include "train/internal.h"
#include "train/ways/zero.h"

/* ---- the sum over the pipelines, stage by stage ---- */

static gs_status sum_range(gs_worker *w, const gs_pipeline_worker *p, gs_shard r) {
    gs_comm *c = w->groups.comm[GS_DP];
    const int n = c->size;
    if (r.count == 0 || n == 1) return GS_OK;
    w->measured.sent += 2.0 * (double)r.count * (n - 1) / n * sizeof(float);
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

static gs_status sum_params(gs_worker *w, const gs_pipeline_worker *p, const gs_held_unit *u) {
    const gs_mem place = gs_at(p->own->gradients, u->at);
    void *host;
    if (!w->settings->zero || w->groups.layout.dp == 1) return sum(w, p, (gs_shard){u->at, u->count});
    GS_TRY(w->device->ops->map(w->device, place, u->count * sizeof(float), &host));
    float *x = host;
    gs_status status = gs_unit_reduce(w, u, p->arrived, x, x + u->own * (size_t)p->own->replica);
    if (status == GS_OK) status = gs_sum_of_all(w, p->arrived, x + u->count - u->rest, u->rest);
    return gs_device_unmap_after(w->device, place, host, status);
}

gs_status gs_stage_gather_weights(gs_worker *w, gs_pipeline_worker *p) {
    for (int k = 0; k < p->own->count && w->settings->zero && w->groups.layout.dp > 1; k++) {
        const gs_held_unit *u = &p->own->unit[k];
        const gs_mem place = gs_at(p->own->weights, u->at);
        void *x;
        GS_TRY(w->device->ops->map(w->device, place, u->count * sizeof(float), &x));
        GS_TRY(gs_device_unmap_after(w->device, place, x, gs_unit_gather(w, u, x, true)));
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
