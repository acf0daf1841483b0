/* Cuts the gradients into buckets, which are summed in order (overlap.h).
 *
 * Bucket 0 is at the end of the array, and includes the counts. Each bucket begins where a layer begins, and is closed
 * as soon as it is large enough. The last bucket, which begins at the first layer, may be small.
 */
#pragma once

#include <stddef.h>

typedef struct gs_bucket {
    size_t first, count; /* elements in the flat array */
} gs_bucket;

/* Cut the elements 0 .. count - 1 into buckets of at least `least` elements, except the last one; least > 0. layer[i]:
 * where layer i begins, 0 <= i < layers; layer[0] is 0. A layer without weights begins where the next one does. Returns
 * the number of buckets; `bucket` has room for layers + 1. */
int gs_buckets_plan(const size_t *layer, int layers, size_t count, size_t least, gs_bucket *bucket);
