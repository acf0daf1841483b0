/* Training: every worker holds the whole model, sees its part of the data, computes its gradient; the
 * gradients are summed, the sum reaches everyone, everyone makes the same update.
 *
 *     step.c        one step, as the theory states it: load, forward, backward, sum, update
 *     overlap.c     sums that begin while backward still runs
 *     buckets.c     where the gradients are cut for that
 *     exact.c       the same step, with the same bits for any number of workers
 *     sharded_update.c  the same step, each worker making its part of the update
 *     local_sgd.c   another one: the workers go their own ways, and their weights are averaged now and then
 *     async.c       another one: a server takes each gradient as it comes (async_server.c)
 *     clocks.c      who may go on there, and how stale a gradient is
 *     verify.c      are the weights of all workers still the same?
 *     settings.c    which settings go together
 *     epochs.c      the epochs of one worker: order, steps, evaluation
 *     evaluate.c    inference: the test set split over the workers
 *     worker.c      a worker: device, replica of the model, optimiser, its rank
 *     agreement.c   are all workers about to do the same run?
 *     profile.c     where the time goes (profile.h)
 *     sweep.c       the same training with several batches (sweep.h)
 *     worker_report.c  what each worker of a run did
 *     record.c      what a log is told of all workers
 *     timeline.c    what each worker does during some steps, thread by thread (timeline.h)
 *     run.c         the workers of this process: one thread each, and the processes beside it
 */
#ifndef GS_TRAIN_TRAIN_H
#define GS_TRAIN_TRAIN_H

#include <signal.h>
#include <stdbool.h>
#include "data/dataset.h"
#include "data/loader.h"
#include "model/model.h"
#include "optim/lr_rule.h"
#include "optim/sgd.h"
#include "sync/comm.h"
#include "sync/sync.h"
#include "train/step_time.h"

struct gs_worker;

/* A worker that is made slow on purpose. */
typedef struct gs_slow {
    int rank;
    double ms; /* that it sleeps in each step; 0: nobody is slow */
} gs_slow;

/* Everything that decides a run. Two runs with equal settings give equal weights. */
typedef struct gs_settings {
    const char *model;   /* name or text; NULL: the one in the file `load` */
    const char *data;    /* see gs_dataset_load */
    const char *devices; /* one worker of this process for each: "cpu,cpu", "cl:0.0/0of2,cl:0.0/1of2" */
    const char *sync;    /* name of a scheme (sync/sync.h), "sharded-update", "local" or "async" */
    gs_loss loss;
    size_t batch; /* the GLOBAL batch; 0: all samples (full gradient descent) */
    int epochs;
    uint64_t steps; /* end after so many steps; 0: no such limit */
    uint64_t seed;
    float lr, momentum, weight_decay;
    gs_lr_rule lr_rule;      /* how the rate follows the global batch (optim/lr_rule.h) */
    uint64_t base_batch;     /* of the rule: the batch that lr is for; 0: GS_BASE_BATCH */
    double warmup;           /* of the rule: epochs from the rate lr to the scaled one */
    int threads;             /* CPU threads of each cpu worker; 0: the cores divided among the workers */
    size_t micro_batch;      /* most samples at once in a device's memory; 0: GS_MICRO_BATCH */
    const char *load, *save; /* safetensors files or NULL */
    bool exact;              /* the same bits for 1, 2, 4 and 8 workers (exact.c) */
    int accumulate;          /* passes over parts of a worker's share before one sum; 0 is 1 */
    int bucket;   /* KB of whole layers that are summed together during backward; 0: one sum after it */
    gs_wire wire; /* how gradients travel (sync/wire.h) */
    gs_slow slow;
    double throttle; /* MB (10^6 bytes) of samples a second that each worker's loader brings; 0: all it can */
    int every;       /* --sync local: steps from one average of the weights to the next; else 0 */
    int staleness;   /* --sync async: K, steps that a worker may be ahead of the slowest; else -1 */
    uint64_t verify; /* compare the workers' weights after every so many steps; 0: never */
    int tests;       /* evaluations on the test set in an epoch, at equal distances; 0, 1: at its end alone.
                        More than one only where all workers have the same weights after each step. */
    bool record;     /* tell the observer of the workers in each epoch, and of their timeline */
    uint64_t trace_first, trace_last; /* the steps, from 1, of that timeline; 0 0: there is none */
    bool measure; /* measure the phases of some steps (costs a wait after each phase of these) */
    const gs_rendezvous *processes; /* the processes beside this one; NULL: none */
    double timeout;                 /* seconds that a worker may wait for another; > 0 */
    void (*test_hook)(
        struct gs_worker *); /* for tests alone, to do harm: each worker calls it after a step */
} gs_settings;

