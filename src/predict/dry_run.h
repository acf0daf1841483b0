/* What one rank does in a step, in order: its layers, its update, and its calls to other ranks. A dry run records these
 * while the run's own code executes the step, on a device that computes nothing, with a comm whose other ranks do not
 * exist. Jobs for the thread beside the worker (core/jobs.h) are recorded between ASK and NOTE, at the point where the
 * worker submits them.
 */
#pragma once

#include "layer/watch.h"
#include "predict/message_lists.h"
#include "train/train.h"

/* simulate.c plays the items in virtual time; layout_plan.c adds up their times. */
typedef struct gs_dry_run_item {
    gs_virtual_op op;
    bool in_job;    /* between ASK and NOTE */
    int first, end; /* for LAYERS: children of the outermost sequence; one of them computes all */
    bool backward;
    double flops; /* of these layers, forward and backward, per sample */
    size_t samples;
    size_t params; /* for UPDATE: parameters that this rank updates */
    gs_axis axis;  /* for LIST: a collective or a scheme of all ranks along this axis */
    /* For LIST. SEND_ONE and RECV_ONE use only key.call, whose root is a rank in the world. */
    gs_message_lists_key key;
    uint64_t ticket; /* for NOTE and AWAIT: the job's number */
} gs_dry_run_item;

static inline double gs_dry_run_flops(const gs_layer *l) {
    const gs_layer_flops flops = gs_layer_flops_of(l);
    return flops.forward + flops.backward;
}

typedef struct gs_dry_run {
    gs_dry_run_item *item;
    size_t items, room;
    double sent; /* bytes, counted as in a run */
    bool writes; /* true: record items; false: a dry run for memory */
    bool on;     /* true while recording */
    bool in_job; /* between ASK and NOTE */
    gs_status failed;
    struct gs_worker *worker;
    gs_layer_watcher layers;
    gs_update_watcher updates;
    gs_loaded loaded; /* the step's latest micro-batch, without samples */
    gs_schedule_position at;
    size_t known[2], taken; /* this part's micro-batches: sizes of the last two; how many so far */
} gs_dry_run;

/* Record the first step of rank `rank` of `workers`, for resolved settings. Samples have the shape `in` and `targets`
 * targets each. *out must be freed even after an error. Fails as gs_train does before its first step. */
gs_status gs_dry_run_create(const gs_settings *, gs_shape in, int targets, int workers, int rank,
                            gs_dry_run *out);
void gs_dry_run_free(gs_dry_run *);
