/* What a step, an epoch and a run report. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "core/ledger.h"
#include "data/dataset.h"
#include "data/vocabulary.h"
#include "device.h"
#include "train/ranking.h"

struct gs_state;
struct gs_rank_timeline;
struct gs_worker;

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

/* The time from the end of one step to the end of the next: the median of the last GS_STEP_TIMES.
 *
 * Other load on the machine makes single steps slower, never faster. It raises the mean, as do the first steps after a
 * pause. The median is unaffected as long as most steps are undisturbed, so benchmarks usually report it. */
enum { GS_STEP_TIMES = 1024 };

/* All zero: no step yet. */
typedef struct gs_step_times {
    double since;                 /* when the present step began: to be set at the start and after a pause */
    uint64_t steps;               /* recorded so far */
    float seconds[GS_STEP_TIMES]; /* of step i at i mod GS_STEP_TIMES */
} gs_step_times;

/* A step ended `now`, and the next one begins. counts: record it; a step with fewer samples is not comparable. */
void gs_step_times_ended(gs_step_times *, double now, bool counts);

/* Seconds; for an even number of steps, the lower of the middle two. 0: there was no step. */
double gs_step_times_median(const gs_step_times *);

/* The result of a step or an evaluation: sums over the global batch, equal on all workers. If workers do not
 * synchronise in each step, a step's sums are this worker's alone; those of an epoch are of all workers. */
typedef struct gs_score {
    double loss, correct, samples; /* a sample with many labels counts once for each */
    bool stop;                     /* a worker was asked to stop: all end after this step */
    float loss_scale;              /* of a step in f16 (optim/loss_scale.h); else 0 */
    bool skipped;                  /* the update of a step in f16 was skipped */
    bool checkpoint;               /* all write a checkpoint after this step */
    bool asked;                    /* a worker was asked for a checkpoint (persist/checkpoint.h) */
} gs_score;

typedef struct gs_epoch_report {
    int epoch; /* from 1 */
    uint64_t steps;
    uint64_t before; /* steps of this epoch by an earlier run: training numbers are without them */
    double train_loss, train_accuracy, test_loss, test_accuracy,
        samples_per_s; /* of a text: loss per token */
    /* With settings->clip: rank 0's mean over the steps, before clipping; else NAN. */
    double gradient_norm;
} gs_epoch_report;

/* A worker's device, and its host. */
typedef struct gs_device_report {
    char device[48], description[160], host[64];
} gs_device_report;

/* One evaluation on the test set. */
typedef struct gs_test_report {
    uint64_t step;  /* after this many steps */
    double seconds; /* of training until then, without evaluations */
    double loss, accuracy;
} gs_test_report;

/* The work of one worker in a run, or in an epoch. */
typedef struct gs_worker_report {
    char device[48];
    double samples_per_s;                   /* of training, for its part alone */
    double share[GS_PHASES];                /* of the time of the measured steps; sum 1, or 0 without any */
    gs_memory_use memory[GS_MEMORY_PLACES]; /* peak: on its device, and on the host */
    /* With settings->plans or max_memory: the prediction; else 0. */
    gs_memory_use planned[GS_MEMORY_PLACES];
} gs_worker_report;

/* Reports during a run, on rank 0 only, in its thread. Any function may be NULL. */
typedef struct gs_observer {
    void *context;
    void (*start)(void *context, const struct gs_worker *rank0);
    void (*step)(void *context, int epoch, uint64_t done, uint64_t of, const gs_score *);
    void (*epoch)(void *context, const gs_epoch_report *);
    void (*test)(void *context, const gs_test_report *);
    void (*testing)(void *context, size_t done, size_t of); /* during a test: blocks of this worker */
    /* With settings->record: after each epoch, the work of each worker in it; once, after the last traced step, the
     * timelines of all workers (train/timeline.h). */
    void (*workers)(void *context, int epoch, const gs_worker_report *, int workers);
    void (*timeline)(void *context, const struct gs_rank_timeline *, int workers);
    void (*note)(void *context, const char *sentence); /* for the user; the run continues */
} gs_observer;

/* The gain of --bucket, in seconds per step: the time of all buckets' sums, and how long the step waited for them after
 * backward. The time of a sum includes this rank's waits for others. */
typedef struct gs_overlap_times {
    int buckets; /* 0: there are none */
    double summed, waited;
} gs_overlap_times;

/* The share of communication that was hidden behind backward: 1 - waited / summed. */
static inline double gs_overlap_hidden(gs_overlap_times t) {
    return t.waited < t.summed ? 1 - t.waited / t.summed : 0;
}

/* Waits of a pipeline's stages, as shares of the time from the first forward to the last backward of a step: measured,
 * and by cause (strategies/pipeline.c); in virtual time, with each stage's mean time and free messages; and by the
 * formula for equal stages. */
typedef struct gs_bubble {
    int stages; /* 0: there is no pipeline */
    double measured, virtual_time, formula;
    double fill, unequal, rest; /* add up to `measured` */
    double alone;               /* fill and drain without any other waits, as in the formula */
} gs_bubble;

