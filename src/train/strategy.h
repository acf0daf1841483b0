/* Strategies: what a worker does in each step, and between steps. One file each:
 *
 *     step.c                      synchronous: gradients are summed over the workers, and all make the same update
 *     strategies/pipeline.c       each worker computes a stage of the model; micro-batches go from stage to stage
 *     strategies/local_sgd.c      each worker trains alone, and the weights are averaged every H steps
 *     strategies/async.c          no worker waits for all others
 *
 * The first two compose with a reducer (reducer.h: --zero, --bucket), an order of sums (ordered_sums.h: --exact) and
 * layers that a group shares (train/tensor.h: --tensor). A table lists the combinations that are refused (settings.c);
 * each strategy's check refuses a few more.
 *
 * A new strategy is a file, a name below and a row in strategy.c. Almost no other file names a strategy: the others
 * call it through its table. */
#pragma once

#include "train/train.h"

typedef struct gs_strategy {
    const char *name;   /* "local" */
    const char *option; /* the option that chooses it: "--sync local" */
    /* "weights averaged every 4 steps" */
    void (*describe)(const gs_settings *, char *text, size_t size);

    /* GS_E_USAGE: settings that it does not work with. NULL: it works with all that settings.c allows. */
    gs_status (*check)(const gs_settings *);
    /* GS_E_USAGE, on all workers alike: a number of workers, or a set, that it does not work with. May be NULL. */
    gs_status (*check_workers)(const gs_settings *, const gs_dataset *train_set, int workers);

    /* Between two steps the workers' weights differ, and there is no reducer. The score of a step
     * counts this worker's part alone, and its `stop` also means that a worker has diverged. */
    bool apart;

    /* ---- training. All workers call all of them. Any except step may be NULL ---- */

    /* Before the first step: make worker->strategy_state. */
    gs_status (*create)(gs_worker *);
    /* Free what create made. It may have failed, or never have been called. */
    void (*free)(gs_worker *);
    /* An epoch of `steps` steps begins. */
    gs_status (*begin_epoch)(gs_worker *, size_t steps);
    /* From the worker's part of a global batch to its new weights. */
    gs_status (*step)(gs_worker *, gs_score *);
    /* Afterwards all workers hold the same weights. *total: the score of the epoch, over all workers. */
    gs_status (*end_epoch)(gs_worker *, gs_score *total);
    /* After the last epoch: fill in the strategy's part of the result. */
    gs_status (*report)(gs_worker *, gs_result *);

    /* ---- of a strategy whose workers hold only the layers of their own stage; else NULL ---- */

    /* worker->model is made with only weights (max_batch 0), which create divides. The samples in worker->input go
     * forward through all stages. *scored: this worker computes the last one, and the loss is in the model's stats. */
    gs_status (*score)(gs_worker *, const gs_pass *, bool *scored);
    /* Model i of those that contain this worker's layers; NULL: there are no more. */
    gs_model *(*model)(const gs_worker *, int i);
} gs_strategy;

extern const gs_strategy gs_strategy_synchronous, gs_strategy_pipeline, gs_strategy_local, gs_strategy_async;

/* Replace the strategy of runs of this name, for trying one in the running framework (lessons/). The name is that of a
 * strategy, or "zero" or "exact", which are otherwise synchronous; the first one of --pipeline, --zero and --exact
 * names a run. NULL restores the library's own. The new one must live as long as it is used. Call it before any other
 * thread starts. GS_E_USAGE: no strategy has this name, or the new one has another. */
gs_status gs_strategy_replace(const char *name, const gs_strategy *);

/* The strategy that these settings choose. */
const gs_strategy *gs_strategy_of(const gs_settings *);

/* "gradients summed by ring" */
void gs_strategy_describe(const gs_settings *, char *text, size_t size);

/* Does each worker compute a stage of the model? */
static inline bool gs_has_stages(const gs_worker *w) {
    return w->strategy->score != NULL;
}

