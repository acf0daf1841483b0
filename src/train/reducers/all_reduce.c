/* The reducer for plain data parallelism: each worker receives the whole sum. */
#include "comm/device.h"
#include "train/strategy.h"
#include "train/reducers/overlap.h"
#include "train/reducer.h"

static gs_status create(gs_worker *w) {
    const gs_settings *s = w->settings;
    const size_t count = w->model->saved + GS_STATS;
    if (gs_has_stages(w)) return GS_OK;
    w->scores_early = w->comm->size == 1 && !s->exact;
    if (s->exact) {
        w->scheme = &gs_sync_recursive_doubling;
        GS_TRY(gs_ordered_sums_create(w, count));
    }
    return s->bucket && w->comm->size > 1 ? gs_overlap_create(w) : GS_OK;
}

static void free_overlap(gs_worker *w) {
    gs_overlap_free(w->reducer_state);
}

static gs_status add(gs_worker *w, int k) {
    if (gs_ordered_sums_parts(&w->ordered_sums) == 1) return GS_OK;
    GS_TRY(gs_ordered_sums_add_here(w, w->model->gradients, 0, w->model->saved + GS_STATS, k));
    return gs_phase_ends(w, GS_PHASE_SYNC);
}

/* One array contains everything: gradients, layers' state, loss, correct predictions, samples, requests to stop. */
static gs_status sum_whole(gs_worker *w) {
    GS_TRY(gs_tell_wish_to_stop(w));
    GS_TRY(gs_sync_sum(w->sync, w->device, w->model->gradients, w->model->saved + GS_STATS));
    w->measured.sent += (double)w->sync->counted.bytes;
    return GS_OK;
}

/* ---- in a pipeline ---- */

/* Sum a range of the gradients. With --exact, add only the levels of the tree above those that a pipeline adds. */
static gs_status sum_range(gs_worker *w, size_t first, size_t count) {
    gs_comm *c = w->groups.comm[GS_DP];
    const gs_partition *own = &w->partition;
    const gs_mem here = gs_partition_tail(own, own->gradients, own->gradients_cut, first);
    if (count == 0 || c->size == 1) return GS_OK;
    if (!w->settings->exact) {
        w->measured.sent += 2.0 * (double)count * (c->size - 1) / c->size * sizeof(float);
        return gs_call_run_on_device(c, w->device, &(gs_call){GS_ALL_REDUCE, count, GS_F32, GS_SUM, 0},
                                     GS_NONE, here);
    }
    GS_TRY(gs_sync_sum(w->sync, w->device, here, count));
    w->measured.sent += (double)w->sync->counted.bytes;
    return GS_OK;
}

gs_status gs_sum_states(gs_worker *w) {
    const gs_partition *own = &w->partition;
    const bool has_counts = w->groups.coordinates.pp == w->groups.layout.pp - 1;
    for (int i = 0; i < own->runs; i++) GS_TRY(sum_range(w, own->run[i].at, own->run[i].count));
    return has_counts ? sum_range(w, own->counts, GS_STATS) : GS_OK;
}

/* ---- in any run ---- */

static gs_status finish(gs_worker *w) {
    if (w->reducer_state) return gs_overlap_finish(w->reducer_state); /* mostly done by now */
    if (!gs_has_stages(w)) return sum_whole(w);
    for (int i = 0; i < w->partition.count; i++)
        GS_TRY(sum_range(w, w->partition.unit[i].at, w->partition.unit[i].count));
    return gs_sum_states(w);
}

static void report(const gs_worker *w, gs_result *result) {
    if (w->reducer_state) result->overlap = gs_overlap_measured(w->reducer_state, w->step - w->begun_at);
}

const gs_reducer gs_reducer_all_reduce = {
    .create = create, .free = free_overlap, .add = add, .finish = finish, .report = report};
