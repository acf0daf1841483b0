/* Shards of a range: how a batch is divided among workers, a worker's shard among its passes, an array among ranks.
 *
 *     8 elements, 3 parts:   | 0 1 2 | 3 4 5 | 6 7 |
 */
#pragma once

#include <stddef.h>
#include "core/api.h"

typedef struct gs_shard {
    size_t first, count;
} gs_shard;

/* Returns shard `rank` of `total` elements cut into `size` contiguous shards whose counts differ by at most 1: the
 * first total % size shards have one more. A count may be 0. */
GS_API gs_shard gs_shard_of(size_t total, int rank, int size);

/* --exact (train/ordered_sums.h): where the leaves begin that are computed together. Leaf k holds the samples at[k] ..
 * at[k + 1] - 1 of those that are computed; it may be empty. count 0: they are not cut. */
enum { GS_LEAVES = 8 /* of a global batch */ };
typedef struct gs_leaves {
    int count; /* a power of two */
    size_t at[GS_LEAVES + 1];
} gs_leaves;

static inline size_t gs_smaller(size_t a, size_t b) {
    return a < b ? a : b;
}
