/* Strategies: what a worker does in each step, and between steps. One file each:
 *
 *     step.c                      synchronous: gradients are summed over the workers, and all make the same update
 *     strategies/pipeline.c       each worker has a stage of the model, and micro-batches go from stage to stage
 *     strategies/local_sgd.c      each worker trains on its own, and the weights are averaged now and then
 *     strategies/async.c          nobody waits for everybody
 *
 * The first two compose with what divides or orders the work within a step: a reducer (reducer.h: --zero, --bucket),
 * an order of sums (ordered_sums.h: --exact), layers that a group shares (train/tensor.h: --tensor). What does not go
 * together is a table (settings.c); a few finer conditions are in the check of each.
 *
 * A new strategy is its file, its name below and its row in strategy.c. Few others know a strategy by its name: they
 * ask its table. */
#pragma once

#include "train/train.h"

typedef struct gs_strategy {
    const char *name;   /* "local" */
    const char *option; /* that chooses it: "--sync local" */
    /* "weights averaged every 4 steps" */
    void (*describe)(const gs_settings *, char *text, size_t size);

    /* GS_E_USAGE: other settings that do not go with it. NULL: all do. (What is for it alone: settings.c.) */
    gs_status (*check)(const gs_settings *);
    /* GS_E_USAGE: it does not work with so many workers, on this set. All find the same. NULL: it does. */
    gs_status (*check_workers)(const gs_settings *, const gs_dataset *train_set, int workers);

    /* Between two steps the workers' weights differ, and gradients are not summed by worker->reducer. The score of a
     * step is of this worker's part alone, and its `stop` says too that a worker has diverged. */
    bool apart;

    /* ---- training. All workers call all of them. But for step, any may be NULL ---- */

    /* Before the first step: worker->strategy_state. */
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

    /* ---- where each worker has the weights, the gradients and the layers of its stage alone; else NULL ---- */

    /* worker->model is made with weights alone (max_batch 0), which create divides. The samples in worker->input go
     * forward through all stages. *scored: this worker has the last, and the loss is in the model's stats. */
    gs_status (*score)(gs_worker *, const gs_pass *, bool *scored);
    /* Model i of those that have the layers of this worker; NULL: there are no more. */
    gs_model *(*model)(const gs_worker *, int i);
} gs_strategy;

extern const gs_strategy gs_strategy_synchronous, gs_strategy_pipeline, gs_strategy_local, gs_strategy_async;

/* From now on runs of this name are the caller's. It is that of a strategy, or "zero" or "exact", which are synchronous
 * otherwise; of --pipeline, --zero and --exact the first one names a run. NULL restores the library's own. The new one
 * must live as long as it is used. Meant for trying a strategy in the running framework (lessons/): call it before any
 * other thread is started. GS_E_USAGE: no strategy has this name, or the new one has another. */
gs_status gs_strategy_replace(const char *name, const gs_strategy *);

/* The one that these settings choose. */
const gs_strategy *gs_strategy_of(const gs_settings *);

/* "gradients summed by ring" */
void gs_strategy_describe(const gs_settings *, char *text, size_t size);

/* Has each worker a stage of the model? */
static inline bool gs_has_stages(const gs_worker *w) {
    return w->strategy->score != NULL;
}

/* Model i of those with this worker's layers: one for each chunk of a stage, else its own alone. NULL: no more. */
static inline gs_model *gs_worker_model(const gs_worker *w, int i) {
    if (w->strategy->model && w->train_set) return w->strategy->model(w, i);
    return i == 0 ? w->model : NULL;
}

/* How many workers a replica of the model is spread over: 1, or the stages of a pipeline times the workers of a tensor
 * group. Which ones: layout.h. */
int gs_model_parallel_size(const gs_settings *);

/* How many parts a batch is cut into: the leaves of --exact, or one for each group. */
int gs_batch_shards(const gs_settings *, int workers);

/* The scheme that sums whatever is to be summed. GS_E_USAGE: the message lists what --sync takes. */
gs_status gs_find_scheme(const gs_settings *, const gs_sync_scheme **out);

/* How a run's gradients are summed, as its layout has it: "ring"; "all-reduce among the 2 replicas of each stage";
 * "reduce-scatter, then all-gather of the new weights"; "none among replicas, as there is one". */
enum { GS_SUMS_TEXT = 200 };
const char *gs_sums_text(const gs_worker *, char text[GS_SUMS_TEXT]);

/* ---- what strategies are written in (step.c) ---- */

/* dw and counts = those of the next part that this worker has of a global batch, in micro-batches that fit its memory.
 * With --exact these are the leaves of its order, one after the other. */
gs_status gs_gradient(gs_worker *);

/* Wishes, as added to GS_STAT_STOP: their sums are exact (persist/checkpoint.h). */
#define GS_ASKS_TO_STOP 1.0f
#define GS_ASKS_FOR_CHECKPOINT (1.0f / 4096)
#define GS_SAYS_CHECKPOINT 0.5f

/* What this worker adds to GS_STAT_STOP where `done` steps will be done: a wish to stop, or those of its hooks
 * (persist/checkpoint.h). Once in each step. */
float gs_wishes(const gs_worker *, uint64_t done);

/* If this process was asked to stop, or that of another worker of the group, or wants a checkpoint, the counts say so
 * to all workers that they are summed over. */
gs_status gs_tell_wish_to_stop(gs_worker *);

/* The counts that lie after the gradients. */
gs_status gs_read_score(gs_worker *, gs_score *);

/* The update from the summed gradients, of what this worker holds; with a loss scale it may be left out
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

/* Around each step. With --slow or --jitter, the step's beginning is where a worker sleeps. */
gs_status gs_step_begins(gs_worker *);
void gs_step_ends(gs_worker *);

/* The phase that just ended took the time since the last one ended. */
gs_status gs_phase_ends(gs_worker *, gs_phase);
