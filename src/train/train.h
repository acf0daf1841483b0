/* Training: every worker holds the whole model, sees its part of the data, and computes its gradient. The gradients are
 * summed, the sum reaches all workers, and all make the same update.
 *
 *     step.c        one step, as the theory states it: load, forward, loss, backward, sum, update
 *     ways/         other ways to make one, each in a file of its own: exact.c, sharded_update.c, local_sgd.c, async.c;
 *                   the table of all is ways/way.h
 *     overlap.c     sums that begin while backward still runs
 *     buckets.c     where the gradients are cut for that
 *     measure.c     the clock beside a step; step_time.c: how long steps take
 *     batch_norm.c  the statistics of batch_norm over the samples of all workers (batch_norm.h)
 *     verify.c      are the weights of all workers still the same?
 *     diverged.c    is the loss still a number?
 *     settings.c    which settings are allowed, and which go together
 *     rates.c       the learning rates that they make
 *     sets.c        the data sets, and whether they suit the model
 *     epochs.c      the epochs of one worker: order, steps, evaluation
 *     evaluate.c    inference: the test set split over the workers
 *     confusion.c   which class is taken for which
 *     worker.c      a worker: device, replica of the model, optimiser, its rank; binding.c: which cores it has
 *     options/      the options that set all this: one table, with their defaults; do all workers have the same?
 *     profile/      where the time goes
 *     sweep.c       the same training with several batches and seeds (sweep.h)
 *     sweep_line.c  what all seeds of one batch gave together
 *     worker_report.c  what each worker of a run did
 *     record.c      what a log needs to know of all workers
 *     jitter.c      a worker's pauses, drawn at random
 *     timeline.c    what each worker does during some steps, thread by thread (timeline.h)
 *     run.c         the workers of this process: one thread each, and the processes beside it
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include "data/augment.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "model/model.h"
#include "model/names.h"
#include "optim/lr_schedule.h"
#include "optim/optimizer.h"
#include "comm/comm.h"
#include "sync/sync.h"
#include "train/batch_norm.h"
#include "train/jitter.h"
#include "train/step_time.h"

struct gs_worker;

/* A worker that is made slow on purpose. */
typedef struct gs_slow {
    int rank;
    double ms; /* that it sleeps in each step; 0: nobody is slow */
} gs_slow;

/* Steps first .. last, from 1; 0 0: none. */
typedef struct gs_step_range {
    uint64_t first, last;
} gs_step_range;

/* Everything that decides a run. Two runs with equal settings give equal weights. */
typedef struct gs_settings {
    const char *model;           /* name or text; NULL: the one in the file `load` */
    const char *data;            /* see gs_dataset_load; not used if both of the next are set: */
    gs_labels labels;            /* which of CIFAR-100's */
    const gs_dataset *train_set; /* the caller's, for instance from memory (dataset.h) */
    const gs_dataset *test_set;  /* the same set, or another with the same shape and kind of answers */
    const char *devices; /* one worker of this process on each: "cpu,cpu", "cl:0.0/0of2,cl:0.0/1of2" */
    const char *sync;    /* name of a scheme (sync/sync.h), or of another way to train (train/ways/way.h) */
    gs_loss loss;
    size_t batch; /* the GLOBAL batch; 0: all samples (full gradient descent) */
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
    size_t micro_batch;      /* most samples at once in a device's memory; 0: GS_MICRO_BATCH */
    const char *load, *save; /* safetensors files or NULL. Rank 0 writes save; all ranks have one, or none */
    gs_names names;          /* of the tensors in `save` */
    /* The first layer sees (byte / 255 - mean) / std. Count 0: as the file `load` says, (0, 1) where it does not;
     * without a file those of the training set. */
    gs_by_channel mean, std;
    bool bind;  /* each worker is bound to its own cores, if there are enough (gs_worker_share) */
    bool exact; /* the same bits for 1, 2, 4 and 8 workers (ways/exact.c) */
    gs_batch_norm_groups batch_norm; /* over which samples batch_norm takes its statistics */
    int accumulate;                  /* passes over a worker's part of the batch before one sum; 0 means 1 */
    int bucket;   /* KB of whole layers that are summed together during backward; 0: one sum after it */
    gs_wire wire; /* how gradients travel (sync/wire.h) */
    gs_slow slow;
    gs_jitter jitter;
    gs_link link;       /* how slow messages between workers are (comm/link.h) */
    gs_augment augment; /* what becomes of training samples (data/augment.h) */
    double throttle; /* MB (10^6 bytes) of samples a second that each worker's loader brings; 0: all it can */
    int every;       /* --sync local: steps from one average of the weights to the next; else 0 */
    int staleness;   /* --sync async: K, steps that a worker may be ahead of the slowest; else -1 */
    uint64_t verify; /* compare the workers' weights every `verify` steps; 0: never */
    bool keep_going; /* when a loss or a logit is not finite; else GS_E_DIVERGED, and nothing is saved */
    int tests;       /* evaluations on the test set in an epoch, evenly spaced; 0, 1: only at its end.
                        More than one only if all workers have the same weights after each step. */
    bool record;     /* call the observer's workers and timeline functions too */
    gs_step_range trace; /* the steps of that timeline */
    bool confusion;      /* of gs_eval: count which class is taken for which */
    bool
        keep_best; /* the weights, saved or in gs_result, are those of the epoch with the best test accuracy */
    bool measure;  /* measure the phases of some steps (costs a wait after each phase of these) */
    const gs_rendezvous *processes; /* the processes beside this one; NULL: none */
    double timeout;                 /* seconds that a worker may wait for another; > 0 */
    /* For tests only, to cause faults: each worker calls it after a step. */
    void (*test_hook)(struct gs_worker *);
} gs_settings;

