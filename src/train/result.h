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

/* How long a step takes, from the end of one to the end of the next: the median of the last GS_STEP_TIMES of them.
 *
 * Other load on a machine makes single steps slower, never faster. The mean includes all such steps, and the first
 * steps after a pause. The median does not, as long as most steps are undisturbed, so benchmarks of steps usually
 * report it. */
enum { GS_STEP_TIMES = 1024 };

/* All zero: no step yet. */
typedef struct gs_step_times {
    double
        since; /* when the step that runs began: to be set where training begins, or goes on after a pause */
    uint64_t steps;               /* how many were recorded */
    float seconds[GS_STEP_TIMES]; /* of step i at i mod GS_STEP_TIMES */
} gs_step_times;

/* A step has ended `now`, and the next one begins. counts: record it (one with fewer samples is another kind). */
void gs_step_times_ended(gs_step_times *, double now, bool counts);

/* Seconds; for an even number of steps, the lower of the two in the middle. 0: there was no step. */
double gs_step_times_median(const gs_step_times *);

/* The result of a step or an evaluation: sums over the global batch, the same on every worker. (Where workers do
 * not synchronise in each step, a step's sums are this worker's alone; those of an epoch are of all workers.) */
typedef struct gs_score {
    double loss, correct, samples; /* a sample with many labels counts once for each */
    bool stop;                     /* a worker was asked to stop: all end after this step */
    float loss_scale;              /* of a step in f16 (optim/loss_scale.h); else 0 */
    bool skipped;                  /* then: its update was left out */
    bool checkpoint;               /* all make a checkpoint after this step, ... */
    bool asked;                    /* or a worker was asked for one (persist/checkpoint.h) */
} gs_score;

/* What a run reports as it goes on, from rank 0 only, in its thread. Any may be NULL. */
typedef struct gs_epoch_report {
    int epoch; /* from 1 */
    uint64_t steps;
    uint64_t
        before; /* so many steps of this epoch an earlier run has made: what is trained is of the others alone */
    double train_loss, train_accuracy, test_loss, test_accuracy,
        samples_per_s; /* of a text: loss per token */
    /* With settings->clip: the mean over the steps (of rank 0), before clipping; else NAN. */
    double gradient_norm;
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
    gs_memory_use memory[GS_MEMORY_PLACES]; /* when it had most: of its device, and of the host beside it */
    /* With settings->plans or max_memory: what was predicted; else 0. */
    gs_memory_use planned[GS_MEMORY_PLACES];
} gs_worker_report;

