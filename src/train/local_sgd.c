/* --sync local --every H: local SGD. Each worker goes its own way for H steps, then the ways are averaged.
 *
 *     worker 0   W --g0--> W0 --g0--> W0 --g0--> W0 \               / W --g0--> ...
 *                                                    >-- average --<
 *     worker 1   W --g1--> W1 --g1--> W1 --g1--> W1 /               \ W --g1--> ...
 *                     step 1     step 2     step 3 = H
 *
 * A worker updates its own weights with the mean gradient of its own part of each batch, and sends nothing.
 * So there is one exchange in H steps instead of one in each; the price is that a worker computes gradients at
 * weights that the others do not have.
 *
 *     W = sum over workers r of (n_r / n) W_r      n_r: samples that r has seen since the last average
 *
 * The weight n_r / n makes parts of unequal size count what they should. With H = 1 it gives
 *
 *     sum (n_r / n) (W - lr dW_r / n_r) = W - lr (sum dW_r) / n
 *
 * which is the synchronous step: so momentum and weight decay behave alike too, if the velocity is averaged
 * in the same way as the weights. It is; the other choice, a velocity of one's own, would keep pulling the
 * workers apart after each average. It doubles the bytes of an average: 2 in H steps instead of 1 in each.
 *
 * The weights are averaged at the end of each epoch too: evaluation wants one model.
 *
 * Sources: Stich, "Local SGD converges fast and communicates little" (ICLR 2019). Averaging the velocity: Yu,
 * Jin, Yang, "On the linear speedup analysis of communication efficient momentum SGD for distributed non-convex
 * optimization" (ICML 2019).
 */
#include "train/modes.h"

#include <stdlib.h>

struct gs_local {
    double mine, all;      /* samples since the last average: of this worker, of all */
    float stats[GS_STATS]; /* of this worker's steps since the epoch began */
};

gs_status gs_local_create(gs_local **out) {
    *out = calloc(1, sizeof **out);
    return *out ? GS_OK : gs_fail(GS_E_MEMORY, "no memory for local SGD");
}

void gs_local_free(gs_local *l) {
    free(l);
}

/* x = sum over workers of (mine / all) x; the gradient array, which is free between two steps, carries it */
static gs_status average(gs_worker *w, gs_mem x) {
    const gs_backend *ops = w->device->ops;
    gs_mem carrier = w->model->gradients;
    size_t count = w->model->params;
    float share = (float)(w->local->mine / w->local->all);
    void *host;
    GS_TRY(ops->copy(w->device, carrier, x, count));
    GS_TRY(ops->map(w->device, carrier, count * sizeof(float), &host));
    for (size_t i = 0; i < count; i++) ((float *)host)[i] *= share;
    GS_TRY(ops->unmap(w->device, carrier, host));
    GS_TRY(gs_sync_sum(w->sync, w->device, carrier, count));
    return ops->copy(w->device, x, carrier, count);
}

/* Average weights and velocity, where there was a step since the last time, and sum the epoch's counts, which
 * tell everybody whether to stop. */
static gs_status meet(gs_worker *w, gs_score *score) {
    gs_local *l = w->local;
    gs_mem stats = gs_model_stats(w->model);
    float sum[GS_STATS];
    if (l->all > 0 && w->comm->size > 1) {
        GS_TRY(average(w, w->model->weights));
        if (w->sgd->momentum != 0) GS_TRY(average(w, w->sgd->velocity));
    }
    l->mine = l->all = 0;
    if (gs_stop_requested) l->stats[GS_STAT_STOP] = 1;
    GS_TRY(w->device->ops->write(w->device, stats, l->stats, sizeof l->stats));
    GS_TRY(gs_sync_sum(w->sync, w->device, stats, GS_STATS));
    GS_TRY(w->device->ops->read(w->device, sum, stats, sizeof sum));
    *score = gs_score_of(sum);
    return gs_phase_ends(w, GS_PHASE_SYNC);
}

gs_status gs_local_step(gs_worker *w, size_t batch_first, size_t batch, gs_score *score) {
    gs_local *l = w->local;
    gs_shard mine = gs_shard_of(batch, w->comm->rank, w->comm->size);
    float stats[GS_STATS];

    GS_TRY(gs_fresh_gradient(w, batch_first, mine));
    GS_TRY(w->device->ops->read(w->device, stats, gs_model_stats(w->model), sizeof stats));
    if (mine.count > 0) GS_TRY(gs_sgd_update(w->sgd, (double)mine.count));
    GS_TRY(gs_phase_ends(w, GS_PHASE_UPDATE));

    for (int i = 0; i < GS_STATS; i++) l->stats[i] += stats[i];
    l->mine += (double)mine.count;
    l->all += (double)batch;
    *score = gs_score_of(stats);
    if ((w->step + 1) % (uint64_t)w->settings->every != 0) return GS_OK;

    gs_score sum; /* of the epoch up to here, over all workers: only the wish to stop matters yet */
    GS_TRY(meet(w, &sum));
    score->stop = sum.stop;
    return GS_OK;
}

gs_status gs_local_end_epoch(gs_worker *w, gs_score *total) {
    GS_TRY(meet(w, total));
    w->local->stats[GS_STAT_LOSS] = w->local->stats[GS_STAT_CORRECT] = w->local->stats[GS_STAT_SAMPLES] = 0;
    return GS_OK;
}