/* The defaults: mlp on fashion-mnist-small, cpu, allreduce, batch 128, 5 epochs, seed 1, SGD with lr 0.05 and momentum
 * 0.9. */
gs_settings gs_settings_default(void);

/* The optimiser's numbers: those that are set, else its usual ones; NAN for one that it does not take. */
gs_optimizer_numbers gs_settings_numbers(const gs_settings *);

enum {
    GS_MICRO_BATCH = 256, /* a larger part of a batch is computed in several pieces (data/schedule.h) */
    GS_TOP = 5,           /* top-5 accuracy, as ImageNet's */
    GS_EVAL_BLOCK = 128,  /* samples that inference handles at once, whatever the number of workers */
};

/* Where the time of a step goes. */
typedef enum gs_phase {
    GS_PHASE_DATA,
    GS_PHASE_FORWARD,
    GS_PHASE_BACKWARD,
    GS_PHASE_SYNC,
    GS_PHASE_UPDATE,
    GS_PHASES
} gs_phase;

extern const char *const gs_phase_names[GS_PHASES]; /* "data", "forward", ... */

typedef struct gs_timeline gs_timeline;
struct gs_timeline_part;

/* Samples on their way to a worker's device, and there. */
typedef struct gs_input {
    size_t most;                      /* samples at once that there is room for */
    gs_mem bytes, x, answers;         /* (most, c, h, w) uint8, the same as f32, and labels or targets */
    void *host_inputs, *host_answers; /* the same on the host, for inference */
    size_t answer_bytes;              /* of one sample */
    bool scales;                      /* the inputs are bytes, which the device turns into numbers */
} gs_input;

/* What a worker has done, and how long it took. */
typedef struct gs_measured {
    double samples;          /* that it has computed in all its steps */
    double sent;             /* bytes of gradients, by its own messages */
    double phase[GS_PHASES]; /* seconds in the steps that were measured */
    uint64_t steps;          /* how many steps those were */
    double norms;            /* with settings->clip: the sum of gs_optimizer.norm of all its steps */
    double phase_start;
    gs_step_times times; /* of its steps */
} gs_measured;

/* What a worker has seen that is not finite (diverged.c). */
typedef struct gs_divergence {
    bool loaded_bad;           /* the file settings->load holds such a value: */
    char loaded_bad_value[80]; /* "nan in 1.bias" */
    uint64_t step;             /* the first step with such a loss, from 1; 0: none */
    double loss;               /* that loss */
    bool together;             /* all workers know that the run has diverged */
} gs_divergence;

/* One worker's part of a run. */
typedef struct gs_worker {
    const gs_settings *settings;
    const gs_dataset *train_set, *test_set; /* shared by the workers of a process, read only; may be NULL */
    int cpus;                               /* that it is bound to; 0: it is not bound */
    size_t batch;                           /* the global batch, after 0 was replaced */
    gs_comm *comm;
    const struct gs_way *way; /* how it makes a step (ways/way.h), */
    void *way_state;          /* and what that keeps: way.create, way.free */
    gs_device *device;
    gs_model *model;
    gs_input input;
    gs_optimizer *optimizer;      /* NULL where nothing is trained */
    gs_lr_course rates;           /* of its steps */
    const gs_sync_scheme *scheme; /* as asked for; sync->scheme is what `auto` made of it */
    gs_sync *sync;                /* NULL until training begins */
    size_t sync_most;             /* floats in the largest sum that it makes */
    /* Told where gradients become final in the last backward of a step: gs_pass.final. NULL: nobody is */
    gs_status (*final)(void *way_state, size_t first);
    bool scores_early;      /* it asks for the score of a step before backward: gs_read_score then has it */
    float counts[GS_STATS]; /* where that comes */
    gs_schedule schedule;   /* what it computes; all zero where nothing is trained */
    gs_loader *loader;      /* of the training set's samples; NULL where nothing is trained */
    gs_piece piece;         /* the samples that it computes, or has computed last */
    uint64_t step;          /* steps done */
    gs_timeline *timeline;  /* of settings->trace, else NULL */
    uint32_t *checksums;    /* one of each worker, for --verify */
    gs_measured measured;
    gs_divergence diverged;
} gs_worker;