typedef struct gs_observer {
    void *context;
    void (*start)(void *context, const struct gs_worker *rank0);
    void (*step)(void *context, int epoch, uint64_t done, uint64_t of, const gs_score *);
    void (*epoch)(void *context, const gs_epoch_report *);
    void (*test)(void *context, const gs_test_report *);
    void (*testing)(void *context, size_t done, size_t of); /* during a test: blocks of this worker */
    /* With settings->record: before start, the devices' descriptions; after each epoch, what each worker did in it;
     * once, after the last traced step, the timelines of all workers (train/timeline.h). */
    void (*devices)(void *context, const gs_device_report *, int workers);
    void (*workers)(void *context, int epoch, const gs_worker_report *, int workers);
    void (*timeline)(void *context, const struct gs_rank_timeline *, int workers);
    void (*note)(void *context,
                 const char *sentence); /* something that the user should know, and that ends nothing */
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

/* How long the stages of a pipeline waited, as shares of the time from the first forward to the last backward of a
 * step: measured, and by cause (strategies/pipeline.c); in virtual time, where stages take what theirs took on
 * average and messages nothing; and by the formula for stages that take equal times. */
typedef struct gs_bubble {
    int stages; /* 0: there is no pipeline */
    double measured, virtual_time, formula;
    double fill, unequal, rest; /* add up to `measured` */
    double alone;               /* of fill and drain if there were no other waits: the formula's */
} gs_bubble;

/* What each worker holds with --zero, in bytes: windows included, activations not; and what theory says of the bytes
 * that it sends in a step of one pass. */
typedef struct gs_zero_report {
    int stage;                          /* 0: there is none */
    int dp;                             /* N, that divide */
    double weights, gradients, vectors; /* vectors: the optimiser's, all of them */
    double model;                       /* the weights of the whole model */
    double formula;                     /* 2 or 3 times these, times (N - 1) / N */
} gs_zero_report;

/* What a worker does with --tensor. */
typedef struct gs_tensor_report {
    int workers;        /* in a group; 0: there is none */
    double held, model; /* bytes of weights: this worker's, and the whole model's */
    double sums, bytes; /* all-reduces in a group in a step, and the bytes of all arrays that they sum */
    /* With --sequence also all-gathers, and their bytes; most sums then end in parts. */
    double gathers, gathered;
} gs_tensor_report;

/* What --offload gained, and what it cost in a step; mean over this process's workers. */
typedef struct gs_offload_report {
    bool on;
    double bytes;             /* that lie outside of a worker's device */
    gs_offload_times in_step; /* device.h */
} gs_offload_report;

/* With settings->checkpoint, on rank 0: how many were made, and what that cost. */
typedef struct gs_checkpoint_report {
    bool on;
    int written, failed;
    bool lost;              /* the last one could not be written */
    uint64_t step;          /* of the last one that was, */
    double bytes;           /* and its size */
    double copied, longest; /* seconds that a step waited for a copy: the mean, and the longest */
    double share;           /* all copies, as a share of the time of training */
    double wrote;           /* seconds that one was written, beside training: the mean */
} gs_checkpoint_report;

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
    double train_loss, test_loss, test_accuracy; /* of the last epoch; loss per sample, of a text per token */
    int tested_epoch; /* the epoch, from 1, after which the test was made; in an interrupted run an earlier one
                             than the last, or 0: there was no test, and test_loss and test_accuracy say nothing */
    double samples_per_s; /* of training alone, all workers together (eval: of inference) */
    double step_median;   /* seconds a step with a whole batch takes (gs_step_times); of eval 0 */
    uint64_t steps;
    double phase[GS_PHASES]; /* seconds per step in each phase, mean over this process's workers */
    double waited;           /* share of training time that a worker waited for its loader, mean as above */
    size_t params;
    float *weights;         /* params floats, and behind them the model's state, if it has any */
    struct gs_state *state; /* with save_state: rank 0's, else NULL */
    int kept_epoch; /* with keep_best: the epoch, from 1, that the weights are of; 0: the last weights */
    double kept_accuracy, kept_loss; /* on the test set after it */
    gs_overlap_times overlap;        /* mean over this process's workers */
    gs_bubble bubble;                /* over all workers; of all steps but the first */
    gs_bubble bubble_last;           /* of the last step */
    gs_zero_report zero;
    gs_tensor_report tensor;
    gs_offload_report offload;
    double message_copies; /* bytes that this process's threads kept for messages under way (comm/create.h) */
    gs_checkpoint_report checkpoints;
    bool digest_lost;         /* with settings->digest: the record of a rank has stopped before the end */
    double sent, sent_most;   /* bytes per step: mean over all workers, and the one with most; 0: not known */
    int workers;              /* of all processes */
    int threads;              /* that each cpu worker of this process had */
    int cpus;                 /* that this worker was bound to; 0: it was not bound */
    int rank;                 /* of this process's first worker */
    char busy[200];           /* a sentence: the machine was too busy for these times; "": it was not */
    gs_worker_report *worker; /* of training: one for each rank of all processes; else NULL */
    gs_staleness staleness;   /* of rank 0 with --sync async; else empty */
    /* Of gs_eval: of the GS_TOP likeliest classes; NaN: there are not more than GS_TOP. */
    double top_accuracy;
    int classes;          /* of gs_eval: outputs of the model */
    gs_class_names names; /* of gs_eval: of the test set's classes */
    int folder_size;      /* of the samples of an image folder; else 0 */
    int tokens;           /* in a sample, where the data are a text; else 0 */
    gs_tokens token;      /* then: what one is */
    double *confusion;    /* (classes, classes): how many samples with this label were taken for that class */
    gs_worst worst;       /* with settings->confusion: the samples that the model gets most wrong */
    size_t skipped;       /* with folder.skip_broken: files that some rank could not decode, of both sets, */
    char skipped_first[256]; /* and the first of them */
    bool interrupted; /* stopped by a signal before the end; weights are those of the last whole step */
} gs_result;

void gs_result_free(gs_result *);
