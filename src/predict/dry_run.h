/* What one rank does in a step: its layers, its update, and its calls to other ranks, in order. A dry run records them
 * while the run's own code executes the step, on a device that computes nothing, with a comm whose other ranks do not
 * exist. Jobs of the thread beside the worker (core/jobs.h) are recorded between ASK and NOTE, at the point where the
 * worker gives them.
 */
#pragma once

#include "comm/comm.h"
#include "core/jobs.h"
#include "data/loader.h"
#include "layer/watch.h"
#include "predict/message_lists.h"
#include "train/train.h"

/* It is played in virtual time by simulate.c, and added up by layout_plan.c. */
typedef struct gs_dry_run_item {
    gs_virtual_op op;
    bool in_job;    /* between ASK and NOTE */
    int first, end; /* of LAYERS: children of the outermost sequence; one of them does the work of all */
    bool backward;
    double flops; /* of these layers, forward and backward, per sample */
    size_t samples;
    size_t params; /* of UPDATE: parameters that this rank updates */
    gs_axis axis;  /* of LIST: a collective or a scheme of all ranks of this axis */
    /* Of LIST; of SEND_ONE and RECV_ONE: key.call, whose root is a rank of the world. */
    gs_message_lists_key key;
    uint64_t ticket; /* of NOTE and AWAIT: the job's number */
} gs_dry_run_item;

static inline double gs_dry_run_flops(const gs_layer *l) {
    const gs_layer_flops flops = gs_layer_flops_of(l);
    return flops.forward + flops.backward;
}

typedef struct gs_dry_run {
    gs_dry_run_item *item;
    size_t items, room;
    double sent; /* bytes, as a run counts them */
    bool writes; /* it records items; else it is a dry run for its memory */
    bool on;     /* it is recording */
    bool in_job; /* between ASK and NOTE */
    gs_status failed;
    struct gs_worker *worker;
    gs_layer_watcher layers;
    gs_update_watcher updates;
    gs_loaded loaded; /* the latest micro-batch of the step, without samples, */
    gs_schedule_position at;
    size_t known[2], taken; /* the sizes of the last two of its part, and how many there were */
} gs_dry_run;

/* The first step of rank `rank` of `workers`, with settled settings. Samples have the shape `in` and `targets` targets
 * each. *out must be freed even after an error. Fails as gs_train does before its first step. */
gs_status gs_dry_run_create(const gs_settings *, gs_shape in, int targets, int workers, int rank,
                            gs_dry_run *out);
void gs_dry_run_free(gs_dry_run *);