/* The result of a step or an evaluation: sums over the global batch, the same on every worker. (Where workers do
 * not synchronise in each step, a step's sums are this worker's alone; those of an epoch are of all workers.) */
typedef struct gs_score {
    double loss, correct, samples; /* a sample with many labels counts once for each */
    bool stop;                     /* a worker was asked to stop: all end after this step */
} gs_score;

/* The CPU threads of one of `local` workers of this process: settings->threads, or the CPUs of the calling thread
 * divided among all workers that use them. */
int gs_worker_threads(const gs_settings *, int local);

/* Open the device with `threads` CPU threads, make the replica and its buffers, load settings->load. Without a
 * training set, nothing that only training needs is made. */
gs_status gs_worker_create(gs_worker *, const gs_settings *, const char *device, gs_comm *, int threads,
                           gs_scaling, const gs_dataset *train_set, const gs_dataset *test_set);
void gs_worker_free(gs_worker *);

/* Copy n samples and their answers, as gs_dataset_gather wrote them, to the device; bytes are scaled. */
gs_status gs_worker_write(gs_worker *, const void *inputs, const void *answers, size_t n);

/* The same with samples first .. first + n - 1 of a set, in their order. */
gs_status gs_worker_load(gs_worker *, const gs_dataset *, size_t first, size_t n);

/* The same with the next samples of this worker's schedule, as worker->piece says; *pass goes through them. */
gs_status gs_worker_next(gs_worker *, gs_pass *);

/* One step over the next global batch. */
gs_status gs_step(gs_worker *, gs_score *);

/* Go through a step on zeros without changing anything, so that kernels are compiled before the clock runs. */
gs_status gs_warm_up(gs_worker *);

/* Loss and accuracy over a whole set: each worker takes its part, only the final counts are summed. The set is cut
 * into the same blocks for any number of workers, and each block gives the same bits for any number of threads, so
 * the result is the same too. */
gs_status gs_evaluate(gs_worker *, const gs_dataset *, gs_score *);

/* How the model ranks the classes. */
typedef struct gs_ranking {
    double *
        confusion; /* (classes, classes), zeros at first: which label was taken for which class; NULL: not wanted */
    double top; /* how many samples have their label among the GS_TOP classes with the largest logits */
} gs_ranking;

/* The same, and where `ranking` is not NULL, this too. */
gs_status gs_evaluate_classes(gs_worker *, const gs_dataset *, gs_score *, gs_ranking *ranking);

/* Logits (count, classes) of the blocks that this worker takes, at their places in `logits`, the array for
 * all. */
gs_status gs_predict(gs_worker *, const gs_dataset *, float *logits);

/* GS_E_USAGE if not all ranks have the same settings and data: the message names the rank and the option.
 * *found_by_all: every rank finds this from the same facts, so that no rank has to tell the others. */
gs_status gs_agree(gs_worker *, bool *found_by_all);

/* What a run reports as it goes on, from rank 0 only, in its thread. Any may be NULL. */
typedef struct gs_epoch_report {
    int epoch; /* from 1 */
    uint64_t steps;
    double train_loss, train_accuracy, test_loss, test_accuracy, samples_per_s;
    double
        gradient_norm; /* with settings->clip: the mean over the steps (of rank 0), before clipping; else NAN */
} gs_epoch_report;

/* A worker's device, and the host that it is in. */
typedef struct gs_device_report {
    char device[48], description[160], host[64];
} gs_device_report;

/* One evaluation on the test set. */
typedef struct gs_test_report {
    uint64_t step;  /* after this many steps */
    double seconds; /* of training until then, without evaluations */
    double loss, accuracy;
} gs_test_report;

/* What one worker of a run, or of an epoch, did. */
typedef struct gs_worker_report {
    char device[48];
    double samples_per_s;    /* of training: of its part alone */
    double share[GS_PHASES]; /* of the time of the steps that were measured; sum 1, or 0 where none was */
} gs_worker_report;

