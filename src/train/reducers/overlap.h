/* --bucket KB: the sum of gradients begins while backward still runs.
 *
 * Backward goes from the last layer to the first, and the gradients lie in one flat array in the order of the
 * layers. So the end of the array is final first, and is summed by a thread of its own while the worker goes on:
 *
 *     gradients    | layer 0 | layer 1 | layer 2 | layer 3 | counts |
 *                  | bucket 2|     bucket 1      |     bucket 0     |
 *
 *     worker       forward, loss | backward 3 | backward 2 | backward 1 | backward 0 | wait          | update
 *     its thread                              | sum of bucket 0 |       | sum of bucket 1 | sum of 2 |
 *                                                                             hidden | waited for
 *
 * A bucket is closed at the first layer at which it has KB * 1024 bytes (buckets.h); only the layers of the model's
 * outermost sequence are looked at, so that every rank cuts alike. Where a worker goes through its part of a batch in
 * several passes, the last one releases the buckets. Loss and counts are known before backward and travel with
 * the first bucket.
 *
 * The weights are those of one sum after backward, within rounding. They are equal to the bit where the order of
 * additions does not depend on where the array is cut: in all schemes but the two rings, `ring` and Gloo's.
 *
 * A layer is never cut, however small KB is. A larger layer is one bucket, with the layers after it that were not yet
 * enough for one. Its gradient becomes final as a whole, so the sum of its first piece could not begin any sooner. Its
 * pieces would be summed one after the other by the one thread, and each sum costs its rounds. Large sums go in small
 * pieces already where that helps (Gloo's exchange of two processes, comm/gloo/direct.c). Pieces were tried, with
 * layers of 6.4 and 8.4 MB and two workers on two cores of a Xeon, --bucket 256. Sums of a step, two runs of each:
 *
 *     pieces                                  none         2 MB         512 KB       128 KB
 *     ring, processes over Gloo               20, 20 ms    19, 20 ms    25, 29 ms    60, 61 ms
 *     ring, processes in shared memory        7.4, 4.4     10.3, 7.8    10.5, 6.7    13.0, 13.2
 *     allreduce, processes over Gloo          14, 16       16, 16       12, 11       11, 10
 *     allreduce, threads                      2.9, 2.3     1.3, 2.0     2.7, 2.0     1.9, 4.1
 *
 * On two parts of an OpenCL device some pieces can be copied while others are summed: with 1 MB that gave 11 % more
 * samples/s between threads by allreduce, and 25 % less between processes by the ring over Gloo.
 *
 * What it gains depends on the model. If the first layer holds most of the weights (mlp), its gradient is final last,
 * and nothing is left to hide its sum behind.
 *
 * Source: Li et al., "PyTorch distributed: experiences on accelerating data parallel training" (VLDB 2020),
 * section 3.2.
 */
#pragma once

#include "train/train.h"

typedef struct gs_overlap gs_overlap;

/* Cut the worker's gradients by settings->bucket, and start its thread: worker->reducer_state, which is told of final
 * gradients from now on. worker->sync, for sums of worker->sync_most floats, must be there before the first release. */
gs_status gs_overlap_create(gs_worker *);

/* Ends the thread. NULL is allowed. After a failure the comm must be aborted, or the thread waits until the timeout. */
void gs_overlap_free(gs_overlap *);

/* Hand over what is left, wait until all is summed, and bring it back to the device; the next step may begin then.
 * A failure of a sum, in the other thread, comes out here with its message. */
gs_status gs_overlap_finish(gs_overlap *);

/* Of all steps so far, as sums over `steps` ones. */
gs_overlap_times gs_overlap_measured(const gs_overlap *, uint64_t steps);
