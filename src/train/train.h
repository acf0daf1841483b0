/* Training: every worker holds the whole model, sees its part of the data, and computes its gradient. The gradients are
 * summed, the sum reaches all workers, and all make the same update.
 *
 *     run.c         the workers of this process: one thread each, and the processes beside it; sweep.c: several runs
 *     trainer.c     a run whose steps a program makes, one at a time (gradsum.h)
 *     prepare.c     before a run: its files, its data sets, and what can be checked without a worker (run.h)
 *     epochs.c      the epochs of one worker: order, steps, evaluation
 *     step.c        one step, as the theory states it: load, forward, loss, backward, sum, update
 *     strategies/   other steps: pipeline.c, local_sgd.c, async.c; the table of all is strategy.h
 *     reducers/     how gradients are summed (reducer.h): all_reduce.c, zero.c; overlap.c: while backward still runs
 *     worker.h      a worker: device, replica of the model, optimiser, its rank; what it has of the model: partition.h
 *     stages.h      a model cut into stages; tensor.h: layers that a group shares
 *     ordered_sums.h       in which order gradients are summed with --exact
 *     batch_norm.h  the statistics of batch_norm over the samples of all workers
 *     offload.h     what lies outside of the device's memory
 *     evaluate.c    inference: the test set split over the workers
 *     ranking.c     which class is taken for which, and the samples that a model gets most wrong
 *     options/      the options that set all this: one table, with their defaults; do all workers have the same?
 *     settings.h    which settings are allowed, and which go together; the layout and the learning rates that they make
 *     state.h       what a run needs to go on where it stopped
 *     connect.h     the devices and cores of the workers of this process, and how they reach each other and others
 *     hooks.h       who watches a run: digest/ (what each step computed), verify.c (are all weights the same?),
 *                   diverged.h (is the loss a number?), timeline.h, checkpoints, the log; hooks.c lists them
 *     measure.c     the clock beside a step; how long steps take; pauses of a worker, drawn at random
 *     result.h      what a step, an epoch and a run report; worker_report.h: what each worker did
 *
 * Above it: ../predict/ (what a run will take) and ../persist/ (its state in files).
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include "data/augment.h"
#include "model/model.h"
#include "model/names.h"
#include "comm/create.h"
#include "train/batch_norm.h"
#include "train/worker.h"

/* A worker that is made slow on purpose. */
typedef struct gs_slow {
    int rank;
    double ms; /* that it sleeps in each step; 0: nobody is slow */
} gs_slow;

/* --jitter 3:20ms@5%: worker 3 pauses 20 ms in 5 % of its steps. These are hiccups, as of a machine that does something
 * else sometimes. (A worker that is late in every step is --slow.)
 *
 * Which steps these are is drawn from the seed, the worker and the step, so it is the same in every run, however many
 * workers there are and however they wait for each other.
 */
enum { GS_PAUSES = 8, GS_JITTER_TEXT = 768 /* bytes of any as text */ };

typedef struct gs_pause {
    int rank;
    double seconds; /* above 0, at most 1000 */
    double share;   /* of the steps: above 0, at most 1 */
} gs_pause;

/* Each rank at most once; a count of 0: nobody pauses. */
typedef struct gs_jitter {
    int count;
    gs_pause pause[GS_PAUSES];
} gs_jitter;

/* "3:20ms@5%", and several with commas between: RANK:TIME@SHARE%, the time in us, ms or s. False: it is not. */
bool gs_jitter_read(const char *text, gs_jitter *);

/* The same as text; "none" where nobody pauses. Returns `text`. */
const char *gs_jitter_text(const gs_jitter *, char *text, size_t size);

/* Seconds that worker `rank` pauses in step `step`, from 0; mostly 0. */
double gs_jitter_seconds(const gs_jitter *, uint64_t seed, int rank, uint64_t step);

/* Steps first .. last, from 1; 0 0: none. */
typedef struct gs_step_range {
    uint64_t first, last;
} gs_step_range;

