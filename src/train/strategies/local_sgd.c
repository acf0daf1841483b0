/* --sync local --every H: local SGD. Each worker trains alone for H steps, then the weights are averaged.
 *
 *     worker 0   W --g0--> W0 --g0--> W0 --g0--> W0 \               / W --g0--> ...
 *                                                    >-- average --<
 *     worker 1   W --g1--> W1 --g1--> W1 --g1--> W1 /               \ W --g1--> ...
 *                     step 1     step 2     step 3 = H
 *
 * A worker updates its own weights with the mean gradient of its own part of each batch, and sends nothing. H steps
 * need one exchange instead of H. The price: a worker computes gradients at weights that no other worker has.
 *
 *     W = sum over workers r of (n_r / n) W_r      n_r: samples that r computed since the last average
 *
 * The factor n_r / n accounts for parts of unequal size. With H = 1 the average is
 *
 *     sum (n_r / n) (W - lr dW_r / n_r) = W - lr (sum dW_r) / n
 *
 * which is the synchronous step. With momentum and weight decay it is that step too, because the velocity is averaged
 * like the weights. If each worker kept its own velocity, the velocities would pull the workers apart again after each
 * average. Averaging the velocity doubles the bytes of an average: 2 arrays in H steps instead of 1 array in each step.
 *
 * Adam's moments are averaged too; they are corrected by t, the number of updates. After an average all workers hold
 * the same moments and therefore need the same t: a worker whose part of a batch is empty makes no update, but counts
 * one. On every worker t is thus the number of steps, which a resumed run reads from the saved state of one worker.
 *
 * The weights are also averaged at the end of each epoch, because evaluation needs a single model.
 *
 * Sources: Stich, "Local SGD converges fast and communicates little" (ICLR 2019). Averaging the velocity: Yu,
 * Jin, Yang, "On the linear speedup analysis of communication efficient momentum SGD for distributed non-convex
 * optimization" (ICML 2019).
 */
#include "train/diverged.h"
#include "train/strategy.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct local {
    double mine, all;      /* samples since the last average: on this worker, on all */
    float stats[GS_STATS]; /* sums over this worker's steps since the epoch began */
} local;

static gs_status create(gs_worker *w) {
    local *l;
    GS_TRY(GS_NEW(l, 1, "local SGD"));
    w->strategy_state = l;
    return GS_OK;
}

static void free_local(gs_worker *w) {
    free(w->strategy_state);
}

/* x = sum over workers of (mine / all) x; the gradient array, unused between two steps, serves as a buffer */
static gs_status average(gs_worker *w, gs_mem x, size_t count) {
    const gs_backend *ops = w->device->ops;
    gs_mem carrier = w->model->gradients;
    const local *l = w->strategy_state;
    float share = (float)(l->mine / l->all);
    void *host;
    GS_TRY(ops->copy(w->device, carrier, x, count));
    GS_TRY(ops->map(w->device, carrier, count * sizeof(float), &host));
    for (size_t i = 0; i < count; i++) ((float *)host)[i] *= share;
    GS_TRY(ops->unmap(w->device, carrier, host));
    GS_TRY(gs_sync_sum(w->sync, w->device, carrier, count));
    return ops->copy(w->device, x, carrier, count);
}

/* If there was a step since the last average, average the weights, the layers' state, and the optimiser's vectors
 * (velocity). Sum the epoch's counts, which also tell every worker whether to stop. done: the number of steps done. */
static gs_status meet(gs_worker *w, uint64_t done, gs_score *score) {
    local *l = w->strategy_state;
    gs_mem stats = gs_model_stats(w->model);
    float sum[GS_STATS];
    if (l->all > 0 && w->comm->size > 1) {
        GS_TRY(average(w, w->model->weights, w->model->saved));
        for (int i = 0; i < w->optimizer->vectors; i++)
            GS_TRY(average(w, w->optimizer->vector[i], w->model->params));
    }
    l->mine = l->all = 0;
    l->stats[GS_STAT_STOP] = gs_wishes(w, done);
    GS_TRY(w->device->ops->write(w->device, stats, l->stats, sizeof l->stats));
    GS_TRY(gs_sync_sum(w->sync, w->device, stats, GS_STATS));
    GS_TRY(w->device->ops->read(w->device, sum, stats, sizeof sum));
    *score = gs_score_of(sum);
    return gs_phase_ends(w, GS_PHASE_SYNC);
}

static gs_status step(gs_worker *w, gs_score *score) {
    local *l = w->strategy_state;
    float stats[GS_STATS];

    GS_TRY(gs_gradient(w));
    GS_TRY(w->device->ops->read(w->device, stats, gs_model_stats(w->model), sizeof stats));
    if (w->micro_batch.part > 0)
        GS_TRY(gs_optimizer_update(w->optimizer, (double)w->micro_batch.part * gs_model_targets(w->model)));
    else
        w->optimizer->updates++;
    GS_TRY(gs_phase_ends(w, GS_PHASE_UPDATE));

    for (int i = 0; i < GS_STATS; i++) l->stats[i] += stats[i];
    l->mine += (double)w->micro_batch.part;
    l->all += (double)w->micro_batch.batch;
    *score = gs_score_of(stats);
    if ((w->step + 1) % (uint64_t)w->settings->every != 0) return GS_OK;

    gs_score sum; /* over all workers, for the epoch so far; only the requests in it matter here */
    GS_TRY(meet(w, w->step + 1, &sum));
    score->stop = gs_watch_loss(w, sum.loss, w->step + 1) || sum.stop;
    score->checkpoint = sum.checkpoint;
    score->asked = sum.asked;
    return GS_OK;
}

static gs_status end_epoch(gs_worker *w, gs_score *total) {
    local *l = w->strategy_state;
    GS_TRY(meet(w, w->step, total));
    l->stats[GS_STAT_LOSS] = l->stats[GS_STAT_CORRECT] = l->stats[GS_STAT_SAMPLES] = 0;
    return GS_OK;
}

static gs_status check(const gs_settings *s) {
    if (!s->every)
        return gs_fail(GS_E_USAGE, "--sync local needs --every H: the steps from one average to the next");
    if (s->verify % (uint64_t)s->every != 0)
        return gs_fail(GS_E_USAGE,
                       "--verify %llu: with --sync local the weights are the same only after an average; "
                       "wanted a multiple of --every %d",
                       (unsigned long long)s->verify, s->every);
    return GS_OK;
}

static void describe(const gs_settings *s, char *text, size_t size) {
    snprintf(text, size, "weights averaged every %d step%s", s->every, s->every > 1 ? "s" : "");
}

const gs_strategy gs_strategy_local = {
    .name = "local",
    .option = "--sync local",
    .check = check,
    .describe = describe,
    .apart = true,
    .create = create,
    .step = step,
    .end_epoch = end_epoch,
    .free = free_local,
};
