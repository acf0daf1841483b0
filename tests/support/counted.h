/* A transport that hands all on to another one, and counts the bytes of some messages in a run's second step. */
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

/* In c->comm a rank like `inner`, which must live as long. Collectives are made of messages. */
void gs_counted_begin(gs_counted *c, gs_comm *inner, bool (*counts)(const gs_call *));

/* A training of some ranks that are threads. Its settings have gs_counted_step_2 as their hook. */
typedef struct gs_counted_run {
    gs_settings settings;
    gs_dataset *train, *test;
    bool (*counts)(const gs_call *);
    double bytes[4];    /* counted by each rank in step 2 */
    double measured[4]; /* what each rank sent, a step */
    double sent[4];     /* what each rank's result says of that */
    gs_result result;   /* of rank 0, without its weights */
} gs_counted_run;

void gs_counted_train(gs_counted_run *, int ranks);

/* gs_settings.test_hook: counts from step 2 on, and no further than its end. */
void gs_counted_step_2(gs_worker *);
