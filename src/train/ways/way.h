/* Ways to train: what a worker does in each step, and between steps. One file each:
 *
 *     ../step.c         synchronous: gradients are summed over the workers by a scheme, and all make the same update
 *     pipeline.c        each worker has a stage of the model
 *     zero.c            each worker holds its part of the vectors, of the gradients, of the weights
 *     local_sgd.c       each worker trains on its own, and the weights are averaged now and then
 *     async.c           nobody waits for everybody
 *     exact.c           the same bits for any number of workers; also with pipeline.c and zero.c
 *     tensor.c          groups of workers share the work of linear layers; not with local_sgd.c and async.c
 *
 * A new one is its file, its name below and its place in way.c. Few others know a way by its name (--elastic,
 * simulate): who needs to know asks its table, where 0, false and NULL are what holds for the synchronous way.
 */
#pragma once

#include "train/checkpoint/checkpoint.h"
#include "train/train.h"

typedef struct gs_way {
    const char *name;   /* "local" */
    const char *option; /* that chooses it: "--sync local" */

    /* ---- which settings suit it ---- */

    /* Why it does not work with --bucket, --wire, --save-state; NULL: it does. */
    const char *no_bucket, *no_wire, *no_state;
    const char *no_offload; /* nor with --offload */
    const char *no_f16; /* why not with --precision f16, whose skipped updates all workers must agree on */
    /* GS_E_USAGE: it does not work with so many workers, on this set. All find the same. NULL: it does. */
    gs_status (*check_workers)(const gs_settings *, const gs_dataset *train_set, int workers);
    /* GS_E_USAGE: other settings that do not go with it; or, where another way is chosen, settings that go with this
     * one alone. NULL: all do. */
    gs_status (*check)(const gs_settings *, bool chosen);

    /* ---- what the command line and logs tell of it ---- */

    /* "gradients summed in one fixed tree"; where it depends on the settings, describe writes it, else that is NULL. */
    const char *summary;
    void (*describe)(const gs_settings *, char *text, size_t size);
    bool no_gradient;  /* after an epoch the array of gradients does not hold the sum of the last step's */
    bool own_sums;     /* it sums by messages of its own: worker->sync has no room for gradients */
    bool all_measured; /* its steps are not alike, so settings->measure measures them all */

    /* ---- training. All workers call all of them. But for step, any may be NULL ---- */

    /* Between two steps the workers' weights differ. The score of a step is of this worker's part alone, and its `stop`
     * says too that a worker has diverged. */
    bool apart;
    /* Each worker has the weights, the gradients and the layers of its stage alone. worker->model is made with weights
     * alone (gs_model_create_weights), which create divides. */
    bool split;
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
    /* How batch_norm's numbers are summed over all workers (gs_pass.sum_over_workers); NULL: by an all-reduce, which
     * does not suit virtual shards. */
    gs_status (*share)(void *worker, double *numbers, size_t count);

    /* With `split`: the samples in worker->input go forward through all stages. *scored: this worker has the
     * last one, and the loss is in the model's stats. */
    gs_status (*score)(gs_worker *, const gs_pass *, bool *scored);
    /* Model i of those that have the layers of this worker; NULL: there are no more. Without: worker->model is all. */
    gs_model *(*model)(const gs_worker *, int i);
    /* In an evaluation a worker goes through fewer blocks than others: it takes part in what they do together. */
    gs_status (*attend)(gs_worker *);

    /* In a rehearsal (train/memory/memory.h): allocate what the step after `done` others would. NULL: that is what
     * forward and backward of the worker's part in w->model do. */
    gs_status (*rehearse)(gs_worker *, uint64_t done);

    /* After the last epoch: its part of the result. */
    gs_status (*report)(gs_worker *, gs_result *);
} gs_way;

extern const gs_way gs_way_synchronous, gs_way_exact, gs_way_tensor, gs_way_pipeline, gs_way_zero,
    gs_way_local, gs_way_async;

/* All ways, then NULL. */
const gs_way *const *gs_ways(void);

/* From now on the way of this name is the caller's; NULL restores the library's own. It must live as long as it is
 * used. Meant for trying a way in the running framework (lessons/): call it before any other thread is started.
 * GS_E_USAGE: no way has this name, or the new one has another. */
gs_status gs_way_replace(const char *name, const gs_way *);

/* The one that these settings choose. */
const gs_way *gs_way_of(const gs_settings *);

/* All whose conditions they must meet: gs_way_tensor with --tensor, the one that they choose, gs_way_exact with
 * --exact. NULL after the last one. */
const gs_way *gs_way_part(const gs_settings *, int i);

/* The option that chose how a run trains, for messages: "--tensor", "--exact --zero". */
const char *gs_way_option(const gs_settings *);

/* "gradients summed by ring" */
void gs_way_describe(const gs_settings *, char *text, size_t size);

/* How many workers share a part of each batch: 1, or the stages of a pipeline times the workers of a tensor group.
 * Which ones: layout.h. */
int gs_stages_of(const gs_settings *);

/* How many parts a batch is cut into: as the way says, or one for each group. */
int gs_parts_of(const gs_settings *, int workers);

/* The scheme that sums whatever is to be summed. GS_E_USAGE: the message lists what --sync takes. */
gs_status gs_find_scheme(const gs_settings *, const gs_sync_scheme **out);

/* How a run's gradients are summed, as its layout has it: "ring"; "all-reduce among the 2 replicas of each stage";
 * "reduce-scatter, then all-gather of the new weights"; "none among replicas, as there is one". */
enum { GS_SUMS_TEXT = 200 };
const char *gs_sums_text(const gs_worker *, char text[GS_SUMS_TEXT]);

/* ---- what ways are written in (step.c, order.c, checkpoint/checkpoint.c) ---- */

/* dw and counts = those of the next part that this worker has of a global batch, in pieces that fit its memory. */
gs_status gs_gradient(gs_worker *);

/* The same of its part k = 0, 1, ..., one after the other, which is leaf k of its order with --exact. */
gs_status gs_leaf(gs_worker *, int k);

/* gs_way.step, where gradients are summed over GS_DP by worker->sync. */
gs_status gs_synchronous_step(gs_worker *, gs_score *);

/* What this worker adds to GS_STAT_STOP where `done` steps will be done: a wish to stop, or one of
 * checkpoint/checkpoint.h. Once in each step. */
float gs_wishes(gs_worker *, uint64_t done);

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
