/* Trains with several global batches, and compares the steps and seconds that each one needs to reach a target. One run
 * is an anecdote; several seeds vary the initial weights and the order of samples.
 *
 * The global batch is the most important hyper-parameter of data parallelism: N workers compute N times the batch of
 * one. Up to some batch size, doubling it halves the steps ("perfect scaling"). Beyond it the returns diminish and
 * finally vanish. Where this happens depends on the model, the data and the rule for the learning rate.
 *
 * Source: Shallue et al., "Measuring the effects of data parallelism on neural network training" (Journal of Machine
 * Learning Research 20, 2019). They tune the rate for each batch; here a rule (optim/lr_rule.h) scales one rate.
 */
#pragma once

#include "train/train.h"

enum {
    GS_SWEEP_MOST = 64, /* maximum number of batches, and of seeds */
    GS_SWEEP_TESTS = 4, /* evaluations per epoch: the resolution of a target */
};

/* A run with one batch and one seed. */
typedef struct gs_sweep_run {
    size_t batch;
    uint64_t seed;
    gs_lr_rates rates;
    gs_result result; /* without weights */
    bool ran;         /* to completion */
    bool diverged;    /* the loss became infinite or NaN */
    bool reached;     /* the target was reached, by test `at` */
    gs_test_report at;
    gs_test_report *tests; /* all tests: `count` of them */
    size_t count;
} gs_sweep_run;

typedef struct gs_sweep {
    gs_settings settings; /* for every run, except `batch`, `seed` and `tests` */
    double target;        /* accuracy on the test set, 0 to 1 */
    int seeds;            /* runs per batch, with seeds settings.seed, settings.seed + 1, ... */
    size_t samples;       /* in the training set */
    size_t batch[GS_SWEEP_MOST];
    int batches;
    /* `count` runs, listed by gs_sweep_prepare: all seeds of the first batch, then of the second, and so on. */
    gs_sweep_run *run;
    int count;
    /* Called after each run. */
    void (*done)(void *context, const struct gs_sweep *, const gs_sweep_run *);
    void *context;
    const gs_observer *observer; /* its `step` is called in all runs; may be NULL */
} gs_sweep;

/* Fill batch[] from ascending numbers, separated by commas. "..." continues the two numbers before it with the same
 * ratio, up to the number after it: "32,64,...,2048" is 32,64,128,256,512,1024,2048. "all" is the whole training set.
 * GS_E_USAGE: an item is invalid (the message names it), or a batch is larger than the training set. */
gs_status gs_sweep_batches(gs_sweep *, const char *text);

/* List the runs and, if settings.threads is 0, divide the cores among the workers. Call this once. GS_E_USAGE: the
 * settings do not work together. */
gs_status gs_sweep_prepare(gs_sweep *);

/* Train all runs, after gs_sweep_prepare. If gs_stop_requested is set, this ends early, with GS_OK; run[].ran marks the
 * completed runs. Fails as gs_train does, and names the batch in the message. */
gs_status gs_sweep_train(gs_sweep *);

void gs_sweep_free(gs_sweep *);

/* ---- all seeds of one batch: the median, and the spread over the seeds ----
 *
 * In a median, a run that never reached the target counts as needing more steps than any other: the median of 5 seeds
 * is "never" if 3 of them never reached it. A median over only the others would favour the batch that fails most. */

/* For an even number of values, the median is the mean of the middle two. */
typedef struct gs_spread {
    double least, most; /* of finite values; NaN if there are none */
    double median;      /* of all values; infinite: never */
} gs_spread;

typedef struct gs_sweep_line {
    size_t batch;
    gs_lr_rates rates;
    int runs; /* completed runs, to which the other fields refer */
    int reached, diverged;
    gs_spread steps, epochs, seconds; /* until the target is reached */
    gs_spread accuracy;               /* on the test set, at the end: 0 to 1 */
    gs_spread samples_per_s;
    /* The run with the median number of steps, or the next faster run; NULL: none was completed. */
    const gs_sweep_run *middle;
} gs_sweep_line;

/* The line for sweep->batch[i]. */
gs_sweep_line gs_sweep_line_of(const gs_sweep *, int i);

/* The spread of 1 to GS_SWEEP_MOST values; NaN counts as infinite. */
gs_spread gs_spread_of(const double *values, int count);
