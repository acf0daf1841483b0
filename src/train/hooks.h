/* Observers of a run that are not part of its computation. Each hook is a table in the observer's own file; hooks.c
 * lists them. The code for steps, epochs and models calls the hooks only through this list.
 *
 * The settings determine which hooks are active, and all ranks share them. A hook may therefore make collective calls,
 * except in `wish` and in `loaded` (ranks differ in their numbers of micro-batches).
 */
#pragma once

#include "train/train.h"

/* The state of an epoch. */
typedef struct gs_event {
    gs_result *result;
    int epoch;               /* from 1 */
    size_t done, of;         /* steps done in this epoch, and the epoch's total */
    gs_score score;          /* of this step; once the epoch's steps are done, a copy of `total` */
    gs_score total;          /* over the epoch; stop: the run ends after a step or during a test */
    bool diverged;           /* set by a hook: the run ends after this step, on all workers */
    gs_test_report test;     /* of the last test */
    const gs_measured *then; /* the worker's counts when the epoch began */
    uint64_t begun_at;       /* the step after which the epoch began */
    double seconds;          /* training time only: this epoch's, or in `end` the whole run's */
} gs_event;

/* ---- epochs.c: an epoch, one step at a time ---- */

/* Begin epoch e->epoch, from 1. The first epoch of a resumed run may begin at a later step. */
gs_status gs_epoch_begin(gs_worker *, gs_event *e);
/* Perform step e->done + 1 of e->of, and store its score in e->score. e->diverged: it is the last step. */
gs_status gs_epoch_step(gs_worker *, gs_event *e);
/* Call this after the last step; e->score becomes the epoch's score. GS_E_DIVERGED. */
gs_status gs_epoch_end(gs_worker *, gs_event *e);

/* Read all weights and the model's state into result->weights, on all workers (hooks.c). GS_E_DIVERGED: not finite. */
gs_status gs_read_weights(gs_worker *, gs_result *result);

/* Any function may be NULL. */
typedef struct gs_hook {
    gs_status (*create)(gs_worker *);                     /* before gs_prepare_steps */
    gs_status (*model)(const gs_worker *, gs_layer *net); /* net has been created: a stage or replica */
    gs_status (*book)(gs_worker *);  /* after gs_prepare_steps: allocates memory; a dry run also calls it */
    gs_status (*begin)(gs_worker *); /* all workers are ready for the first step */
    gs_status (*before_step)(gs_worker *);
    gs_status (*loaded)(gs_worker *, const struct gs_loaded *); /* for the micro-batch worker->micro_batch */
    gs_status (*phase)(gs_worker *, gs_phase, double start, double end);
    float (*wish)(const gs_worker *, uint64_t done); /* gs_wishes */
    gs_status (*after_step)(gs_worker *, gs_event *);
    gs_status (*after_steps)(gs_worker *, gs_event *); /* after an epoch's steps; all have the same weights */
    gs_status (*after_test)(gs_worker *, gs_event *);  /* unless a signal ended the test */
    gs_status (*after_epoch)(gs_worker *, gs_event *);
    gs_status (*end)(gs_worker *, gs_event *);
    void (*free)(gs_worker *); /* called after the model is freed, even if nothing was created */
} gs_hook;

extern const gs_hook gs_hook_dry_run, gs_hook_digest, gs_hook_snapshots, gs_hook_verify, gs_hook_divergence,
    gs_hook_checkpoints, gs_hook_timeline;

/* All hooks in the order of their calls, then NULL. */
extern const gs_hook *const gs_hooks[];

/* GS_HOOKS(after_step, w, &event): call `after_step` of each hook that has it, until one fails. */
#define GS_HOOKS(function, ...)                                                                              \
    for (const gs_hook *const *hook = gs_hooks; *hook; hook++)                                               \
        if ((*hook)->function) GS_TRY((*hook)->function(__VA_ARGS__))
