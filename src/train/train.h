/* Training: every worker holds the whole model and computes the gradient of its part of the batch. The gradients are
 * summed over all workers, and all workers make the same update.
 *
 *     run.c         this process's workers, one thread each: devices, cores, connections; sweep.c: several runs
 *     trainer.c     a run that a program controls step by step (gradsum.h)
 *     prepare.c     before a run: its files, its data sets, and all checks that need no worker (run.h)
 *     epochs.c      the epochs of one worker: order, steps, evaluation
 *     step.c        one step, as in theory: load, forward, loss, backward, sum, update
 *     strategies/   other kinds of step: pipeline.c, local_sgd.c, async.c; strategy.h describes all
 *     reducers/     how gradients are summed (reducer.h): all_reduce.c, zero.c; overlap.c: during backward
 *     worker.h      a worker: device, replica, optimiser, rank; partition.h: its part of the model
 *     stages.h      a model cut into stages; tensor.h: layers shared by a group
 *     ordered_sums.h       the order in which gradients are summed with --exact
 *     batch_norm.h  batch_norm's statistics over the samples of all workers
 *     offload.h     data kept outside of the device's memory
 *     evaluate.c    inference: the test set divided among the workers
 *     ranking.c     the confusion matrix, and the samples with the largest loss
 *     options/      one table of all options, with their defaults; agreement.c: checks that ranks agree on them
 *     settings.h    which settings are allowed and work together; the resulting layout and learning rates
 *     state.h       what a run needs to resume
 *     hooks.h       observers of a run: digest/ (what each step computed), verify.c (are all weights equal?),
 *                   diverged.h (is the loss finite?), timeline.h, checkpoints, the log; hooks.c lists them
 *     measure.c     the timing of steps; random pauses of a worker
 *     result.h      reports on a step, an epoch and a run; worker_report.h: on each worker
 *
 * Built on these: ../predict/ (time and memory of a run) and ../persist/ (its state in files).
 */
#pragma once

#include "model/names.h"
#include "comm/create.h"
#include "train/batch_norm.h"
#include "train/worker.h"

/* --jitter 3:20ms@5%: worker 3 pauses for 20 ms in 5 % of its steps, like a machine that is sometimes busy with other
 * work. 3:20ms: in each step, like a slow machine.
 *
 * The seed, the worker and the step decide, so the pauses are the same in every run, for any number of workers.
 */
enum { GS_PAUSES = 8, GS_JITTER_TEXT = 768 /* maximum size of a jitter's text, in bytes */ };

typedef struct gs_pause {
    int rank;
    double seconds; /* above 0, at most 1000 */
    double share;   /* fraction of the steps: above 0, at most 1 */
} gs_pause;

/* Each rank appears at most once; count 0: no pauses. */
typedef struct gs_jitter {
    int count;
    gs_pause pause[GS_PAUSES];
} gs_jitter;

/* Read RANK:TIME@SHARE%, or several separated by commas: "3:20ms@5%"; the time in us, ms or s. False: invalid text. */
bool gs_jitter_read(const char *text, gs_jitter *);

/* The text that gs_jitter_read reads; "none" without pauses. Returns `text`. */
const char *gs_jitter_text(const gs_jitter *, char *text, size_t size);

/* The seconds for which worker `rank` pauses in step `step` (from 0): 0 in most steps. */
double gs_jitter_seconds(const gs_jitter *, uint64_t seed, int rank, uint64_t step);

/* Steps first .. last, from 1; 0 0: none. */
typedef struct gs_step_range {
    uint64_t first, last;
} gs_step_range;

/* How often a run writes a checkpoint: after how many steps or seconds. */
#define GS_CHECKPOINT_SECONDS 60.0
typedef struct gs_checkpoint_every {
    uint64_t steps; /* 0: by time */
    double seconds; /* ignored if steps > 0; both 0: GS_CHECKPOINT_SECONDS */
} gs_checkpoint_every;

