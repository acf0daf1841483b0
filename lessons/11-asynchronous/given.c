/* Lab 11, as given: the other functions for --sync async and --sync local. */
#include "tasks.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the clocks ---- */

size_t gs_clocks_slowest(const gs_clocks *c) {
    size_t slowest = c->clock[0];
    for (int r = 1; r < c->workers; r++)
        if (c->clock[r] < slowest) slowest = c->clock[r];
    return slowest;
}

void gs_clocks_read(gs_clocks *c, int rank) {
    c->read[rank] = c->applied;
}

/* ---- local SGD ---- */

typedef struct local {
    way since;
    float stats[GS_STATS]; /* of this worker's steps since the epoch began */
} local;

static gs_status create(gs_worker *w) {
    w->strategy_state = calloc(1, sizeof(local));
    return w->strategy_state ? GS_OK : gs_fail(GS_E_MEMORY, "no memory for local SGD");
}

static void free_local(gs_worker *w) {
    free(w->strategy_state);
}

/* x = sum over workers of (mine / all) x: the average, weighted by samples. `mine` may be 0. */
static gs_status weighted_average(gs_sync *s, float *x, size_t count, double mine, double all) {
    for (size_t i = 0; i < count; i++) x[i] *= (float)(mine / all);
    return gs_sync_run(s, x, count);
}

/* The average of an array on this worker's device. The buffer of the gradients, free between two steps, carries it. */
static gs_status average(gs_worker *w, gs_mem x) {
    const gs_backend *ops = w->device->ops;
    const local *l = w->strategy_state;
    gs_mem carrier = w->model->gradients;
    size_t count = w->model->params;
    void *host;
    GS_TRY(ops->copy(w->device, carrier, x, count));
    GS_TRY(ops->map(w->device, carrier, count * sizeof(float), &host));
    GS_TRY(weighted_average(w->sync, host, count, l->since.mine, l->since.all));
    GS_TRY(ops->unmap(w->device, carrier, host));
    return ops->copy(w->device, x, carrier, count);
}

/* Averages the weights and the optimiser's vectors (velocity); sums the epoch's counts. */
static gs_status meet(gs_worker *w, gs_score *score) {
    local *l = w->strategy_state;
    gs_mem stats = gs_model_stats(w->model);
    float sum[GS_STATS];
    if (l->since.all > 0 && w->comm->size > 1) {
        GS_TRY(average(w, w->model->weights));
        for (int i = 0; i < w->optimizer->vectors; i++) GS_TRY(average(w, w->optimizer->vector[i]));
    }
    l->since = (way){0, 0};
    if (gs_stop_requested) l->stats[GS_STAT_STOP] = 1;
    GS_TRY(w->device->ops->write(w->device, stats, l->stats, sizeof l->stats));
    GS_TRY(gs_sync_sum(w->sync, w->device, stats, GS_STATS));
    GS_TRY(w->device->ops->read(w->device, sum, stats, sizeof sum));
    *score = gs_score_of(sum);
    return gs_phase_ends(w, GS_PHASE_SYNC);
}

static gs_status step(gs_worker *w, gs_score *score) {
    local *l = w->strategy_state;
    float stats[GS_STATS];
    bool time_to_meet;

    GS_TRY(gs_gradient(w));
    GS_TRY(w->device->ops->read(w->device, stats, gs_model_stats(w->model), sizeof stats));
    GS_TRY(step_alone(w, &l->since, w->micro_batch.part, w->micro_batch.batch, &time_to_meet));
    GS_TRY(gs_phase_ends(w, GS_PHASE_UPDATE));

    for (int i = 0; i < GS_STATS; i++) l->stats[i] += stats[i];
    *score = gs_score_of(stats);
    if (!time_to_meet) return GS_OK;

    gs_score sum; /* of the epoch so far; only the request to stop matters */
    GS_TRY(meet(w, &sum));
    score->stop = sum.stop;
    return GS_OK;
}

static gs_status end_epoch(gs_worker *w, gs_score *total) {
    local *l = w->strategy_state;
    GS_TRY(meet(w, total));
    l->stats[GS_STAT_LOSS] = l->stats[GS_STAT_CORRECT] = l->stats[GS_STAT_SAMPLES] = 0;
    return GS_OK;
}

static void describe(const gs_settings *s, char *text, size_t size) {
    snprintf(text, size, "weights averaged every %d step%s", s->every, s->every > 1 ? "s" : "");
}

static gs_status check(const gs_settings *s) {
    if (s->every > 0) return GS_OK;
    return gs_fail(GS_E_USAGE, "--sync local needs --every H: the steps from one average to the next");
}

const gs_strategy gs_strategy_local = {.name = "local",
                                       .option = "--sync local",
                                       .check = check,
                                       .describe = describe,
                                       .apart = true,
                                       .create = create,
                                       .step = step,
                                       .end_epoch = end_epoch,
                                       .free = free_local};