/* The defaults: mlp on fashion-mnist-small, cpu, allreduce, batch 128, 5 epochs, seed 1, lr 0.05, momentum
 * 0.9. */
gs_settings gs_settings_default(void);

enum {
    GS_MICRO_BATCH = 256, /* a larger local batch runs in several forward and backward passes */
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

typedef struct gs_exact gs_exact;
typedef struct gs_local gs_local;
typedef struct gs_async gs_async;
typedef struct gs_overlap gs_overlap;
typedef struct gs_timeline gs_timeline;
struct gs_timeline_part;

/* One worker's part of a run. */
typedef struct gs_worker {
    const gs_settings *settings;
    const gs_dataset *train_set, *test_set; /* shared by the workers of a process, read only; may be NULL */
    size_t batch;                           /* the global batch, after 0 was replaced */
    gs_comm *comm;
    const gs_sync_scheme *scheme; /* as asked for; sync->scheme is what `auto` made of it */
    gs_sync *sync;                /* NULL until training begins */
    gs_device *device;
    gs_model *model;
    gs_sgd *sgd;             /* NULL where nothing is trained */
    gs_lr_plan rates;        /* of its steps */
    bool sharded;            /* --sync sharded-update */
    gs_exact *exact;         /* of --exact, else NULL */
    gs_local *local;         /* of --sync local, else NULL */
    gs_async *async;         /* of --sync async, else NULL */
    gs_overlap *overlap;     /* of --bucket, where there is more than one worker, else NULL */
    gs_timeline *timeline;   /* of settings->trace_first, else NULL */
    uint32_t *checksums;     /* one of each worker, for --verify */
    size_t piece;            /* most samples that a step computes at once ... */
    size_t micro_batch;      /* ... and that there is memory for */
    gs_mem bytes, x, labels; /* one micro-batch on the device: (m, c, h, w) uint8, the same as f32, m int32 */
    unsigned char *host_bytes; /* the same on the host, for inference */
    int32_t *host_labels;
    gs_loader *loader;        /* of the training set's samples; NULL where nothing is trained */
    uint64_t step;            /* steps done */
    double samples;           /* that this worker has computed in them */
    double phase[GS_PHASES];  /* seconds in the steps that were measured */
    uint64_t measured;        /* how many steps those were */
    float counts[GS_STATS];   /* where read_begin brings those of a step */
    double sent;              /* bytes of gradients, by this worker's own messages */
    gs_step_times step_times; /* of its steps */
    double phase_start;
} gs_worker;

/* What a step or an evaluation says: sums over the global batch, the same on every worker. (Where workers do
 * not meet in each step, a step's are of this worker alone; those of an epoch are of all.) */
typedef struct gs_score {
    double loss, correct, samples;
    bool stop; /* a worker was asked to stop: all end after this step */
} gs_score;

/* Open the device, make the replica and its buffers, load settings->load. local: workers in this process.
 * Without a training set nothing for training is made. */
gs_status gs_worker_create(gs_worker *, const gs_settings *, const char *device, gs_comm *, int local,
                           gs_scaling, const gs_dataset *train_set, const gs_dataset *test_set);
void gs_worker_free(gs_worker *);

/* Bring n samples to the device, scaled: bytes of images, and labels. */
gs_status gs_worker_write(gs_worker *, const unsigned char *images, const int32_t *labels, size_t n);

/* The same with samples first .. first + n - 1 of a set, as they lie. */
gs_status gs_worker_load(gs_worker *, const gs_dataset *, size_t first, size_t n);

/* The same with the loader's next samples, *n of them, which begin at place `first` of this epoch's order. */
gs_status gs_worker_next(gs_worker *, size_t first, size_t *n);

/* One step over samples order[first .. first + batch - 1], the global batch. */
gs_status gs_step(gs_worker *, size_t first, size_t batch, gs_score *);

/* Go through a step on zeros without changing anything, so that kernels are compiled before the clock runs. */
gs_status gs_warm_up(gs_worker *);

/* Loss and accuracy over a whole set: each worker takes its part, only the final counts are summed. The set
 * is cut into the same blocks for any number of workers, so the result is the same too. */
gs_status gs_evaluate(gs_worker *, const gs_dataset *, gs_score *);

/* Logits (count, classes) of the blocks that this worker takes, at their places in `logits`, the array for
 * all. */
gs_status gs_predict(gs_worker *, const gs_dataset *, float *logits);

/* GS_E_USAGE if not all ranks have the same settings and data: the message names the rank and the option.
 * *found_by_all: every rank looks at the same facts and finds the same, so that none has to be told. */
gs_status gs_agree(gs_worker *, bool *found_by_all);

/* What a run reports while it goes, from rank 0 only, in its thread. Any may be NULL. */
typedef struct gs_epoch_report {
    int epoch; /* from 1 */
    uint64_t steps;
    double train_loss, train_accuracy, test_loss, test_accuracy, samples_per_s;
} gs_epoch_report;

/* A worker's device, and where it is. */
typedef struct gs_device_report {
    char device[48], description[160], host[64];
} gs_device_report;

/* One evaluation on the test set. */
typedef struct gs_test_report {
    uint64_t step;  /* after so many */
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
    /* with settings->record: before start, the devices' descriptions; in each epoch, what each worker did in it; once,
     * when the last traced step is over, the timelines of all (timeline.h) */
    void (*devices)(void *context, const gs_device_report *, int workers);
    void (*workers)(void *context, int epoch, const gs_worker_report *, int workers);
    void (*timeline)(void *context, const struct gs_timeline_part *, int workers);
} gs_observer;

/* What --bucket brought: the sums of all buckets together, and how long a step waited for them after its backward.
 * In seconds a step. A sum has in it the time that this rank waits there for others. */
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
    uint64_t
        *count; /* [s], s < counts: gradients that came after s of others since their weights were read */
    size_t counts;
    uint64_t *lead; /* [d], d < leads: steps that were begun d steps ahead of the slowest worker */
    size_t leads;
} gs_staleness;