/* Which of a run's weights and checkpoints are kept. */
typedef struct gs_keep {
    /* True: the weights (saved, or in gs_result) are those of the best epoch by test accuracy (for text, by test
     * loss). */
    bool best;
    int checkpoints; /* number of newest checkpoints to keep; 0: GS_KEEP_CHECKPOINTS */
} gs_keep;

/* All settings of a run. Two runs with equal settings give equal weights. */
typedef struct gs_settings {
    const char *model;        /* name or text; NULL: from the file `load` */
    const char *data;         /* see gs_dataset_load; unused with train_set and test_set */
    gs_labels labels;         /* for CIFAR-100: fine or coarse */
    gs_folder_options folder; /* for an image folder */
    gs_tokens tokens;         /* for text: characters, bytes or byte pairs */
    const char *tokenizer;    /* for byte pairs: the folder with their list (bpe.h); NULL: none */
    int context;              /* for text: tokens per window; 0: as in the loaded model, else GS_CONTEXT */
    const gs_vocabulary *vocabulary; /* for text; NULL: from `load`, else `tokenizer`, else the text */
    const gs_dataset *train_set;     /* the caller's, for instance in memory (dataset.h) */
    const gs_dataset *test_set;      /* may be train_set, or has the same shape and kind of targets */
    const char *devices; /* one worker of this process on each: "cpu,cpu", "cl:0.0/0of2,cl:0.0/1of2" */
    const char *sync;    /* name of a scheme (sync/sync.h) or a strategy (train/strategy.h) */
    gs_loss loss;
    float label_smoothing; /* for the training loss (gs_model); the test loss ignores it */
    size_t batch;          /* the GLOBAL batch; 0: all samples (full gradient descent) */
    int epochs;
    uint64_t steps; /* end after this many steps; 0: no limit */
    uint64_t seed;
    const gs_optimizer_ops *optimizer; /* &gs_sgd, another built-in one, or the caller's */
    /* NAN: the optimiser's default (optim/optimizer.h). Those that the optimiser does not take must be NAN. */
    float lr, momentum, weight_decay, beta1, beta2, epsilon;
    float clip;              /* maximum norm of a gradient (gs_optimizer_clip); 0: no limit */
    gs_lr_rule lr_rule;      /* how the rate follows the global batch (optim/lr_rule.h) */
    uint64_t base_batch;     /* for the rule: the batch for which lr is meant; 0: GS_BASE_BATCH */
    double warmup;           /* epochs during which the rate rises; 0: none */
    uint64_t warmup_steps;   /* the same in steps; only one of the two may be set */
    gs_lr_schedule schedule; /* the rate after the warm-up (optim/lr_schedule.h) */
    float final_lr;          /* the last rate of a falling schedule; NAN: 0 */
    int threads;             /* CPU threads per cpu worker; 0: divide the cores among the workers */
    uint64_t micro_batch;    /* maximum number of samples computed at once; 0: GS_MICRO_BATCH, or fewer */
    const char *load, *save; /* safetensors files or NULL. Rank 0 writes `save`; all ranks set it, or none */
    bool save_state;         /* also write the run's state to `save` (state.h) */
    const char *checkpoint;  /* a folder for checkpoints (persist/checkpoint.h); NULL: none */
    gs_checkpoint_every checkpoint_every; /* how often */
    /* Continue from the state in this file, or in the newest whole checkpoint in this folder; NULL: start a run. */
    const char *resume;
    const struct gs_state *begin;   /* resume from this state, as read by gs_train; NULL: none */
    struct gs_snapshots *snapshots; /* for launch --elastic (persist/snapshots.h); otherwise NULL */
    bool regrouped;                 /* with --elastic: ranks were lost, and `jitter` may name a lost one */
    gs_names names;                 /* for the tensors in `save` */
    /* The first layer's input is (byte / 255 - mean) / std. Count 0: the file `load`'s mean and std, or (0, 1) if it
     * has none; without a file, the training set's. */
    gs_by_channel mean, std;
    bool bind;  /* bind each worker to its own cores if there are enough (worker_share in prepare.c) */
    bool exact; /* give the same bits for 1, 2, 4 and 8 workers (ordered_sums.h) */
    int zero;   /* ZeRO's stage, 1 to 3 (train/reducers/zero.h); 0: each worker holds everything */
    gs_batch_norm_groups batch_norm; /* the samples over which batch_norm computes statistics */
    const char *layout; /* "dp2,pp2,zero1": sets pipeline, tensor, zero (parallel/layout.h); NULL: none */
    int accumulate;     /* passes over a worker's part of the batch per sum; 0 means 1 */
    int pipeline;       /* stages of the model, one per worker (strategies/pipeline.c); 0: not divided */
    const char *pipeline_schedule; /* with pipeline: see gs_pipeline_read; NULL: 1f1b */
    const char *pipeline_cut;      /* with pipeline: "measured" (NULL), "flops", "3,6" (parallel/cut.h) */
    int micro_batches;             /* with pipeline: per batch; 0: four per stage */
    gs_precision precision;        /* of layers' products (device.h), in training and its tests */
    int tensor;    /* workers that share each pair of linear layers (train/tensor.c); 0: not shared */
    bool sequence; /* with tensor: also share the tokens of each sequence (parallel/sequence.h) */
    int recompute; /* what backward recomputes instead of keeping it (layer/memory/recompute.h) */
    int bucket;    /* KB of whole layers summed together during backward; 0: one sum after backward */
    gs_wire wire;  /* the type in which gradients are sent (sync/wire.h) */
    gs_jitter jitter;
    gs_link link;       /* simulates a slow network between workers (comm/link.h) */
    gs_augment augment; /* random changes of training images (data/augment.h) */
    double throttle;    /* limit for each worker's loader, in MB (10^6 bytes) per second; 0: none */
    int every;          /* --sync local: steps from one average of weights to the next; otherwise 0 */
    int staleness;      /* --sync async: K, steps that a worker may be ahead of the slowest; otherwise -1 */
    const char *digest; /* record each step in this folder (digest/digest.h); NULL: do not */
    uint64_t verify;    /* compare the workers' weights every `verify` steps; 0: never */
    bool keep_going; /* even if a loss or a logit is not finite; false: GS_E_DIVERGED, and nothing is saved */
    int tests;   /* evaluations per epoch, evenly spaced, the last at the end; 0: none. More than one only if
                           all workers have the same weights after each step. */
    bool record; /* also call the observer's `workers` and `timeline`; rank 0 then knows all devices */
    gs_step_range trace; /* the steps of this timeline */
    bool confusion;      /* gs_eval: count the confusion matrix */
    gs_keep keep;
    bool measure;                   /* time the phases of some steps, which then wait after each phase */
    const gs_rendezvous *processes; /* the other processes; NULL: none */
    gs_comm **connected;            /* a comm with these processes, which the run will own; may be NULL */
    double timeout;                 /* seconds that a worker may wait for another; > 0 */
    /* For tests only, to inject faults: each worker calls it after each step. */
    void (*test_hook)(struct gs_worker *);
    int max_memory;   /* limit on a worker's device memory, in MB (10^6 bytes); 0: none (predict/memory.h) */
    unsigned offload; /* data outside of the device's memory: a sum of gs_offload (train/offload.h) */
    const char *offload_dir;    /* the folder for offloaded data on cpu; NULL: TMPDIR, else /var/tmp */
    bool fit;                   /* with max_memory: change settings until the run fits (predict/memory.h) */
    bool plans;                 /* first make a dry run, so that workers also report the prediction */
    struct gs_dry_run *dry_run; /* NULL: a real run (predict/dry_run.h) */
} gs_settings;

