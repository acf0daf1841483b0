/* --bucket KB: sums of gradients begin while backward is still running.
 *
 * Backward runs from the last layer to the first, and the gradients are stored in one flat array in the order of the
 * layers. The end of the array is therefore final first, and a thread sums it while the worker continues:
 *
 *     gradients    | layer 0 | layer 1 | layer 2 | layer 3 | counts |
 *                  | bucket 2|     bucket 1      |     bucket 0     |
 *
 *     worker       forward, loss | backward 3 | backward 2 | backward 1 | backward 0 | wait          | update
 *     its thread                              | sum of bucket 0 |       | sum of bucket 1 | sum of 2 |
 *                                                                             hidden | waited for
 *
 * A bucket is closed at the layer that brings it to at least KB * 1024 bytes (buckets.h). Only layers of the model's
 * outermost sequence count, so that all ranks cut alike. If a worker computes its part of a batch in several passes,
 * the buckets are released in the last pass. Loss and counts are known before backward, and are sent with bucket 0.
 *
 * The weights equal those after a single sum, up to rounding. They are bitwise equal with schemes whose order of
 * additions does not depend on where the array is cut: all schemes except the two rings, `ring` and Gloo's.
 *
 * Layers are never cut, however small KB is: a layer's gradient becomes final all at once, so the sum of a piece could
 * not begin any sooner, and each additional sum costs its rounds. Cutting was tried with layers of 6.4 and 8.4 MB and
 * two workers on two cores of a Xeon, with --bucket 256. With pieces of 128 KB a step's sums by `ring` took 60 ms
 * instead of 20 between processes over Gloo, and 13 instead of 6 in shared memory; by allreduce over Gloo, however, 11
 * instead of 15. On two parts of an OpenCL device, pieces of 1 MB gave 11 % more samples/s by allreduce between threads
 * (some pieces are copied while others are summed), and 25 % less by the ring between processes over Gloo.
 *
 * The gain depends on the model. If the first layer holds most of the weights (as in mlp), little is hidden: its
 * gradient is final last, when no computation is left to hide its sum.
 *
 * Source: Li et al., "PyTorch distributed: experiences on accelerating data parallel training" (VLDB 2020),
 * section 3.2.
 */
#pragma once

#include "train/train.h"

typedef struct gs_overlap gs_overlap;

/* Create worker->reducer_state: cut the worker's gradients by settings->bucket, and start a thread, to which backward
 * reports final gradients. worker->sync must exist before the first release, for sums of worker->sync_most floats. */
gs_status gs_overlap_create(gs_worker *);

/* End the thread. NULL is allowed. After a failure, abort the comm first, or the thread waits for the time-out. */
void gs_overlap_free(gs_overlap *);

/* Hand over the remaining buckets, wait until all are summed, and copy them back to the device, so that the next step
 * may begin. If a sum fails in the thread, this fails with the same message. */
gs_status gs_overlap_finish(gs_overlap *);

/* Mean times per step, over the `steps` steps so far. */
gs_overlap_times gs_overlap_measured(const gs_overlap *, uint64_t steps);
