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
    (void)layer, (void)layers, (void)least, (void)bucket, (void)end;
    lab_blank("10.1");
    bucket[buckets++] = (gs_bucket){0, count};
    return buckets;
    /* end of task 10.1 */
}

/* ---- overlap ---- */

double hidden_share(const timeline *t, double *over) {
    double end = 0, sums = 0; /* of the previous sum; seconds of all sums */
    /* task 10.2: go through the buckets in order. A bucket is final when backward of its lowest layer ends. The worker
     * waits from the end of backward to the end of the last sum, if that is later. */
    (void)t, (void)over, (void)end, (void)sums;
    lab_blank("10.2");
    return 0;
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
    (void)bits;
    return lab_blank("10.3") == GS_OK;
    /* end of task 10.3 */
}

uint16_t to_f16(float f) {
    uint32_t bits = bits_of(f), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    /* task 10.4: `size` is |f|. Four cases: NaN; 2^16 or more, infinity too, becomes infinity (0x7c00); a number below
     * 2^-14 becomes a whole number of 2^-24, rounded to nearest even; for all others, the exponent counts from 15
     * instead of 127, and 13 bits of the fraction are rounded off as in 10.3 (65520 to 65535 carry to infinity). */
    (void)sign, (void)size, (void)float_of;
    return lab_blank("10.4") == GS_OK;
    /* end of task 10.4 */
}