/* How often a run makes a checkpoint: every 100 steps, or every 60 seconds. */
#define GS_CHECKPOINT_SECONDS 60.0
typedef struct gs_checkpoint_every {
    uint64_t steps; /* 0: by time */
    double seconds; /* both 0: GS_CHECKPOINT_SECONDS */
} gs_checkpoint_every;

/* What stays of a run. */
typedef struct gs_keep {
    /* The weights, saved or in gs_result, are those of the best epoch: by test accuracy, of a text by test loss. */
    bool best;
    int checkpoints; /* so many, the newest; 0: GS_KEEP_CHECKPOINTS */
} gs_keep;

/* Everything that decides a run. Two runs with equal settings give equal weights. */
typedef struct gs_settings {
    const char *model;        /* name or text; NULL: the one in the file `load` */
    const char *data;         /* see gs_dataset_load; not used if both of the next are set: */
    gs_labels labels;         /* which of CIFAR-100's */
    gs_folder_options folder; /* of an image folder */
    gs_tokens tokens;         /* of a text: characters, bytes or byte pairs */
    const char *tokenizer;    /* then: the folder with the list of byte pairs (bpe.h); NULL: none */
    int context; /* tokens in a window of a text; 0: as many as the loaded model takes, else GS_CONTEXT */
    const gs_vocabulary *vocabulary; /* of a text; NULL: that of `load`, else `tokenizer`'s, else its own */
    const gs_dataset *train_set;     /* the caller's, for instance from memory (dataset.h) */
    const gs_dataset *test_set;      /* the same set, or another with the same shape and kind of targets */
    const char *devices; /* one worker of this process on each: "cpu,cpu", "cl:0.0/0of2,cl:0.0/1of2" */
    const char *sync;    /* name of a scheme (sync/sync.h), or of a strategy (train/strategy.h) */
    gs_loss loss;
    float label_smoothing; /* of the loss in training (gs_model); the test loss is without it */
    size_t batch;          /* the GLOBAL batch; 0: all samples (full gradient descent) */
    int epochs;
    uint64_t steps; /* end after this many steps; 0: no limit */
    uint64_t seed;
    const gs_optimizer_ops *optimizer; /* &gs_sgd, another of the library's, or one of the caller's */
    /* NAN: what the optimiser usually takes (optim/optimizer.h). A number that it does not take must be NAN. */
    float lr, momentum, weight_decay, beta1, beta2, epsilon;
    float clip;              /* the largest norm of a gradient (gs_optimizer_clip); 0: any */
    gs_lr_rule lr_rule;      /* how the rate follows the global batch (optim/lr_rule.h) */
    uint64_t base_batch;     /* of the rule: the batch that lr is for; 0: GS_BASE_BATCH */
    double warmup;           /* epochs in which the rate rises; 0: it does not */
    uint64_t warmup_steps;   /* or steps; one of the two */
    gs_lr_schedule schedule; /* how the rate falls then (optim/lr_schedule.h) */
    float final_lr;          /* where the schedule ends, if it falls to a rate; NAN: 0 */
    int threads;             /* CPU threads of each cpu worker; 0: the cores divided among the workers */
    uint64_t micro_batch;    /* most samples at once in a device's memory; 0: GS_MICRO_BATCH, or less */
    const char *load, *save; /* safetensors files or NULL. Rank 0 writes save; all ranks have one, or none */
    bool save_state;         /* in `save`, write the state of the run beside the weights (state.h) */
    const char *checkpoint;  /* a folder for checkpoints (persist/checkpoint.h); NULL: there are none */
    gs_checkpoint_every checkpoint_every; /* how often */
    /* Go on with the run whose state is in this file, or in the newest checkpoint of this folder that is whole; NULL:
     * begin a new one. */
    const char *resume;
    const struct gs_state *begin;   /* its state, which gs_train reads from there; NULL: none */
    struct gs_snapshots *snapshots; /* of launch --elastic (persist/snapshots.h); else NULL */
    bool regrouped; /* of such a run: ranks were lost; `slow` and `jitter` may name one that is no more */
    gs_names names; /* of the tensors in `save` */
    /* The first layer sees (byte / 255 - mean) / std. Count 0: as the file `load` says, (0, 1) where it does not;
     * without a file those of the training set. */
    gs_by_channel mean, std;
    bool bind;  /* each worker is bound to its own cores, if there are enough (gs_worker_share) */
    bool exact; /* the same bits for 1, 2, 4 and 8 workers (ordered_sums.h) */
    int zero;   /* ZeRO's stage, 1 to 3 (train/reducers/zero.h); 0: all workers hold all */
    gs_batch_norm_groups batch_norm; /* over which samples batch_norm takes its statistics */
    const char *layout; /* "dp2,pp2,zero1": pipeline, tensor, zero (parallel/layout.h); NULL: none */
    int accumulate;     /* passes over a worker's part of the batch before one sum; 0 means 1 */
    int pipeline; /* stages that the model is cut into, each on a worker (strategies/pipeline.c); 0: it is whole */
    const char *pipeline_schedule; /* of --pipeline: see gs_pipeline_read; NULL: 1f1b */
    const char *pipeline_cut;      /* of --pipeline: "measured" (NULL), "flops", "3,6" (parallel/cut.h) */
    int micro_batches;             /* of --pipeline: how many a batch is cut into; 0: four for each stage */
    gs_precision precision;        /* of the layers' products (device.h), in training and its tests */
    int tensor;    /* workers that share each pair of linear layers (train/tensor.c); 0: none do */
    bool sequence; /* with tensor: and the tokens of each sequence (parallel/sequence.h) */
    int recompute; /* what backward computes again instead of keeping it (layer/memory/recompute.h) */
    int bucket;    /* KB of whole layers that are summed together during backward; 0: one sum after it */
    gs_wire wire;  /* how gradients travel (sync/wire.h) */
    gs_slow slow;
    gs_jitter jitter;
    gs_link link;       /* how slow messages between workers are (comm/link.h) */
    gs_augment augment; /* what becomes of training samples (data/augment.h) */
    double throttle; /* MB (10^6 bytes) of samples a second that each worker's loader brings; 0: all it can */
    int every;       /* --sync local: steps from one average of the weights to the next; else 0 */
    int staleness;   /* --sync async: K, steps that a worker may be ahead of the slowest; else -1 */
    const char *digest; /* record each step in this folder (digest/digest.h); NULL: no record */
    uint64_t verify;    /* compare the workers' weights every `verify` steps; 0: never */
    bool keep_going;    /* when a loss or a logit is not finite; else GS_E_DIVERGED, and nothing is saved */
    int tests; /* evaluations of the test set in an epoch, evenly spaced, the last at its end; 0: none. More than one
                  only if all workers have the same weights after each step. */
    bool record;         /* call the observer's workers and timeline functions too */
    gs_step_range trace; /* the steps of that timeline */
    bool confusion;      /* of gs_eval: count which class is taken for which */
    gs_keep keep;
    bool measure; /* measure the phases of some steps (costs a wait after each phase of these) */
    const gs_rendezvous *processes; /* the processes beside this one; NULL: none */
    gs_comm **connected; /* to these, if it is made already: the run takes it from there; may be NULL */
    double timeout;      /* seconds that a worker may wait for another; > 0 */
    /* For tests only, to cause faults: each worker calls it after a step. */
    void (*test_hook)(struct gs_worker *);
    int max_memory; /* MB (10^6 bytes) that a worker may take of its device's memory; 0: no limit (predict/memory.h) */
    /* What lies outside of the device's memory: gs_offload in device.h, or more of them (train/offload.h). */
    unsigned offload;
    const char *offload_dir; /* where cpu puts it; NULL: TMPDIR, else /var/tmp */
    bool fit;                /* with max_memory: settings change until the run fits (predict/memory.h) */
    bool plans;              /* a dry run comes first, so that workers report what was planned, too */
    /* What the workers need of others (worker.h), such as those of a dry run (predict/dry_run.h). NULL: of a run. */
    const struct gs_worker_calls *calls;
} gs_settings;

