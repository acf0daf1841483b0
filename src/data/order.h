/* Which worker trains on which sample in which step.
 *
 * Each epoch has its own order, a function of only (seed, epoch). A step takes the next `batch` samples, the global
 * batch, and each worker takes one contiguous shard of it (core/shard.h). Every sample is therefore used exactly once
 * per epoch, by exactly one worker, even if nothing divides evenly. The global batches do not depend on the number of
 * workers.
 *
 *     order of epoch 3:  | 17 4 88 23 9 61 | 5 70 31 2 44 8 | 12 99 |      batch 6, the last one ragged
 *     2 workers:         |  w0   |   w1    |  w0   |  w1    | w0 |w1|
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include "core/api.h"

/* order[0..n-1] = a permutation of 0..n-1 drawn from (seed, epoch): Fisher-Yates from the end, where the
 * partner of element i comes from word i % 4 of philox(seed, (GS_STREAM_ORDER, epoch), i / 4), scaled to 0..i
 * by multiplication (Lemire, "Fast random integer generation in an interval", 2019, without rejection). */
GS_API void gs_epoch_order(uint64_t seed, uint64_t epoch, size_t n, uint32_t *order);