/* The defaults: mlp on fashion-mnist-small, cpu, allreduce, batch 128, 5 epochs, seed 1, SGD: lr 0.05, momentum 0.9. */
gs_settings gs_settings_default(void);

/* The hyper-parameters: as set, otherwise the optimiser's defaults; NAN for those that the optimiser does not take. */
gs_hyperparameters gs_settings_numbers(const gs_settings *);

enum {
    GS_KEEP_CHECKPOINTS = 3,
    GS_MICRO_BATCH = 256,     /* maximum number of samples in a micro-batch (data/schedule.h) */
    GS_MICRO_BYTES = 1 << 30, /* maximum total size of its layers' outputs, in bytes */
    GS_TOP = 5,               /* top-5 accuracy, as for ImageNet */
    GS_EVAL_BLOCK = 128,      /* maximum number of samples that inference computes at once (gs_eval_block) */
    GS_EVAL_BYTES = 3 << 25,  /* maximum total size of their layers' outputs, in bytes */
    GS_FIT_TEXT = 900,        /* maximum size of --fit's text: five levers, each with its cost */
};

/* Load settings->data with its options: labels, tokens, context. Fails as gs_dataset_load does, and with GS_E_USAGE if
 * an option for texts is set for other data. */
gs_status gs_load_set(const gs_settings *, gs_split, gs_dataset **out);

