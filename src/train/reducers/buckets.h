/* Where the gradients are cut into buckets, which are summed in order (overlap.h).
 *
 * Bucket 0 lies at the end of the array, with the counts. A bucket begins where a layer does, and is closed as soon as
 * it is large enough. The last bucket, which ends at the first layer, may be small.
 */
#pragma once

#include <stddef.h>

typedef struct gs_bucket {
    size_t first, count; /* elements of the flat array */
} gs_bucket;

/* Cut the elements 0 .. count - 1 into buckets of `least` elements or more, except the last one; least > 0. layer[i]:
 * where layer i begins, 0 <= i < layers; layer[0] is 0. A layer without weights begins where the next one does.
 * Returns the number of buckets; `bucket` has room for layers + 1. */
int gs_buckets_plan(const size_t *layer, int layers, size_t count, size_t least, gs_bucket *bucket);