/* The defaults: mlp on fashion-mnist-small, cpu, allreduce, batch 128, 5 epochs, seed 1, SGD: lr 0.05, momentum 0.9. */
gs_settings gs_settings_default(void);

/* The optimiser's numbers: those that are set, else its usual ones; NAN for one that it does not take. */
gs_hyperparameters gs_settings_numbers(const gs_settings *);

enum {
    GS_KEEP_CHECKPOINTS = 3,
    GS_MICRO_BATCH = 256,     /* a larger part of a batch is computed in several (data/schedule.h), */
    GS_MICRO_BYTES = 1 << 30, /* or if the outputs of all its layers had more bytes */
    GS_TOP = 5,               /* top-5 accuracy, as ImageNet's */
    GS_EVAL_BLOCK = 128,      /* samples that inference handles at once, at most (gs_eval_block) */
    GS_EVAL_BYTES = 3 << 25,  /* of the outputs of all layers in it, at most */
    GS_FIT_TEXT = 900,        /* of what --fit says: five levers, each with its cost and what it would take */
};

/* Load settings->data as the settings say: labels, tokens, context. As gs_dataset_load; GS_E_USAGE too: a
 * setting of texts with other data. */
gs_status gs_load_set(const gs_settings *, gs_split, gs_dataset **out);