/* Bytes that each worker holds with --zero, with windows and without activations, and the formula for the bytes that it
 * sends in a step of one pass. */
typedef struct gs_zero_report {
    int stage;                          /* 0: there is none */
    int dp;                             /* N, the workers that divide */
    double weights, gradients, vectors; /* vectors: all of the optimiser's */
    double model;                       /* the weights of the whole model */
    double formula;                     /* 2 or 3 times these, times (N - 1) / N */
} gs_zero_report;

/* The work of a worker with --tensor. */
typedef struct gs_tensor_report {
    int workers;        /* in a group; 0: there is none */
    double held, model; /* bytes of weights: of this worker, of the whole model */
    double sums, bytes; /* all-reduces of a group in a step, and the bytes of all arrays that they sum */
    /* With --sequence also all-gathers, and their bytes; most sums are then reduce-scatters. */
    double gathers, gathered;
} gs_tensor_report;

/* The gain of --offload, and its cost in a step; mean over all workers. */
typedef struct gs_offload_report {
    bool on;
    double bytes;             /* stored outside a worker's device */
    gs_offload_times in_step; /* device.h */
} gs_offload_report;

/* With settings->checkpoint, on rank 0: the checkpoints written, and their cost. */
typedef struct gs_checkpoint_report {
    bool on;
    int written, failed;
    bool lost;              /* the last one could not be written */
    uint64_t step;          /* of the last one written, */
    double bytes;           /* and its size */
    double copied, longest; /* seconds that a step waited for a copy: mean and maximum */
    double share;           /* all copies, as a share of the training time */
    double wrote;           /* seconds of a write, beside training: mean */
} gs_checkpoint_report;

/* What the server of an asynchronous run counted. */
typedef struct gs_staleness {
    uint64_t *count; /* [s], s < counts: gradients applied after s others since their weights were read */
    size_t counts;
    uint64_t *lead; /* [d], d < leads: steps begun d steps ahead of the slowest worker */
    size_t leads;
} gs_staleness;

void gs_staleness_free(gs_staleness *);

/* The outcome of a run. */
typedef struct gs_result {
    double train_loss, test_loss, test_accuracy; /* of the last epoch; loss per sample, of a text per token */
    /* The epoch, from 1, after which the test was made: in an interrupted run perhaps an earlier one than the last; 0:
     * there was no test, and test_loss and test_accuracy are undefined. */
    int tested_epoch;
    double samples_per_s; /* of training alone, all workers together (eval: of inference) */
    double step_median;   /* seconds of a step with a whole batch (gs_step_times); of eval 0 */
    uint64_t steps;
    double phase[GS_PHASES]; /* seconds per step in each phase, mean over all workers */
    double waited; /* share of the training time that a worker waited for its loader, mean as above */
    size_t params;
    float *weights;         /* params floats, then the model's state, if any */
    struct gs_state *state; /* with save_state: rank 0's, else NULL */
    int kept_epoch; /* with keep.best: the epoch of the weights, from 1; 0: the weights are the last ones */
    double kept_accuracy, kept_loss; /* on the test set after that epoch */
    gs_overlap_times overlap;        /* mean over all workers */
    gs_bubble bubble;                /* over all workers; of all steps except the first */
    gs_bubble bubble_last;           /* of the last step */
    gs_zero_report zero;
    gs_tensor_report tensor;
    gs_offload_report offload;
    double message_copies; /* bytes of this process's threads for messages in transit (comm/create.h) */
    gs_checkpoint_report checkpoints;
    bool digest_lost;         /* with settings->digest: the record of a rank ended early */
    double sent, sent_most;   /* bytes per step: mean and maximum over all workers; 0: unknown */
    int workers;              /* of all processes */
    int threads;              /* of each cpu worker of this process */
    int cpus;                 /* to which this worker was bound; 0: it was not bound */
    int rank;                 /* of this process's first worker */
    char busy[200];           /* a sentence: the machine was too busy for valid times; "": it was not */
    gs_worker_report *worker; /* of training: one per rank of all processes; else NULL */
    gs_staleness staleness;   /* of rank 0 with --sync async; else empty */
    /* Of gs_eval: of the GS_TOP likeliest classes; NaN with GS_TOP classes or fewer. */
    double top_accuracy;
    int classes;             /* of gs_eval: outputs of the model */
    gs_class_names names;    /* of gs_eval: of the test set's classes */
    int folder_size;         /* of the samples of an image folder; else 0 */
    int tokens;              /* of a sample of a text; else 0 */
    gs_tokens token;         /* then: their kind */
    double *confusion;       /* (classes, classes): samples with this label that were taken for that class */
    gs_worst worst;          /* with settings->confusion: the samples with the largest loss */
    size_t skipped;          /* with folder.skip_broken: files of both sets that any rank could not decode, */
    char skipped_first[256]; /* and the first of them */
    bool interrupted;        /* stopped by a signal; the weights are those of the last whole step */
} gs_result;

void gs_result_free(gs_result *);
