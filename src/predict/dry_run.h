/* What one rank is asked to do in a step: its layers, its update, and its calls to others, in their order. A dry run
 * writes it down while the run's own code makes the step, on a device that computes nothing, among
 * ranks that are not there. What a thread beside the worker does (core/jobs.h) stands between ASK and NOTE, where the
 * worker gives it the job.
 */
#pragma once

#include "comm/virtual/dry.h"
#include "core/jobs.h"
#include "data/loader.h"
#include "layer/watch.h"
#include "predict/message_lists.h"
#include "train/train.h"

typedef enum gs_dry_run_what {
    GS_DRY_LAYERS,
    GS_DRY_UPDATE,
    GS_DRY_CALL,    /* a collective or a scheme, of all ranks of an axis */
    GS_DRY_MESSAGE, /* to or from one rank */
    GS_DRY_ASK,     /* the worker gives a job: what follows is done by the thread beside it, */
    GS_DRY_NOTE,    /* until here */
    GS_DRY_AWAIT,   /* the worker waits for a job */
    GS_DRY_JOIN     /* for all of them */
} gs_dry_run_what;

typedef struct gs_dry_run_item {
    gs_dry_run_what what;
    int first, end; /* of LAYERS: children of the outermost sequence; one does the work of the others */
    bool backward;
    double flops; /* of them both ways, for a sample */
    size_t samples;
    size_t params;            /* of UPDATE: how many this rank updates */
    gs_axis axis;             /* of CALL */
    gs_message_lists_key key; /* of CALL */
    gs_call message;          /* GS_SEND or GS_RECV; root: a rank of the world */
    uint64_t ticket;          /* of NOTE and AWAIT: the job's number */
} gs_dry_run_item;

static inline double gs_dry_run_flops(const gs_layer *l) {
    const gs_layer_flops flops = gs_layer_flops_of(l);
    return flops.forward + flops.backward;
}

typedef struct gs_dry_run {
    gs_worker_calls calls; /* first: settings->calls points to it */
    gs_dry_run_item *item;
    size_t items, room;
    double sent;     /* bytes, as a run counts them */
    bool background; /* there is a thread beside the worker */
    bool writes;     /* it writes down what is asked; else it is a dry run for its memory */
    bool on;         /* now */
    gs_status failed;
    struct gs_worker *worker;
    gs_layer_watcher layers;
    gs_update_watcher updates;
    gs_dry_watch comm;
    gs_loaded loaded; /* the micro-batches of a step, which have no samples: the last one, */
    gs_schedule_position at;
    size_t known[2], taken; /* how large the last two of its part were, and how many there were */
} gs_dry_run;

/* The first step of rank `rank` of so many workers, with settled settings. Samples have the shape `in`, and `targets`
 * numbers to learn each. *out is to be freed in any case. As gs_train fails before its first step. */
gs_status gs_dry_run_create(const gs_settings *, gs_shape in, int targets, int workers, int rank,
                            gs_dry_run *out);
void gs_dry_run_free(gs_dry_run *);
