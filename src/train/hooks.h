/* Who watches a run without being a part of it. Each hook is a table, in the file of what watches; hooks.c lists them.
 * Whoever makes a step, an epoch or a model calls them all, and names none.
 *
 * Which of them do anything follows from the settings, which all ranks share: so a hook may make collective calls, but
 * in `loaded`, since ranks have different numbers of micro-batches, and in `wish`.
 */
#pragma once

#include "train/train.h"

/* What the epochs tell. */
typedef struct gs_event {
    gs_result *result;
    int epoch;               /* from 1 */
    size_t done, of;         /* steps of this epoch that are made, and how many there are */
    gs_score score;          /* of the step; after the steps of an epoch, `total` */
    gs_score total;          /* over the epoch; stop: the run ends, after a step or in a test */
    bool diverged;           /* a hook says so: the run ends after this step, on all workers */
    gs_test_report test;     /* the last one */
    const gs_measured *then; /* what the worker had done before the epoch, */
    uint64_t begun_at;       /* after so many steps */
    double seconds;          /* of training alone: in this epoch; at the end, in all */
} gs_event;

/* ---- epochs.c: what an epoch consists of, for whoever makes its steps one at a time ---- */

/* e->epoch is the epoch, from 1. The first one may begin in its midst. */
gs_status gs_epoch_begin(gs_worker *, gs_event *e);
/* Step e->done + 1 of e->of, whose score e->score is. e->diverged: it is the last one. */
gs_status gs_epoch_step(gs_worker *, gs_event *e);
/* After the last one: e->score is that of the epoch. GS_E_DIVERGED. */
gs_status gs_epoch_end(gs_worker *, gs_event *e);

/* All weights and the state, in result->weights, on all workers (hooks.c). GS_E_DIVERGED: one is not finite. */
gs_status gs_read_weights(gs_worker *, gs_result *result);

/* Any function may be NULL. */
typedef struct gs_hook {
    gs_status (*create)(gs_worker *);                     /* before gs_prepare_steps */
    gs_status (*model)(const gs_worker *, gs_layer *net); /* which makes this one: a stage, a replica */
    gs_status (*book)(gs_worker *);  /* after gs_prepare_steps: takes memory. A dry run calls it too */
    gs_status (*begin)(gs_worker *); /* all workers are ready for the first step */
    gs_status (*before_step)(gs_worker *);
    gs_status (*loaded)(gs_worker *,
                        const struct gs_loaded *); /* a micro-batch, as worker->micro_batch says */
    gs_status (*phase)(gs_worker *, gs_phase, double start, double end);
    float (*wish)(const gs_worker *, uint64_t done); /* gs_wishes */
    gs_status (*after_step)(gs_worker *, gs_event *);
    gs_status (*after_steps)(gs_worker *, gs_event *); /* of an epoch: all workers have the same weights */
    gs_status (*after_test)(gs_worker *, gs_event *);  /* that went on to its end */
    gs_status (*after_epoch)(gs_worker *, gs_event *);
    gs_status (*end)(gs_worker *, gs_event *);
    void (*free)(gs_worker *); /* after the model, even if nothing was made */
} gs_hook;

extern const gs_hook gs_hook_dry_run, gs_hook_digest, gs_hook_snapshots, gs_hook_verify, gs_hook_divergence,
    gs_hook_checkpoints, gs_hook_timeline;

/* In this order, then NULL. */
extern const gs_hook *const gs_hooks[];

/* GS_HOOKS(after_step, w, &event): of all hooks, until one fails. */
#define GS_HOOKS(function, ...)                                                                              \
    for (const gs_hook *const *hook = gs_hooks; *hook; hook++)                                               \
        if ((*hook)->function) GS_TRY((*hook)->function(__VA_ARGS__))
