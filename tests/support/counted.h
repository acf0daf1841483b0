/* A transport that forwards everything to another one and counts the bytes of some messages in a run's second step. */
#pragma once

#include <stdatomic.h>

#include "tests/support/ranks.h"
#include "train/train.h"

typedef struct gs_counted {
    gs_comm comm;
    gs_comm *inner;
    bool (*counts)(const gs_call *); /* the messages of these calls */
    atomic_bool on;
    _Atomic double bytes;
} gs_counted;

/* c->comm becomes a rank that forwards to `inner`, which must live as long. Collectives are made of messages. */
void gs_counted_begin(gs_counted *c, gs_comm *inner, bool (*counts)(const gs_call *));

/* A training run of several ranks that are threads. Its settings use gs_counted_step_2 as their hook. */
typedef struct gs_counted_run {
    gs_settings settings;
    gs_dataset *train, *test;
    bool (*counts)(const gs_call *);
    double bytes[4];    /* counted on each rank in step 2 */
    double measured[4]; /* what each rank sent per step */
    double sent[4];     /* the same according to each rank's result */
    gs_result result;   /* of rank 0, without its weights */
} gs_counted_run;

void gs_counted_train(gs_counted_run *, int ranks);

/* gs_settings.test_hook: starts counting at step 2 and stops at its end. */
void gs_counted_step_2(gs_worker *);
