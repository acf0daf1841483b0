/* The same training with several global batches: how many steps and seconds does each need to a target? With several
 * seeds, since one run is an anecdote: the seed draws the first weights and the order of the samples.
 *
 * The global batch is the first hyper-parameter of data parallelism: with N workers it is N times what one worker
 * computes at once. Up to some batch, twice the batch needs half the steps ("perfect scaling"). Beyond it the gain
 * becomes smaller and smaller, and ends. Where that is depends on the model, the data and the learning rate's rule.
 *
 * Source of the experiment, steps to a target against the batch on logarithmic axes: Shallue et al., "Measuring the
 * effects of data parallelism on neural network training" (Journal of Machine Learning Research 20, 2019). It tunes
 * the learning rate for each batch; here a rule (optim/lr_rule.h) makes it from one rate.
 */
#pragma once

#include "train/train.h"

enum {
    GS_SWEEP_MOST = 64, /* batches; also seeds */
    GS_SWEEP_TESTS = 4, /* evaluations per epoch: a target is seen to within a quarter of an epoch */
};

/* What the training with one batch and one seed gave. */
typedef struct gs_sweep_run {
    size_t batch;
    uint64_t seed;
    gs_lr_rates rates;
    gs_result result; /* without weights */
    bool ran;         /* to its end */
    bool diverged;    /* its loss became infinite or no number */
    bool reached;     /* the target, at: */
    gs_test_report at;
    gs_test_report *tests; /* all looks at the test set */
    size_t count, room;
} gs_sweep_run;

typedef struct gs_sweep {
    gs_settings settings; /* of every run, but for `batch`, `seed` and `tests` */
    double target;        /* accuracy on the test set, 0 .. 1 */
    int seeds;            /* runs of each batch: with the seeds settings.seed, settings.seed + 1, ... */
    size_t samples;       /* of the training set */
    size_t batch[GS_SWEEP_MOST];
    int batches;
    /* `count` of them, made by gs_sweep_prepare: all seeds of the first batch, then of the next. */
    gs_sweep_run *run;
    int count;
    /* after each run */
    void (*done)(void *context, const struct gs_sweep *, const gs_sweep_run *);
    void *context;
    const gs_observer *observer; /* of the steps of a run; or NULL */
} gs_sweep;

/* The batches of `text`, into batch[]: numbers that grow, with commas between them. "..." stands for what lies between
 * two numbers before it and one after it, by the same factor: "32,64,...,2048" is 32,64,128,256,512,1024,2048. "all":
 * the whole training set. GS_E_USAGE: the message says what is wrong with which part; or that a batch is too large. */
gs_status gs_sweep_batches(gs_sweep *, const char *text);

/* Makes the list of runs and, where settings.threads is 0, divides the cores among the workers. GS_E_USAGE: settings
 * that do not go together. */
gs_status gs_sweep_prepare(gs_sweep *);

/* Train all runs, after gs_sweep_prepare. Ends early, with GS_OK, where gs_stop_requested is set: run[].ran tells which
 * were whole. Fails as gs_train does, with the batch in the message. */
gs_status gs_sweep_train(gs_sweep *);

void gs_sweep_free(gs_sweep *);

/* ---- what all seeds of one batch gave together: the medians, and how far apart the seeds lie ----
 *
 * A run that never reached the target needs, for a median, more steps than any other. So the median of 5 seeds is
 * "never" where 3 of them never reached it; a median of the others alone would praise the batch that fails most. */

/* The median of an even number lies half-way between the two in the middle. */
typedef struct gs_spread {
    double least, most; /* of the finite values; NaN where there is none */
    double median;      /* of all; infinite: never */
} gs_spread;

typedef struct gs_sweep_line {
    size_t batch;
    gs_lr_rates rates;
    int runs; /* that were whole; the other fields are of those */
    int reached, diverged;
    gs_spread steps, epochs, seconds; /* to the target */
    gs_spread accuracy;               /* on the test set, at the end: 0 .. 1 */
    gs_spread samples_per_s;
    /* The run with the median steps, or the next faster one; NULL: no run was whole. */
    const gs_sweep_run *middle;
} gs_sweep_line;

/* Of sweep->batch[i]. */
gs_sweep_line gs_sweep_line_of(const gs_sweep *, int i);

/* Of `count` numbers, one of them at least and GS_SWEEP_MOST at most; NaN counts as infinite. */
gs_spread gs_spread_of(const double *values, int count);
