/* A transport that forwards everything to another one, and counts the bytes of some messages in a run's second step. */
#pragma once

#include <stdatomic.h>

#include "tests/support/ranks.h"
#include "train/train.h"

typedef struct gs_counted {
    gs_comm comm;
    gs_comm *inner;
    bool (*counts)(const gs_call *); /* which calls' messages to count */
    atomic_bool on;
    _Atomic double bytes;
} gs_counted;

/* Makes c->comm a comm that forwards to `inner`, which must live as long as c->comm. Collectives become messages. */
void gs_counted_begin(gs_counted *c, gs_comm *inner, bool (*counts)(const gs_call *));

/* A training run whose ranks are threads. Its settings use gs_counted_step_2 as their hook. */
typedef struct gs_counted_run {
    gs_settings settings;
    gs_dataset *train, *test;
    bool (*counts)(const gs_call *);
    double bytes[4];    /* counted on each rank in step 2 */
    double measured[4]; /* what each rank sent per step */
    double sent[4];     /* the same, from each rank's result */
    gs_result result;   /* rank 0's, without the weights */
} gs_counted_run;

void gs_counted_train(gs_counted_run *, int ranks);

/* gs_settings.test_hook: starts counting at step 2 and stops at its end. */
void gs_counted_step_2(gs_worker *);
