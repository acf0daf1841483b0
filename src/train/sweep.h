/* Train with several global batches, and compare the steps and seconds that each needs to reach a target. One run is an
 * anecdote: with several seeds, initial weights and sample order vary.
 *
 * The global batch is the first hyper-parameter of data parallelism: N workers compute N times the batch of one. Up to
 * some batch, doubling it halves the steps ("perfect scaling"). Beyond it, returns diminish and vanish; where depends
 * on the model, the data and the learning rate's rule.
 *
 * Source: Shallue et al., "Measuring the effects of data parallelism on neural network training" (Journal of Machine
 * Learning Research 20, 2019). It tunes the learning rate for each batch; here a rule (optim/lr_rule.h) scales one.
 */
#pragma once

#include "train/train.h"

enum {
    GS_SWEEP_MOST = 64, /* batches; also seeds */
    GS_SWEEP_TESTS = 4, /* evaluations per epoch: the resolution of a target */
};

/* The training with one batch and one seed. */
typedef struct gs_sweep_run {
    size_t batch;
    uint64_t seed;
    gs_lr_rates rates;
    gs_result result; /* without weights */
    bool ran;         /* to its end */
    bool diverged;    /* the loss became infinite or NaN */
    bool reached;     /* the target, at: */
    gs_test_report at;
    gs_test_report *tests; /* all `count` tests */
    size_t count;
} gs_sweep_run;

typedef struct gs_sweep {
    gs_settings settings; /* of every run, except `batch`, `seed` and `tests` */
    double target;        /* accuracy on the test set, 0 .. 1 */
    int seeds;            /* runs of each batch, with seeds settings.seed, settings.seed + 1, ... */
    size_t samples;       /* of the training set */
    size_t batch[GS_SWEEP_MOST];
    int batches;
    /* `count` runs, listed by gs_sweep_prepare: all seeds of the first batch, then of the next. */
    gs_sweep_run *run;
    int count;
    /* Called after each run. */
    void (*done)(void *context, const struct gs_sweep *, const gs_sweep_run *);
    void *context;
    const gs_observer *observer; /* its `step` sees the steps of all runs; may be NULL */
} gs_sweep;

/* Fill batch[] from growing numbers, separated by commas. "..." continues the two numbers before it by their factor up
 * to the number after it: "32,64,...,2048" is 32,64,128,256,512,1024,2048. "all" is the whole training set. GS_E_USAGE:
 * an invalid part, which the message names, or a batch larger than the training set. */
gs_status gs_sweep_batches(gs_sweep *, const char *text);

/* List the runs and, where settings.threads is 0, divide the cores among the workers. Call it once. GS_E_USAGE:
 * settings that do not work together. */
gs_status gs_sweep_prepare(gs_sweep *);

/* Train all runs, after gs_sweep_prepare. gs_stop_requested ends it early, with GS_OK: run[].ran marks the completed
 * runs. Fails as gs_train does, with the batch in the message. */
gs_status gs_sweep_train(gs_sweep *);

void gs_sweep_free(gs_sweep *);

/* ---- all seeds of one batch together: the median, and the spread of the seeds ----
 *
 * For a median, a run that never reached the target needs more steps than any other: the median of 5 seeds is "never"
 * if 3 of them never reached it. A median of the others alone would favour the batch that fails most. */

/* The median of an even number of values is the mean of the middle two. */
typedef struct gs_spread {
    double least, most; /* of the finite values; NaN if there are none */
    double median;      /* of all; infinite: never */
} gs_spread;

typedef struct gs_sweep_line {
    size_t batch;
    gs_lr_rates rates;
    int runs; /* completed ones; the other fields are of those */
    int reached, diverged;
    gs_spread steps, epochs, seconds; /* to the target */
    gs_spread accuracy;               /* on the test set, at the end: 0 .. 1 */
    gs_spread samples_per_s;
    /* The run with the median steps, or the next faster one; NULL: none was completed. */
    const gs_sweep_run *middle;
} gs_sweep_line;

/* Of sweep->batch[i]. */
gs_sweep_line gs_sweep_line_of(const gs_sweep *, int i);

/* Of 1 to GS_SWEEP_MOST numbers; NaN counts as infinite. */
gs_spread gs_spread_of(const double *values, int count);
