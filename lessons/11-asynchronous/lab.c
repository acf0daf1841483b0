/* Lesson 11: waiting for no one. What to write is said in tasks.h, and in README.md.
 *
 * This file takes the place of src/train/clocks.c and of src/train/local_sgd.c: `build/lessons/11/gradsum train --sync
 * async --staleness 4` asks the functions below who may go on, and `--sync local --every 8` averages with them. */
#include "tasks.h"

#include <stdlib.h>

/* ---- bounded staleness ---- */

/* Given. */
size_t gs_clocks_slowest(const gs_clocks *c) {
    size_t slowest = c->clock[0];
    for (int r = 1; r < c->workers; r++)
        if (c->clock[r] < slowest) slowest = c->clock[r];
    return slowest;
}

bool gs_clocks_may_go_on(const gs_clocks *c, int rank) {
    /* task 11.1: true if this worker is at most c->bound steps ahead of the slowest. But who has done all
     * c->steps of the epoch waits for all others: then nobody may be behind. */
    (void)c, (void)rank;
    return lab_blank("11.1") == GS_OK;
    /* end of task 11.1 */
}

void gs_clocks_apply(gs_clocks *c, const int *ranks, int n) {
    /* task 11.2: the gradients of these n ranks become one update. The staleness of each is how many gradients
     * had been applied before this update, less those that had been when its worker read its weights: add 1 to
     * c->count[staleness]. Then these n have been applied too. */
    (void)c, (void)ranks, (void)n;
    lab_blank("11.2");
    /* end of task 11.2 */
}

/* Given. */
void gs_clocks_read(gs_clocks *c, int rank) {
    c->read[rank] = c->applied;
}

/* ---- local SGD ---- */

gs_status weighted_average(gs_sync *s, float *x, size_t count, double mine, double all) {
    /* task 11.3: two lines. */
    (void)s, (void)x, (void)count, (void)mine, (void)all;
    return lab_blank("11.3");
    /* end of task 11.3 */
}

gs_status step_alone(gs_worker *w, way *since, size_t mine, size_t all, bool *meet) {
    /* task 11.4: an update, two counts, and a question. The first step has w->step 0, and is the first of H. */
    (void)w, (void)since, (void)mine, (void)all, (void)meet;
    return lab_blank("11.4");
    /* end of task 11.4 */
}

/* ---- given: what --sync local needs besides ---- */

struct gs_local {
    way since;
    float stats[GS_STATS]; /* of this worker's steps since the epoch began */
};

gs_status gs_local_create(gs_local **out) {
    *out = calloc(1, sizeof **out);
    return *out ? GS_OK : gs_fail(GS_E_MEMORY, "no memory for local SGD");
}

void gs_local_free(gs_local *l) {
    free(l);
}

/* The average of an array of this worker's device. The gradients, which are free between two steps, carry it. */
static gs_status average(gs_worker *w, gs_mem x) {
    const gs_backend *ops = w->device->ops;
    gs_mem carrier = w->model->gradients;
    size_t count = w->model->params;
    void *host;
    GS_TRY(ops->copy(w->device, carrier, x, count));
    GS_TRY(ops->map(w->device, carrier, count * sizeof(float), &host));
    GS_TRY(weighted_average(w->sync, host, count, w->local->since.mine, w->local->since.all));
    GS_TRY(ops->unmap(w->device, carrier, host));
    return ops->copy(w->device, x, carrier, count);
}

/* The workers meet: the weights are averaged, and the velocity too; the epoch's counts are summed. */
static gs_status meet(gs_worker *w, gs_score *score) {
    gs_local *l = w->local;
    gs_mem stats = gs_model_stats(w->model);
    float sum[GS_STATS];
    if (l->since.all > 0 && w->comm->size > 1) {
        GS_TRY(average(w, w->model->weights));
        if (w->sgd->momentum != 0) GS_TRY(average(w, w->sgd->velocity));
    }
    l->since = (way){0, 0};
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
    bool time_to_meet;

    GS_TRY(gs_model_clear_gradients(w->model));
    GS_TRY(gs_part_gradient(w, batch_first, mine));
    GS_TRY(w->device->ops->read(w->device, stats, gs_model_stats(w->model), sizeof stats));
    GS_TRY(step_alone(w, &l->since, mine.count, batch, &time_to_meet));
    GS_TRY(gs_phase_ends(w, GS_PHASE_UPDATE));

    for (int i = 0; i < GS_STATS; i++) l->stats[i] += stats[i];
    *score = gs_score_of(stats);
    if (!time_to_meet) return GS_OK;

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