/* Do the workers hold different parts of the model, its gradients or the optimiser's vectors? */
static inline bool gs_workers_differ(const gs_worker *w) {
    const gs_settings *s = w->settings;
    return w->comm->size > 1 && (gs_has_stages(w) || s->zero || s->tensor > 1);
}

/* Model i of those with this worker's layers: one for each chunk of a stage, else only its own. NULL: no more. */
static inline gs_model *gs_worker_model(const gs_worker *w, int i) {
    if (w->strategy->model && w->train_set) return w->strategy->model(w, i);
    return i == 0 ? w->model : NULL;
}

/* The number of workers that hold a replica of the model: the stages of a pipeline times the workers of a tensor group.
 * parallel/layout.h says which. */
int gs_model_parallel_size(const gs_settings *);

/* The number of parts of a batch: the leaves of --exact, or one for each replica. */
int gs_batch_shards(const gs_settings *, int workers);

/* The scheme for the sums of these settings. GS_E_USAGE: the message lists what --sync takes. */
gs_status gs_find_scheme(const gs_settings *, const gs_sync_scheme **out);

/* How the layout of a run sums gradients: "ring"; "all-reduce among the 2 replicas of each stage"; "reduce-scatter,
 * then all-gather of the new weights"; "none among replicas, as there is one". */
enum { GS_SUMS_TEXT = 200 };
const char *gs_sums_text(const gs_worker *, char text[GS_SUMS_TEXT]);

/* ---- the steps that strategies are made of (step.c) ---- */

/* dw and counts = those of this worker's next part of a global batch, in micro-batches that fit its memory. With
 * --exact these parts are its leaves, in order. */
gs_status gs_gradient(gs_worker *);

/* Wishes, as added to GS_STAT_STOP: their sums are exact (persist/checkpoint.h). */
#define GS_ASKS_TO_STOP 1.0f
#define GS_ASKS_FOR_CHECKPOINT (1.0f / 4096)
#define GS_SAYS_CHECKPOINT 0.5f

/* What this worker adds to GS_STAT_STOP in the step after which `done` steps are done: a wish to stop, or those of its
 * hooks (persist/checkpoint.h). Call it once in each step. */
float gs_wishes(const gs_worker *, uint64_t done);

/* Write the wishes of this worker and its tensor group, to stop or for a checkpoint, to the counts. Their sum tells all
 * workers. */
gs_status gs_tell_wish_to_stop(gs_worker *);

/* Read the counts that follow the gradients. */
gs_status gs_read_score(gs_worker *, gs_score *);

/* Update what this worker holds from the summed gradients; with a loss scale the update may be skipped
 * (optimizer->loss_scale.skipped). */
gs_status gs_update(gs_worker *, double samples);

static inline gs_score gs_score_of(const float stats[GS_STATS]) {
    const float wishes = stats[GS_STAT_STOP], less_than_1 = wishes - (float)(int)wishes;
    const bool checkpoint = less_than_1 >= GS_SAYS_CHECKPOINT;
    return (gs_score){.loss = stats[GS_STAT_LOSS],
                      .correct = stats[GS_STAT_CORRECT],
                      .samples = stats[GS_STAT_SAMPLES],
                      .stop = wishes >= GS_ASKS_TO_STOP,
                      .loss_scale = 0,
                      .skipped = false,
                      .checkpoint = checkpoint,
                      .asked = less_than_1 > (checkpoint ? GS_SAYS_CHECKPOINT : 0)};
}

/* ---- the clock beside a step (measure.c) ---- */

/* Call them around each step. With --slow or --jitter, a worker sleeps in gs_step_begins. */
gs_status gs_step_begins(gs_worker *);
void gs_step_ends(gs_worker *);

/* A phase has ended. It took the time since the end of the previous one. */
gs_status gs_phase_ends(gs_worker *, gs_phase);
