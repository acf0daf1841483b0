/* Lesson 10: hiding the communication. tasks.h and README.md say what to write.
 *
 * This file takes the place of src/train/buckets.c and of src/sync/wire.c: `build/lessons/10/gradsum train --bucket 16
 * --wire bf16` cuts the gradients with gs_buckets_plan and rounds them with to_bf16. Here values are converted one by
 * one; src/sync/wire.c does the same for eight at a time. */
#include "tasks.h"

#include <math.h>
#include <string.h>

/* ---- buckets ---- */

int gs_buckets_plan(const size_t *layer, int layers, size_t count, size_t least, gs_bucket *bucket) {
    int buckets = 0;
    size_t end = count; /* of the bucket that is being filled */
    /* task 10.1: go from the last layer to the first. Where the elements from this layer on to `end` are enough
     * for a bucket, close it and begin the next one. What is left at layer[0] is the last bucket. Return how many
     * there are. */
    (void)layer, (void)layers, (void)least, (void)bucket, (void)end;
    lab_blank("10.1");
    bucket[buckets++] = (gs_bucket){0, count};
    return buckets;
    /* end of task 10.1 */
}

/* ---- accumulation ---- */

gs_status accumulate(const sample_set *s, size_t n, int passes, float *mean) {
    /* task 10.2: what add_gradient adds is a sum over samples. Let all passes add to the same array, and divide
     * once, at the end. */
    (void)s, (void)n, (void)passes, (void)mean;
    return lab_blank("10.2");
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

static uint16_t to_bf16(float f) {
    uint32_t bits = bits_of(f);
    /* task 10.3: the upper 16 bits, rounded by the lower ones: up if these are more than half (0x8000), down if
     * less, and if they are half exactly, so that the last bit of the result is 0. A carry into the exponent is
     * right. But a NaN (exponent all ones, fraction not 0) must stay one, whatever its bits are. */
    (void)bits;
    return lab_blank("10.3") == GS_OK;
    /* end of task 10.3 */
}

static uint16_t to_f16(float f) {
    uint32_t bits = bits_of(f), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    /* task 10.4: `size` is |f|. Four cases: NaN; what is 2^16 or more, infinity too, becomes infinity (0x7c00);
     * what is below 2^-14 becomes a whole number of 2^-24, rounded to nearest even; all else: the exponent
     * counts from 15 instead of 127, and 13 bits of the fraction are rounded off as in 10.3. */
    (void)sign, (void)size;
    return lab_blank("10.4") == GS_OK;
    /* end of task 10.4 */
}

/* ---- given: the way back, which is exact, and whole arrays ---- */

static float from_bf16(uint16_t h) {
    return float_of((uint32_t)h << 16);
}

static float from_f16(uint16_t h) {
    float sign = h & 0x8000 ? -1 : 1;
    int exponent = h >> 10 & 31, fraction = h & 0x3ff;
    if (exponent == 31) return fraction ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexpf((float)fraction, -24);
    return sign * ldexpf((float)(1024 + fraction), exponent - 25);
}

static uint16_t narrow(gs_wire wire, float f) {
    return wire == GS_WIRE_BF16 ? to_bf16(f) : to_f16(f);
}

static float widen(gs_wire wire, uint16_t h) {
    return wire == GS_WIRE_BF16 ? from_bf16(h) : from_f16(h);
}

void gs_wire_narrow(gs_wire wire, uint16_t *restrict to, float *restrict data, size_t count) {
    for (size_t i = 0; i < count; i++) data[i] = widen(wire, to[i] = narrow(wire, data[i]));
}

void gs_wire_widen(gs_wire wire, float *restrict to, const uint16_t *restrict from, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] = widen(wire, from[i]);
}

void gs_wire_widen_add(gs_wire wire, float *restrict sum, const uint16_t *restrict from, size_t count) {
    for (size_t i = 0; i < count; i++) sum[i] += widen(wire, from[i]);
}

static const char *const names[] = {"f32", "f16", "bf16"};

const char *gs_wire_name(gs_wire wire) {
    return names[wire];
}

gs_status gs_wire_find(const char *name, gs_wire *out) {
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) return *out = (gs_wire)i, GS_OK;
    return gs_fail(GS_E_USAGE, "unknown --wire '%s'; choose one of: f32, f16, bf16", name);
}
