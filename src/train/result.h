/* The reports on a step, an epoch and a run. */
#pragma once

#include "data/dataset.h"
#include "device.h"
#include "train/ranking.h"

struct gs_state;
struct gs_rank_timeline;
struct gs_worker;

/* The phases of a step, for timing. */
typedef enum gs_phase {
    GS_PHASE_DATA,
    GS_PHASE_FORWARD,
    GS_PHASE_BACKWARD,
    GS_PHASE_SYNC,
    GS_PHASE_UPDATE,
    GS_PHASES
} gs_phase;

extern const char *const gs_phase_names[GS_PHASES]; /* "data", "forward", ... */

/* The time from the end of one step to the end of the next: the median of the last GS_STEP_TIMES such times.
 *
 * Other load on the machine makes individual steps slower, never faster. It raises the mean, and so do the first steps
 * after a pause. The median hardly changes as long as most steps are undisturbed, so benchmarks usually report it. */
enum { GS_STEP_TIMES = 1024 };

/* All zero: no step yet. */
typedef struct gs_step_times {
    double since;                 /* when the current step began; set it at the start and after a pause */
    uint64_t steps;               /* recorded so far */
    float seconds[GS_STEP_TIMES]; /* step i is at i mod GS_STEP_TIMES */
} gs_step_times;

/* Called when a step has ended at `now` and the next one begins. counts: record it; false for an incomplete batch. */
void gs_step_times_ended(gs_step_times *, double now, bool counts);

/* In seconds. For an even number of steps, the lower of the middle two; 0: there was no step. */
double gs_step_times_median(const gs_step_times *);

/* The result of a step or an evaluation: sums over the global batch, equal on all workers. If workers do not
 * synchronise in each step, a step's sums cover only this worker, but an epoch's sums cover all workers. */
typedef struct gs_score {
    double loss, correct, samples; /* a sample with several labels counts once for each label */
    bool stop;                     /* a worker was asked to stop: all end after this step */
    float loss_scale;              /* of an f16 step (optim/loss_scale.h); otherwise 0 */
    bool skipped;                  /* in an f16 step: the update was skipped */
    bool checkpoint;               /* all write a checkpoint after this step */
    bool asked;                    /* a worker was asked for a checkpoint (persist/checkpoint.h) */
} gs_score;

typedef struct gs_epoch_report {
    int epoch; /* from 1 */
    uint64_t steps;
    uint64_t before; /* steps done in this epoch by an earlier run; the training results below exclude them */
    double train_loss, train_accuracy, test_loss, test_accuracy,
        samples_per_s; /* for text: the loss per token */
    /* With settings->clip: rank 0's mean over the steps, before clipping; otherwise NAN. */
    double gradient_norm;
} gs_epoch_report;

/* A worker's device and host. */
typedef struct gs_device_report {
    char device[48], description[160], host[64];
} gs_device_report;

/* One evaluation on the test set. */
typedef struct gs_test_report {
    uint64_t step;  /* after this many steps */
    double seconds; /* training time until then, without evaluations */
    double loss, accuracy;
} gs_test_report;

/* The work of one worker in a run or an epoch. */
typedef struct gs_worker_report {
    char device[48];
    double samples_per_s;                   /* in training, of this worker only */
    double share[GS_PHASES];                /* of the measured steps' time; sum 1, or 0 if there were none */
    gs_memory_use memory[GS_MEMORY_PLACES]; /* at the peak: on its device, and on the host */
    /* With settings->plans or max_memory, the prediction; otherwise 0. */
    gs_memory_use planned[GS_MEMORY_PLACES];
} gs_worker_report;

/* Reports during a run, on rank 0 only, in its thread. Any function may be NULL. */
typedef struct gs_observer {
    void *context;
    void (*start)(void *context, const struct gs_worker *rank0);
    void (*step)(void *context, int epoch, uint64_t done, uint64_t of, const gs_score *);
    void (*epoch)(void *context, const gs_epoch_report *);
    void (*test)(void *context, const gs_test_report *);
    void (*testing)(void *context, size_t done, size_t of); /* during a test: counts this worker's blocks */
    /* With settings->record. workers: after each epoch, the work of each worker in it. timeline: once, after the last
     * traced step, the timelines of all workers (train/timeline.h). */
    void (*workers)(void *context, int epoch, const gs_worker_report *, int workers);
    void (*timeline)(void *context, const struct gs_rank_timeline *, int workers);
    void (*note)(void *context, const char *sentence); /* for the user; the run continues */
} gs_observer;

/* The gain from --bucket, in seconds per step: `summed` is the time that summing all buckets took, including this
 * rank's waits for other ranks; `waited` is how long the step waited for these sums after backward. */
typedef struct gs_overlap_times {
    int buckets; /* 0: no buckets */
    double summed, waited;
} gs_overlap_times;

/* The fraction of communication that was hidden behind backward: 1 - waited / summed. */
static inline double gs_overlap_hidden(gs_overlap_times t) {
    return t.waited < t.summed ? 1 - t.waited / t.summed : 0;
}

/* The waits of a pipeline's stages, as fractions of the time from a step's first forward to its last backward: as
 * measured, in total and by cause (strategies/pipeline.c); as computed in virtual time, from each stage's mean times,
 * with messages that take no time; and by the formula for equal stages. */
