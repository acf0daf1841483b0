/* The virtual shards of a worker (exact.c) in lockstep: for a model with batch_norm, whose statistics are those of the
 * global batch.
 *
 * They cannot be computed one after the other: the first batch_norm of each needs the sums of all. So each shard has a
 * replica of the model, with activations and gradients of its own (the weights are shared), and each is computed as far
 * as the next sum. There they meet:
 *
 *     shard 0   forward ... batch_norm |             | ... batch_norm |             | ... loss, backward ... |
 *     shard 1                forward ... batch_norm  |  ...
 *                                          the worker: sum over all 8 shards, in their order
 *
 * A shard stops in the middle of forward, within any nesting of layers, so each has a thread, as a place to stop in.
 * Only one of them runs at any time: they take turns, on the worker's one core and device.
 *
 * The sums: all workers gather the numbers of all 8 shards and add them in the order of the shards, in double. So they
 * are the same bits for any number of workers, as everything between them is: it sees one shard alone.
 *
 * The price is memory: all of a worker's samples at once, and gradients for each shard.
 */
#pragma once

#include "train/train.h"

typedef struct gs_lockstep gs_lockstep;

/* For the shards of w->schedule. *out may be freed even after a failure. GS_E_MEMORY. */
gs_status gs_lockstep_create(gs_worker *w, gs_lockstep **out);
void gs_lockstep_free(gs_lockstep *); /* NULL is allowed */

/* The gradient of each of this worker's next shards (gs_gradient), in gs_lockstep_gradients. */
gs_status gs_lockstep_run(gs_lockstep *);

/* saved + GS_STATS floats; those of shard 0 are worker->model's. */
gs_mem gs_lockstep_gradients(const gs_lockstep *, int shard);

/* Called by a shard (gs_pass.sum_over_workers): its numbers -> the sums of those of all shards. */
gs_status gs_lockstep_sum(gs_lockstep *, double *numbers, size_t count);
