/* Sums in 32 lanes, by vectors; cpu/plain/plain.h defines their order. */
#pragma once

#include "cpu/product.h"

enum { GS_SUM_LANES = 32, GS_SUM_LINES = GS_SUM_LANES / GS_VECTOR };

typedef struct gs_lanes {
    gs_vector line[GS_SUM_LINES];
} gs_lanes;

ALWAYS_INLINE float gs_sum_of_lanes(const gs_lanes *lanes) {
    gs_lanes v = *lanes;
    UNROLL for (int h = GS_SUM_LINES / 2; h > 0; h /= 2) UNROLL for (int i = 0; i < h; i++) v.line[i] +=
        v.line[i + h];
    union {
        gs_vector v;
        gs_float4 four[GS_VECTOR / 4];
    } part = {v.line[0]};
    UNROLL for (int h = GS_VECTOR / 8; h > 0; h /= 2) UNROLL for (int i = 0; i < h; i++) part.four[i] +=
        part.four[i + h];
    return (part.four[0][0] + part.four[0][2]) + (part.four[0][1] + part.four[0][3]);
}

/* The first `count` elements of x, or `count` times a number, then zeros; without branches where there are masks */
ALWAYS_INLINE gs_vector gs_load_first(const float *x, int count) {
    float v[GS_VECTOR];
    if (count >= GS_VECTOR) return gs_load(x);
    _Pragma("GCC unroll 1") for (int j = 0; j < GS_VECTOR; j++) v[j] = j < count ? x[j] : 0;
    return gs_load(v);
}

ALWAYS_INLINE gs_vector gs_fill_first(float x, int count) {
    float v[GS_VECTOR];
    _Pragma("GCC unroll 1") for (int j = 0; j < GS_VECTOR; j++) v[j] = j < count ? x : 0;
    return gs_load(v);
}

/* ADD(l, k, left) for each vector of a row of `count` elements: its line, its first element, and how many elements are
 * left from there on. In the first loop `left` is a constant. */
#define GS_EACH_LINE(count, ADD)                                                                             \
    do {                                                                                                     \
        size_t k = 0;                                                                                        \
        for (; k + GS_SUM_LANES <= (count); k += GS_SUM_LANES)                                               \
            UNROLL for (int l = 0; l < GS_SUM_LINES; l++) ADD(l, k + l * GS_VECTOR, GS_VECTOR);              \
        UNROLL for (int l = 0; l < GS_SUM_LINES; l++) if (k + l * GS_VECTOR < (count))                       \
            ADD(l, k + l * GS_VECTOR, (int)((count)-k) - l * GS_VECTOR);                                     \
    } while (0)

/* Add a vector's terms by and by (x - middle), where `by` is dy or, without dy, x - middle. */
ALWAYS_INLINE void gs_add_deviations(gs_lanes *a, gs_lanes *b, int l, const float *x, const float *dy,
                                     float middle, int left) {
    const gs_vector off = gs_load_first(x, left) - gs_fill_first(middle, left);
    const gs_vector by = dy ? gs_load_first(dy, left) : off;
    a->line[l] += by;
    b->line[l] += by * off;
}

/* The sum of x - middle over `count` elements. */
#define ADD(l, k, left) gs_add_deviations(&sum, &unused, l, x + (k), NULL, middle, left)
ALWAYS_INLINE float gs_sum_around(const float *x, size_t count, float middle) {
    gs_lanes sum = {0}, unused = {0};
    GS_EACH_LINE(count, ADD);
    return gs_sum_of_lanes(&sum);
}
#undef ADD
