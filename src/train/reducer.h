/* Reducers turn a step's gradients into one sum over the replicas, and decide which part of it each worker then has.
 *
 *     reducers/all_reduce.c  the whole sum, by a scheme, after backward; with --bucket during backward (overlap.h)
 *     reducers/zero.c        one part for each worker: ZeRO 1, 2 and 3
 *
 * With --exact both add in the order of a tree (ordered_sums.h). A step calls the functions as follows (step.c):
 *
 *     for each part k:        one; with --exact perhaps several
 *         gs_gradient         dw of a part of the batch
 *         add                 add it to those of the parts before it
 *     finish                  complete the sum over all replicas
 *     gs_update
 *     gather                  send new weights to workers that have not computed them
 *
 * A pipeline computes and adds its leaves itself, and calls only finish and gather.
 */
#pragma once

#include "train/train.h"

typedef struct gs_reducer {
    /* Called after the strategy's create: make worker->reducer_state. */
    gs_status (*create)(gs_worker *);
    /* Free what `create` made. `create` may have failed, or may never have been called. */
    void (*free)(gs_worker *);
    /* Called when the gradients of part k = 0, 1, ... are in the model. */
    gs_status (*add)(gs_worker *, int k);
    /* Replace gradients, layers' state and counts by their sums, as far as this worker needs them (see partition.h). */
    gs_status (*finish)(gs_worker *);
    /* After the update: send new weights to workers that hold them but have not computed them. NULL: not needed. */
    gs_status (*gather)(gs_worker *);
    /* Called if this worker has no more samples while others still pass theirs through a run of layers
     * (partition->run): take part in their collectives. May be NULL. */
    gs_status (*join)(gs_worker *, int run, const gs_pass *, bool backward);
    /* After the last epoch: fill in the reducer's part of the result. */
    void (*report)(const gs_worker *, gs_result *);
} gs_reducer;

extern const gs_reducer gs_reducer_all_reduce; /* see also train/reducers/zero.h */

/* The reducer chosen by these settings; NULL: the strategy itself sums. */
const gs_reducer *gs_reducer_of(const gs_settings *);

/* Gather the new weights, unless the update was skipped (optimizer->loss_scale.skipped). */
static inline gs_status gs_gather_new_weights(gs_worker *w) {
    return w->reducer->gather && !w->optimizer->loss_scale.skipped ? w->reducer->gather(w) : GS_OK;
}

/* For both reducers, in a pipeline: sum the layers' state in all runs of this worker, and in the last stage also the
 * counts, over the stage's replicas. */
gs_status gs_sum_states(gs_worker *);