typedef struct gs_bubble {
    int stages; /* 0: no pipeline */
    double measured, virtual_time, formula;
    double fill, unequal, rest; /* add up to `measured` */
    double alone;               /* fill and drain, without other waits, as in the formula */
} gs_bubble;

/* The bytes that each worker holds with --zero, including windows but not activations; and the bytes that it sends in a
 * step of one pass, computed by formula. */
typedef struct gs_zero_report {
    int stage;                          /* 0: no ZeRO */
    int dp;                             /* N, the number of workers that share the data */
    double weights, gradients, vectors; /* vectors: the optimiser's, all together */
    double model;                       /* the whole model's weights */
    double formula;                     /* 2 or 3 times `model`, times (N - 1) / N */
} gs_zero_report;

/* The work of a worker with --tensor. */
typedef struct gs_tensor_report {
    int workers;        /* in a group; 0: no groups */
    double held, model; /* bytes of weights: on this worker, and in the whole model */
    double sums, bytes; /* number of all-reduces in a group per step, and the bytes that they sum */
    /* With --sequence: number of all-gathers, and their bytes; most `sums` are then reduce-scatters. */
    double gathers, gathered;
} gs_tensor_report;

/* The gain from --offload, and its cost per step; means over all workers. */
typedef struct gs_offload_report {
    bool on;
    double bytes;             /* stored outside of a worker's device */
    gs_offload_times in_step; /* see device.h */
} gs_offload_report;

/* With settings->checkpoint, on rank 0: the checkpoints written, and their cost. */
typedef struct gs_checkpoint_report {
    bool on;
    int written, failed;
    bool lost;              /* the last one could not be written */
    uint64_t step;          /* of the last one written */
    double bytes;           /* size of the last one */
    double copied, longest; /* seconds that a step waited for a copy: mean and maximum */
    double share;           /* all copies, as a fraction of the training time */
    double wrote;           /* mean seconds of a write, which runs in parallel with training */
} gs_checkpoint_report;

/* Counted by the server of an asynchronous run. */
typedef struct gs_staleness {
    uint64_t *count; /* [s], s < counts: gradients of staleness s (strategies/clocks.h) */
    size_t counts;
    uint64_t *lead; /* [d], d < leads: steps begun d steps ahead of the slowest worker */
    size_t leads;
} gs_staleness;

void gs_staleness_free(gs_staleness *);

/* The outcome of a run. */
typedef struct gs_result {
    double train_loss, test_loss, test_accuracy; /* in the last epoch; loss per sample, for text per token */
    /* The epoch, from 1, after which the test was made; in an interrupted run it may precede the last epoch. 0: there
     * was no test, and test_loss and test_accuracy are undefined. */
    int tested_epoch;
    double samples_per_s; /* in training only, all workers together (eval: in inference) */
    double step_median;   /* seconds of a step with a whole batch (gs_step_times); 0 in eval */
    uint64_t steps;
    double phase[GS_PHASES]; /* seconds per step in each phase, mean over all workers */
    double waited; /* fraction of training time that a worker waited for its loader, mean over all workers */
    size_t params;
    float *weights;         /* params floats, then the model's state, if any */
    struct gs_state *state; /* with save_state: rank 0's; otherwise NULL */
    int kept_epoch; /* with keep.best: the epoch of the weights, from 1; 0: they are the last epoch's */
    double kept_accuracy, kept_loss; /* on the test set after that epoch */
    gs_overlap_times overlap;        /* mean over all workers */
    gs_bubble bubble;                /* over all workers and all steps except the first */
    gs_bubble bubble_last;           /* of the last step */
    gs_zero_report zero;
    gs_tensor_report tensor;
    gs_offload_report offload;
    double message_copies; /* bytes that this process's threads hold for copies of messages (comm/create.h) */
    gs_checkpoint_report checkpoints;
    bool digest_lost;         /* with settings->digest: a rank stopped recording early */
    double sent, sent_most;   /* bytes per step: mean and maximum over workers; 0: unknown */
    int workers;              /* in all processes */
    int threads;              /* per cpu worker of this process */
    int cpus;                 /* number of CPUs to which the first worker was bound; 0: not bound */
    int rank;                 /* of this process's first worker */
    char busy[200];           /* a sentence: the machine was too busy for valid times; "": it was not */
    gs_worker_report *worker; /* training: one per rank in all processes; otherwise NULL */
    gs_staleness staleness;   /* on rank 0 with --sync async; otherwise empty */
    /* eval: fraction of samples whose label is among the GS_TOP likeliest classes; NaN for GS_TOP classes or fewer */
    double top_accuracy;
    int classes;             /* eval: outputs of the model */
    gs_class_names names;    /* eval: names of the test set's classes */
    int folder_size;         /* height of samples from an image folder; otherwise 0 */
    int tokens;              /* per sample of a text; otherwise 0 */
    gs_tokens token;         /* for a text: the kind of tokens */
    double *confusion;       /* (classes, classes): number of samples by label and predicted class */
    gs_worst worst;          /* with settings->confusion: the samples with the largest loss */
    size_t skipped;          /* with folder.skip_broken: files of both sets that some rank could not decode */
    char skipped_first[256]; /* the first of these files */
    bool interrupted;        /* stopped by a signal; the weights are those of the last complete step */
} gs_result;

void gs_result_free(gs_result *);
