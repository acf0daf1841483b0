/* Strategies: what a worker does in each step, and between steps. Each has its own file:
 *
 *     step.c                      synchronous: gradients are summed over the workers, and all make the same update
 *     strategies/pipeline.c       each worker computes a stage of the model; micro-batches pass from stage to stage
 *     strategies/local_sgd.c      each worker trains alone, and the weights are averaged every H steps
 *     strategies/async.c          no worker waits for all other workers
 *
 * The first two can be combined with a reducer (reducer.h: --zero, --bucket), an order of sums (ordered_sums.h:
 * --exact) and layers shared by a group (train/tensor.h: --tensor). A table in settings.c lists the combinations that
 * are refused; each strategy's check refuses a few more.
 *
 * A new strategy needs a file, a name below and a row in strategy.c. Almost no other file names a strategy: code calls
 * strategies through their tables. */
#pragma once

#include "train/train.h"

typedef struct gs_strategy {
    const char *name;   /* "local" */
    const char *option; /* the option that selects it: "--sync local" */
    /* Write, for instance, "weights averaged every 4 steps". */
    void (*describe)(const gs_settings *, char *text, size_t size);

    /* GS_E_USAGE: it does not work with these settings. NULL: it works with all that settings.c allows. */
    gs_status (*check)(const gs_settings *);
    /* GS_E_USAGE, on all workers: it does not work with this number of workers or this data set. May be NULL. */
    gs_status (*check_workers)(const gs_settings *, const gs_dataset *train_set, int workers);

    /* True if the workers' weights differ between steps. There is then no reducer, and a step's score counts only this
     * worker's part; the score's `stop` may also mean that a worker has diverged. */
    bool apart;
    /* True if a pass holds only one of --exact's leaves. */
    bool leaf_by_leaf;

    /* ---- training: all workers call all of these functions; any except step may be NULL ---- */

    /* Called before the first step: create worker->strategy_state. */
    gs_status (*create)(gs_worker *);
    /* Free what `create` made. `create` may have failed, or may never have been called. */
    void (*free)(gs_worker *);
    /* Called when an epoch of `steps` steps begins. */
    gs_status (*begin_epoch)(gs_worker *, size_t steps);
    /* Turn the worker's part of a global batch into its new weights. */
    gs_status (*step)(gs_worker *, gs_score *);
    /* After this, all workers hold the same weights. *total: the epoch's score, over all workers. */
    gs_status (*end_epoch)(gs_worker *, gs_score *total);
    /* After the last epoch: fill in the strategy's part of the result. */
    gs_status (*report)(gs_worker *, gs_result *);

    /* ---- for a strategy whose workers hold only the layers of their own stage; otherwise NULL ---- */

    /* worker->model is created with weights only (max_batch 0), which `create` divides. `score` passes worker->input
     * forward through all stages. *scored: true on the last stage, whose model's stats then hold the loss. */
    gs_status (*score)(gs_worker *, const gs_pass *, bool *scored);
    /* Model i of the models that contain this worker's layers; NULL: there are no more. */
    gs_model *(*model)(const gs_worker *, int i);
} gs_strategy;

extern const gs_strategy gs_strategy_synchronous, gs_strategy_pipeline, gs_strategy_local, gs_strategy_async;

/* Replace the strategy of the runs called `name`, to try one in the running framework (lessons/). `name` is the name of
 * a strategy, or "zero" or "exact": runs with --zero or --exact otherwise use the synchronous strategy. The first of
 * --pipeline, --zero and --exact that is set determines what a run is called. NULL restores the built-in strategy. The
 * new strategy must live as long as it is used. Call this before other threads start. GS_E_USAGE: no strategy has this
 * name, or the new one has a different name. */
gs_status gs_strategy_replace(const char *name, const gs_strategy *);

/* The strategy that these settings select. */
const gs_strategy *gs_strategy_of(const gs_settings *);

/* Write, for instance, "gradients summed by ring". */
void gs_strategy_describe(const gs_settings *, char *text, size_t size);

/* True if each worker computes a stage of the model. */
static inline bool gs_has_stages(const gs_worker *w) {
    return w->strategy->score != NULL;
}

/* True if workers hold different parts of the model, of its gradients or of the optimiser's vectors. */
static inline bool gs_workers_differ(const gs_worker *w) {
    const gs_settings *s = w->settings;
    return w->comm->size > 1 && (gs_has_stages(w) || s->zero || s->tensor > 1);
}

/* Model i of those with this worker's layers: one per chunk of a stage; otherwise only worker->model. NULL: no more. */
static inline gs_model *gs_worker_model(const gs_worker *w, int i) {
    if (w->strategy->model && w->train_set) return w->strategy->model(w, i);
    return i == 0 ? w->model : NULL;
}

/* The number of workers that together hold a replica of the model: the pipeline's stages times the workers of a tensor
 * group. parallel/layout.h says which workers these are. */
int gs_model_parallel_size(const gs_settings *);

/* The number of parts into which a batch is cut: with --exact the number of leaves, otherwise one per replica. */
int gs_batch_shards(const gs_settings *, int workers);

/* Find the scheme that these settings select for sums. GS_E_USAGE: the message lists what --sync accepts. */
gs_status gs_find_scheme(const gs_settings *, const gs_sync_scheme **out);

/* How this worker's run sums gradients: "ring"; "all-reduce among the 2 replicas of each stage"; "reduce-scatter, then
 * all-gather of the new weights"; "none among replicas, as there is one". */
enum { GS_SUMS_TEXT = 200 };
const char *gs_sums_text(const gs_worker *, char text[GS_SUMS_TEXT]);

/* ---- the parts of a step, for strategies (step.c) ---- */

/* Compute dw and counts of this worker's next part of a global batch, in micro-batches that fit in its memory. */
gs_status gs_gradient(gs_worker *);

/* Requests, as the numbers that workers add to GS_STAT_STOP. Sums of these are exact (persist/checkpoint.h). */
#define GS_ASKS_TO_STOP 1.0f
#define GS_ASKS_FOR_CHECKPOINT (1.0f / 4096)
#define GS_SAYS_CHECKPOINT 0.5f

/* What this worker adds to GS_STAT_STOP when `done` steps, including the current one, are complete: a request to stop,
 * or its hooks' requests (persist/checkpoint.h). Call this once per step. */
float gs_wishes(const gs_worker *, uint64_t done);

/* Write this tensor group's requests (to stop, or for a checkpoint) into the counts, whose sum tells all workers. */
gs_status gs_tell_wish_to_stop(gs_worker *);

/* Read the counts that follow the gradients. */
gs_status gs_read_score(gs_worker *, gs_score *);

/* Update what this worker holds, using the summed gradients. With a loss scale the update may be skipped
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

/* ---- timing of a step (measure.c) ---- */

/* Call these before and after each step. With --jitter, a worker sleeps in gs_step_begins. */
gs_status gs_step_begins(gs_worker *);
void gs_step_ends(gs_worker *);

/* Record that a phase has ended. It took the time since the previous phase ended. */
gs_status gs_phase_ends(gs_worker *, gs_phase);