/* One step over the next global batch. */
gs_status gs_step(gs_worker *, gs_score *);

/* How the model ranks the classes. */
typedef struct gs_ranking {
    double
        *confusion; /* (classes, classes), first 0: which label was taken for which class; NULL: not wanted */
    double top;     /* how many samples have their label among the GS_TOP classes with the largest logits */
    gs_worst *worst; /* empty at first; stays so where a sample has several targets; NULL: not wanted */
} gs_ranking;

/* Loss and accuracy over a whole set, and where `ranking` is not NULL, this too: each worker takes its part, only the
 * final counts are summed. The set is cut into the same blocks for any number of workers, and each block gives the same
 * bits for any number of threads, so the result is the same too. */
gs_status gs_evaluate(gs_worker *, const gs_dataset *, gs_score *, gs_ranking *ranking);

/* Logits (count, classes) of the blocks that this worker takes, at their places in the array for all. */
gs_status gs_predict(gs_worker *, const gs_dataset *, float *logits);

/* GS_E_USAGE if not all ranks have the same settings and data: the message names the rank and the option.
 * *found_by_all: every rank finds this from the same facts, so that no rank has to tell the others. */
gs_status gs_agree(gs_worker *, bool *found_by_all);

/* All epochs of one worker. */
gs_status gs_train_epochs(gs_worker *, gs_result *);

/* A run to be resumed that has done all steps that are asked for is only tested and saved: train_loss is NaN.
 * GS_E_USAGE: settings that are out of range or do not go together. On failure
 * the message names the worker, and result->steps is how many steps were done; of a run that has diverged it is the
 * step. Where only saving has failed, the whole result is there: its weights are not NULL. */
gs_status gs_train(const gs_settings *, const gs_observer *, gs_result *);

/* Would it begin? What is wrong with the settings, the data or a device of this process, before other work. */
gs_status gs_train_check(const gs_settings *);

/* Evaluate settings->load on the test set, on the same workers. The observer, or NULL, hears of `testing`, as that of
 * gs_predict_all. GS_E_DIVERGED: the loss is not finite. */
gs_status gs_eval(const gs_settings *, const gs_observer *, gs_result *);

/* Logits of the whole test set, (rows, columns), to be freed with free(). Within one process only.
 * GS_E_DIVERGED: one of them is not finite. */
gs_status gs_predict_all(const gs_settings *, const gs_observer *, float **logits, size_t *rows,
                         int *columns);

/* How many devices a list names, and number i of them, which is copied to `name`. */
int gs_devices_count(const char *list);
gs_status gs_devices_name(const char *list, int i, char name[48]);

/* A signal handler may set it: then every worker of every process ends after its current step. */
extern volatile sig_atomic_t gs_stop_requested;

/* Not 0 while rank 0 makes a test that goes on to its end all the same: workers need each other in it. */
extern volatile sig_atomic_t gs_test_has_no_stop;

/* A signal handler may change it, to any other value: then a run with settings->checkpoint makes one soon. */
extern volatile sig_atomic_t gs_checkpoint_requested;
