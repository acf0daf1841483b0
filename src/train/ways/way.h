/* Ways to train: what a worker does in each step, and between steps. One file each:
 *
 *     ../step.c         synchronous: gradients are summed over the workers by a scheme, and all make the same update
 *     exact.c           the same, with the same bits for any number of workers
 *     sharded_update.c  the same, each worker making its part of the update
 *     local_sgd.c       each worker trains on its own, and the weights are averaged now and then
 *     async.c           nobody waits for everybody
 *
 * A new one is its file and its line in way.c. Nothing else knows a way by its name: who needs to know asks its table,
 * where 0, false and NULL are what holds for the synchronous way.
 */
#pragma once

#include "train/train.h"

typedef struct gs_way {
    const char *name;   /* "local" */
    const char *option; /* that chooses it: "--sync local" */

    /* ---- which settings suit it ---- */

    const char *no_bucket, *no_wire; /* why it does not work with --bucket, with --wire; NULL: it does */
    bool one_thread;                 /* a worker has one CPU thread, whatever --threads is */
    int parts; /* each batch is computed in this many parts, whatever the number of workers; 0: one for each worker */
    const char *workers; /* how many workers these can be divided among: "1, 2, 4 or 8" */
    /* GS_E_USAGE: other settings that do not go with it; or, where another way is chosen, settings that go with this
     * one alone. NULL: all do. */
    gs_status (*check)(const gs_settings *, bool chosen);

    /* ---- what the command line and logs tell of it ---- */

    /* "gradients summed in one fixed tree"; where it depends on the settings, describe writes it, else that is NULL. */
    const char *summary;
    void (*describe)(const gs_settings *, char *text, size_t size);
    const char *promise; /* one more line at the beginning of a run; NULL: none */
    bool no_gradient;    /* after an epoch the array of gradients does not hold the sum of the last step's */
    bool all_measured;   /* its steps are not alike, so settings->measure measures them all */

    /* ---- training. All workers call all of them. But for step, any may be NULL ---- */

    /* Between two steps the workers' weights differ. The score of a step is of this worker's part alone, and its `stop`
     * says too that a worker has diverged. */
    bool apart;
    /* Before the first step: worker->way_state. */
    gs_status (*create)(gs_worker *);
    /* What create made, even if create failed or was never called. */
    void (*free)(gs_worker *);
    /* The next `steps` steps are an epoch. */
    gs_status (*begin_epoch)(gs_worker *, size_t steps);
    /* From the worker's part of a global batch to its new weights. */
    gs_status (*step)(gs_worker *, gs_score *);
    /* From here on all workers have the same weights. *total: of the epoch, over all workers. */
    gs_status (*end_epoch)(gs_worker *, gs_score *total);
    /* After the last epoch: its part of the result. */
    gs_status (*report)(gs_worker *, gs_result *);
} gs_way;

extern const gs_way gs_way_synchronous, gs_way_exact, gs_way_sharded_update, gs_way_local, gs_way_async;

/* All ways, then NULL. */
const gs_way *const *gs_ways(void);

/* The one that these settings choose. */
const gs_way *gs_way_of(const gs_settings *);

/* The scheme that sums whatever is to be summed. GS_E_USAGE: the message lists what --sync takes. */
gs_status gs_find_scheme(const gs_settings *, const gs_sync_scheme **out);

/* ---- what ways are written in (step.c) ---- */

/* dw and counts = those of the next part that this worker has of a global batch, in pieces that fit its memory. */
gs_status gs_gradient(gs_worker *);

/* If this process was asked to stop, the counts say so to all workers that they are summed over. */
gs_status gs_tell_wish_to_stop(gs_worker *);

/* The counts that lie after the gradients. */
gs_status gs_read_score(gs_worker *, gs_score *);

static inline gs_score gs_score_of(const float stats[GS_STATS]) {
    return (gs_score){stats[GS_STAT_LOSS], stats[GS_STAT_CORRECT], stats[GS_STAT_SAMPLES],
                      stats[GS_STAT_STOP] > 0};
}

/* ---- the clock beside a step (measure.c) ---- */

/* Around each step. With --slow or --jitter, the step's beginning is where a worker sleeps. */
gs_status gs_step_begins(gs_worker *);
void gs_step_ends(gs_worker *);

/* The phase that just ended took the time since the last one ended. */
gs_status gs_phase_ends(gs_worker *, gs_phase);