void gs_staleness_free(gs_staleness *);

/* The outcome of a run. */
typedef struct gs_result {
    double train_loss, test_loss, test_accuracy; /* of the last epoch; loss a sample */
    double samples_per_s; /* of training alone, all workers together (eval: of inference) */
    double step_median;   /* seconds a step with a whole batch takes (step_time.h); of eval 0 */
    uint64_t steps;
    double phase[GS_PHASES]; /* seconds a step in each phase, mean over this process's workers */
    double
        waited; /* share of the time of training that a worker waited for its loader, mean in the same way */
    size_t params;
    float *weights;           /* params floats */
    gs_overlap_times overlap; /* mean over this process's workers */
    double sent, sent_most;   /* bytes a step: mean over all workers, and the one with most; 0: not known */
    int workers;              /* of all processes */
    int rank;                 /* of this process's first worker */
    gs_worker_report *worker; /* of training: one for each rank of all processes; else NULL */
    gs_staleness staleness;   /* of rank 0 with --sync async; else empty */
    bool interrupted; /* stopped by a signal before the end; weights are those of the last whole step */
} gs_result;

void gs_result_free(gs_result *);

/* All epochs of one worker. */
gs_status gs_train_epochs(gs_worker *, const gs_observer *, gs_result *);

/* Train with `settings`. On failure the message names the worker. */
gs_status gs_train(const gs_settings *, const gs_observer *, gs_result *);

/* Evaluate settings->load on the test set, on the same workers. */
gs_status gs_eval(const gs_settings *, gs_result *);

/* Logits of the whole test set, (rows, columns), to be freed with free(). Within one process only. */
gs_status gs_predict_all(const gs_settings *, float **logits, size_t *rows, int *columns);

/* How many devices a list names, and number i of them; NULL after the last. The text is copied to `name`. */
int gs_devices_count(const char *list);
gs_status gs_devices_name(const char *list, int i, char name[48]);

/* A signal handler may set it: every worker of every process ends after the step that it is in. */
extern volatile sig_atomic_t gs_stop_requested;

#endif
