/* --verify N: after every N steps all workers compare their weights, and stop at the first difference.
 *
 * Data parallelism rests on all copies of the model being the same. A copy that is damaged, or a worker that
 * updates differently, shows in no loss curve for a long time. So each worker computes a checksum of its
 * weights (CRC-32, from zlib) and shows it to all: 4 bytes per worker. Only when they differ are the tensors
 * compared one by one, to name the layer.
 */
#include "train/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <zlib.h>

static uint32_t checksum(const float *x, size_t count) {
    return (uint32_t)crc32_z(0, (const void *)x, count * sizeof *x);
}

/* A rank with the most frequent number, the first one of several. So a single rank that differs is the one that is
 * named, even if it is rank 0. Rank r's is all[r * stride]. */
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

/* The first rank that differs from the others; -1 if none does. */
static int first_different(const uint32_t *all, size_t stride, int size, int *from) {
    *from = most_common(all, stride, size);
    for (int r = 0; r < size; r++)
        if (all[(size_t)r * stride] != all[(size_t)*from * stride]) return r;
    return -1;
}

/* The weights differ somewhere: fails with the name of the first tensor that does. */
static gs_status name_difference(gs_worker *w, const float *weights) {
    const gs_model *m = gs_model_whole(w->model);
    size_t count = (size_t)m->saved_count;
    uint32_t *mine = calloc(count, sizeof *mine);
    uint32_t *all = calloc(count * (size_t)w->comm->size, sizeof *all);
    gs_status status = mine && all ? GS_OK : gs_fail(GS_E_MEMORY, "no memory for %zu checksums", count);
    for (size_t p = 0; status == GS_OK && p < count; p++)
        mine[p] = checksum(weights + m->param[p]->at, m->param[p]->count);
    if (status == GS_OK) status = gs_comm_all_gather(w->comm, mine, all, count * sizeof *mine, GS_U8);
    /* All wait here until all know: a worker that has already ended would be taken for the failure itself. */
    if (status == GS_OK) status = gs_comm_barrier(w->comm);
    int from = 0, rank = -1;
    size_t p = 0;
    while (status == GS_OK && p < count && (rank = first_different(all + p, count, w->comm->size, &from)) < 0)
        p++;
    if (status == GS_OK && rank >= 0)
        status = gs_fail(GS_E_DIFFER, "step %" PRIu64 ": worker %d's %s differs from worker %d's", w->step,
                         rank, m->param[p]->name, from);
    else if (status == GS_OK) /* next to impossible: the parts' CRCs agree, but that of the whole does not */
        status = gs_fail(GS_E_DIFFER, "step %" PRIu64 ": the workers' weights differ", w->step);
    free(mine);
    free(all);
    return status;
}

static gs_status compare(gs_worker *w, const float *weights) {
    uint32_t mine = checksum(weights, gs_model_whole(w->model)->saved);
    int from;
    GS_TRY(gs_comm_all_gather(w->comm, &mine, w->checksums, sizeof mine, GS_U8));
    return first_different(w->checksums, 1, w->comm->size, &from) < 0 ? GS_OK : name_difference(w, weights);
}

/* Each has made a copy of the parts of all. */
static gs_status compare_copies(gs_worker *w) {
    const size_t saved = gs_model_whole(w->model)->saved;
    float *weights = malloc(saved * sizeof *weights + 1);
    if (!weights) return gs_fail(GS_E_MEMORY, "--verify: no memory for a copy of %zu weights", saved);
    gs_status status = w->way->weights(w, weights);
    if (status == GS_OK) status = compare(w, weights);
    free(weights);
    return status;
}

gs_status gs_verify(gs_worker *w) {
    uint64_t every = w->settings->verify;
    if (every == 0 || w->step % every != 0 || w->comm->size == 1) return GS_OK;
    if (gs_are_divided(w->model)) return compare_copies(w);
    float *weights;
    GS_TRY(gs_model_map_weights(w->model, &weights));
    gs_status same = compare(w, weights);
    gs_status unmapped = gs_model_unmap_weights(w->model, weights);
    return same != GS_OK ? same : unmapped;
}
