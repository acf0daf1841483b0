/* Lesson 10: hiding the communication. tasks.h and README.md say what to write.
 *
 * This file and given.c replace the library's functions of src/train/reducers/buckets.h and src/sync/wire.h:
 * `build/lessons/10/gradsum train --bucket 16 --wire bf16` cuts the gradients with gs_buckets_plan and rounds them with
 * to_bf16. This file converts one value at a time, the library eight. */
#include "tasks.h"

#include <math.h>
#include <string.h>

/* ---- buckets ---- */

int gs_buckets_plan(const size_t *layer, int layers, size_t count, size_t least, gs_bucket *bucket) {
    int buckets = 0;
    size_t end = count; /* of the bucket that is being filled */
    /* task 10.1: go from the last layer to the first. If the elements from this layer up to `end` are enough for a
     * bucket, close it and begin the next one. The rest, from layer[0], is the last bucket. Return their number. */
    for (int i = layers - 1; i >= 0; i--) {
        if (layer[i] == 0 || end - layer[i] < least) continue;
        bucket[buckets++] = (gs_bucket){layer[i], end - layer[i]};
        end = layer[i];
    }
    bucket[buckets++] = (gs_bucket){0, end};
    return buckets;
    /* end of task 10.1 */
}

/* ---- overlap ---- */

double hidden_share(const timeline *t, double *over) {
    double end = 0, sums = 0; /* of the previous sum; seconds of all sums */
    /* task 10.2: go through the buckets in order. A bucket is final when backward of its lowest layer ends. The worker
     * waits from the end of backward to the end of the last sum, if that is later. */
    for (int b = 0; b < t->buckets; b++) {
        int lowest = t->layers - 1;
        while (t->layer[lowest] > t->bucket[b].first) lowest--;
        double takes = t->alpha + t->beta * 4 * (double)t->bucket[b].count;
        end = over[b] = fmax(end, t->done[lowest]) + takes;
        sums += takes;
    }
    return 1 - fmax(0, end - t->done[0]) / sums;
    /* end of task 10.2 */
}

/* ---- fewer bits ---- */

static inline uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

uint16_t to_bf16(float f) {
    uint32_t bits = bits_of(f);
    /* task 10.3: the upper 16 bits, rounded by the lower 16: up if these are more than half (0x8000), down if less; at
     * exactly half, so that the last bit of the result is 0. A carry into the exponent is right. But any NaN (exponent
     * all ones, fraction not 0) must stay a NaN. */
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x0040);
    uint32_t odd = bits >> 16 & 1;
    return (uint16_t)((bits + 0x7fff + odd) >> 16);
    /* end of task 10.3 */
}

uint16_t to_f16(float f) {
    uint32_t bits = bits_of(f), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    /* task 10.4: `size` is |f|. Four cases: NaN; 2^16 or more, infinity too, becomes infinity (0x7c00); a number below
     * 2^-14 becomes a whole number of 2^-24, rounded to nearest even; for all others, the exponent counts from 15
     * instead of 127, and 13 bits of the fraction are rounded off as in 10.3 (65520 to 65535 carry to infinity). */
    uint32_t infinity = 0x7f800000, two_16 = (127 + 16) << 23, two_minus_14 = (127 - 14) << 23;
    if (size > infinity) return (uint16_t)(sign | 0x7e00);
    if (size >= two_16) return (uint16_t)(sign | 0x7c00);
    if (size < two_minus_14) return (uint16_t)(sign | (uint32_t)lrintf(float_of(size) * 0x1p24f));
    uint32_t odd = size >> 13 & 1;
    return (uint16_t)(sign | (((size + 0x0fff + odd) >> 13) - ((127 - 15) << 10)));
    /* end of task 10.4 */
}