/* Perform one step with the next global batch. */
gs_status gs_step(gs_worker *, gs_score *);

/* How the model ranks the classes. */
typedef struct gs_ranking {
    /* (classes, classes), initially 0: number of samples by label and predicted class; NULL: not wanted. */
    double *confusion;
    double top;      /* number of samples whose label is among the GS_TOP largest logits */
    gs_worst *worst; /* initially empty; stays so if samples have several targets; NULL: not wanted */
} gs_ranking;

/* Compute loss and accuracy over a whole data set, and `ranking` unless it is NULL. Each worker computes its part, and
 * only the final counts are summed. The set's blocks do not depend on the number of workers, and a block's bits do not
 * depend on the number of threads, so the result is the same for any number of workers and threads. */
gs_status gs_evaluate(gs_worker *, const gs_dataset *, gs_score *, gs_ranking *ranking);

/* Write the logits of this worker's blocks to their rows of the array (count, classes) for the whole data set. */
gs_status gs_predict(gs_worker *, const gs_dataset *, float *logits);

/* GS_E_USAGE unless all ranks have the same settings and data; the message names the rank and the option.
 * *found_by_all: every rank detects this error by itself, so no rank has to notify the others. */
gs_status gs_agree(gs_worker *, bool *found_by_all);

/* Run all epochs of one worker. */
gs_status gs_train_epochs(gs_worker *, gs_result *);

/* A resumed run that has already done all its steps is only tested and saved; train_loss is NaN. GS_E_USAGE: settings
 * are out of range or do not work together. On failure the message names the worker, and result->steps is the number of
 * steps done; if the run diverged, it is the number of the step at which it did. If only saving failed, the result is
 * complete: its weights are not NULL. */
gs_status gs_train(const gs_settings *, const gs_observer *, gs_result *);

/* Check whether gs_train would begin: the settings, the data and this process's devices. */
gs_status gs_train_check(const gs_settings *);

/* Evaluate settings->load on the test set. Here and in gs_predict_all, the observer (may be NULL) receives calls of
 * `testing`. GS_E_DIVERGED: the loss is not finite. */
gs_status gs_eval(const gs_settings *, const gs_observer *, gs_result *);

/* Compute the logits (rows, columns) of the whole test set; release them with free(). Only with a single process.
 * GS_E_DIVERGED: a logit is not finite. */
gs_status gs_predict_all(const gs_settings *, const gs_observer *, float **logits, size_t *rows,
                         int *columns);

/* The number of devices in a list, and device i of it, copied to `name`. GS_E_USAGE: a name is empty or too long. */
int gs_devices_count(const char *list);
gs_status gs_devices_name(const char *list, int i, char name[48]);

/* A signal handler may set this: every worker of every process then ends after its current step. */
extern volatile sig_atomic_t gs_stop_requested;

/* Nonzero while rank 0 runs a test that ignores gs_stop_requested, because its workers need each other. */
extern volatile sig_atomic_t gs_test_has_no_stop;

/* If a signal handler changes this to any other value, a run with settings->checkpoint soon writes a checkpoint. */
extern volatile sig_atomic_t gs_checkpoint_requested;