typedef struct gs_observer {
    void *context;
    void (*start)(void *context, const gs_worker *rank0);
    void (*step)(void *context, int epoch, uint64_t done, uint64_t of, const gs_score *);
    void (*epoch)(void *context, const gs_epoch_report *);
    void (*test)(void *context, const gs_test_report *);
    /* With settings->record: before start, the devices' descriptions; after each epoch, what each worker did in it;
     * once, after the last traced step, the timelines of all workers (timeline.h). */
    void (*devices)(void *context, const gs_device_report *, int workers);
    void (*workers)(void *context, int epoch, const gs_worker_report *, int workers);
    void (*timeline)(void *context, const struct gs_timeline_part *, int workers);
} gs_observer;

/* What --bucket gained, in seconds per step: the time of the sums of all buckets, and how long the step waited for them
 * after its backward. A sum's time includes this rank's waits for others. */
typedef struct gs_overlap_times {
    int buckets; /* 0: there are none */
    double summed, waited;
} gs_overlap_times;

/* The share of communication that was hidden behind backward: 1 - waited / summed. */
static inline double gs_overlap_hidden(gs_overlap_times t) {
    return t.waited < t.summed ? 1 - t.waited / t.summed : 0;
}

/* What the server of an asynchronous run counted. */
typedef struct gs_staleness {
    uint64_t *count; /* [s], s < counts: gradients applied after s others since their weights were read */
    size_t counts;
    uint64_t *lead; /* [d], d < leads: steps that were begun d steps ahead of the slowest worker */
    size_t leads;
} gs_staleness;

void gs_staleness_free(gs_staleness *);

/* The outcome of a run. */
typedef struct gs_result {
    double train_loss, test_loss, test_accuracy; /* of the last epoch; loss per sample */
    int tested_epoch; /* the epoch, from 1, after which the test was made; in an interrupted run an earlier one
                             than the last, or 0: there was no test, and test_loss and test_accuracy say nothing */
    double samples_per_s; /* of training alone, all workers together (eval: of inference) */
    double step_median;   /* seconds a step with a whole batch takes (step_time.h); of eval 0 */
    uint64_t steps;
    double phase[GS_PHASES]; /* seconds per step in each phase, mean over this process's workers */
    double waited;           /* share of training time that a worker waited for its loader, mean as above */
    size_t params;
    float *weights; /* params floats, and behind them the model's state, if it has any */
    int kept_epoch; /* with keep_best: the epoch, from 1, that the weights are of; 0: the last weights */
    double kept_accuracy;     /* on the test set after it */
    gs_overlap_times overlap; /* mean over this process's workers */
    double sent, sent_most;   /* bytes per step: mean over all workers, and the one with most; 0: not known */
    int workers;              /* of all processes */
    int threads;              /* that each cpu worker of this process had */
    int cpus;                 /* that this worker was bound to; 0: it was not bound */
    int rank;                 /* of this process's first worker */
    gs_worker_report *worker; /* of training: one for each rank of all processes; else NULL */
    gs_staleness staleness;   /* of rank 0 with --sync async; else empty */
    double
        top_accuracy;  /* of gs_eval: of the GS_TOP likeliest classes; NaN: there are not more than GS_TOP */
    int classes;       /* of gs_eval: outputs of the model */
    double *confusion; /* (classes, classes): how many samples with this label were taken for that class */
    bool interrupted;  /* stopped by a signal before the end; weights are those of the last whole step */
} gs_result;

void gs_result_free(gs_result *);

/* All epochs of one worker. */
gs_status gs_train_epochs(gs_worker *, const gs_observer *, gs_result *);

/* GS_E_USAGE: settings that are out of range or do not go together. On failure the message names the worker, and
 * result->steps is how many steps were done; of a run that has diverged it is the step. Where only saving has failed
 * the whole result is there: its weights are not NULL. */
gs_status gs_train(const gs_settings *, const gs_observer *, gs_result *);

/* Evaluate settings->load on the test set, on the same workers. GS_E_DIVERGED: the loss is not finite. */
gs_status gs_eval(const gs_settings *, gs_result *);

/* Logits of the whole test set, (rows, columns), to be freed with free(). Within one process only.
 * GS_E_DIVERGED: one of them is not finite. */
gs_status gs_predict_all(const gs_settings *, float **logits, size_t *rows, int *columns);

/* How many devices a list names, and number i of them; NULL after the last. The text is copied to `name`. */
int gs_devices_count(const char *list);
gs_status gs_devices_name(const char *list, int i, char name[48]);

/* A signal handler may set it: then every worker of every process ends after its current step. */
extern volatile sig_atomic_t gs_stop_requested;
