#include "train/reducers/buckets.h"

int gs_buckets_plan(const size_t *layer, int layers, size_t count, size_t least, gs_bucket *bucket) {
    int buckets = 0;
    size_t end = count; /* of the bucket being filled */
    for (int i = layers - 1; i >= 0; i--) {
        if (layer[i] == 0 || end - layer[i] < least) continue;
        bucket[buckets++] = (gs_bucket){layer[i], end - layer[i]};
        end = layer[i];
    }
    bucket[buckets++] = (gs_bucket){0, end};
    return buckets;
}
