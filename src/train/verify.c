/* --verify N: after every N steps all workers compare their weights, and stop at the first difference.
 *
 * Data parallelism relies on equal copies of the model. A damaged copy, or a worker that updates differently, remains
 * invisible in the loss curve for a long time. Each worker therefore computes a checksum of each tensor (CRC-32, from
 * zlib) and gathers the checksums of all workers: 4 bytes per tensor and worker. With several pipelines, replicas
 * compare stage by stage, including (except with --zero 3) the last stage's copy of a table that `tied` shares; a
 * single pipeline has nothing to compare. Stages divided by --tensor compare shard by shard; repeated tensors are
 * compared over all shards.
 */
#include "comm/device.h"
#include "train/hooks.h"
#include "train/strategy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <zlib.h>

/* The first rank with the most frequent checksum, so that a single rank that differs is identified, even if it is rank
 * 0. Rank r's checksum is all[r * stride]. */
static int most_common(const uint32_t *all, size_t stride, int size) {
    int best = 0, best_count = 0;
    for (int r = 0; r < size; r++) {
        int count = 0;
        for (int other = 0; other < size; other++)
            count += all[(size_t)other * stride] == all[(size_t)r * stride];
        if (count > best_count) {
            best = r;
            best_count = count;
        }
    }
    return best;
}

/* A set of `size` workers that should have equal weights. apart: the distance between their ranks. */
typedef struct alike {
    int size, apart;
} alike;

/* Workers with equal copies: all; with stages, a stage's replicas of one shard (of a repeated tensor: of all
 * shards). */
static alike copies(const gs_worker *w, bool repeated) {
    const int parts = w->groups.layout.tp, replicas = w->groups.layout.dp;
    if (!gs_has_stages(w)) return (alike){w->comm->size, 1};
    return repeated ? (alike){replicas * parts, 1} : (alike){replicas, parts};
}

/* The first rank that differs from the others in its set; -1: none. */
static int first_different(const gs_worker *w, alike set, const uint32_t *all, size_t stride, int *from) {
    const size_t apart = stride * (size_t)set.apart;
    for (int rank = 0; rank < w->comm->size; rank++) {
        const int first = rank / (set.size * set.apart) * set.size * set.apart + rank % set.apart;
        const uint32_t *of = all + (size_t)first * stride;
        const int common = most_common(of, apart, set.size);
        *from = first + common * set.apart;
        if (all[(size_t)rank * stride] != all[(size_t)*from * stride]) return rank;
    }
    return -1;
}

/* True if the worker compares only the stage that it holds. Otherwise it holds or gathers the whole model. */
static bool is_own_stage(const gs_worker *w) {
    return gs_has_stages(w) && !w->partition.weights_cut;
}

/* Returns 0 for a tensor that this worker does not hold. */
static uint32_t checksum_of(const gs_worker *w, const float *weights, const gs_param *param) {
    size_t at = param->at;
    if (is_own_stage(w) && !gs_partition_find(&w->partition, param, &at)) return 0;
    return (uint32_t)crc32_z(0, (const void *)(weights + at), param->count * sizeof *weights);
}

/* The model whose tensors are compared. */
static const gs_model *model_of(const gs_worker *w) {
    return is_own_stage(w) ? w->model : gs_model_whole(w->model);
}

static gs_status make_room(gs_worker *w) {
    const size_t count = (size_t)model_of(w)->saved_count, ranks = (size_t)w->comm->size;
    if (w->settings->verify == 0) return GS_OK;
    return GS_NEW(w->checksums, (ranks + 1) * count, "%zu checksums of %zu workers", count, ranks);
}

static void free_room(gs_worker *w) {
    free(w->checksums);
}

/* Fail with the name of the first tensor that differs. */
static gs_status compare(gs_worker *w, const float *weights) {
    const gs_model *m = model_of(w);
    const size_t count = (size_t)m->saved_count;
    uint32_t *all = w->checksums, *mine = all + (size_t)w->comm->size * count;
    for (size_t p = 0; p < count; p++) mine[p] = checksum_of(w, weights, m->param[p]);
    GS_TRY(gs_comm_all_gather(w->comm, mine, all, count * sizeof *mine, GS_U8));
    for (size_t p = 0; p < count; p++) {
        int from;
        const int rank = first_different(w, copies(w, m->param[p]->cut == GS_UNCUT), all + p, count, &from);
        if (rank < 0) continue;
        /* Wait until all workers know. Otherwise the end of one of them would be reported as the failure. */
        GS_TRY(gs_comm_barrier(w->comm));
        return gs_fail(GS_E_DIFFER, "step %" PRIu64 ": worker %d's %s differs from worker %d's", w->step,
                       rank, m->param[p]->name, from);
    }
    return GS_OK;
}

/* Compare whole copies: each worker first gathers all parts. */
static gs_status compare_copies(gs_worker *w) {
    const size_t saved = gs_model_whole(w->model)->saved;
    float *weights;
    GS_TRY(GS_NEW(weights, saved, "a copy of %zu weights (--verify)", saved));
    gs_status status = gs_partition_weights(w, weights);
    if (status == GS_OK) status = compare(w, weights);
    free(weights);
    return status;
}

/* Compare those tensors of its stage that this worker holds. */
static gs_status compare_stages(gs_worker *w) {
    void *weights;
    GS_TRY(
        w->device->ops->map(w->device, w->model->weights, w->model->weights_apart * sizeof(float), &weights));
    return gs_device_unmap_after(w->device, w->model->weights, weights, compare(w, weights));
}

static gs_status verify(gs_worker *w, gs_event *e) {
    (void)e;
    uint64_t every = w->settings->verify;
    if (every == 0 || w->step % every != 0 || copies(w, true).size == 1) return GS_OK;
    if (is_own_stage(w)) return compare_stages(w);
    if (gs_weights_are_divided(w->model)) return compare_copies(w);
    float *weights;
    GS_TRY(gs_model_map_weights(w->model, &weights));
    gs_status same = compare(w, weights);
    gs_status unmapped = gs_model_unmap_weights(w->model, weights);
    return same != GS_OK ? same : unmapped;
}

const gs_hook gs_hook_verify = {.begin = make_room, .after_step = verify, .free = free_room};
