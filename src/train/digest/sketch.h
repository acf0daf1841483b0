/* A sketch: a few numbers that represent a large array, so that runs can be compared without storing their arrays.
 *
 *     n           the number of elements x[i]
 *     sum         sum x[i]
 *     squares     sum x[i]^2
 *     along[k]    sum w_k(i) x[i];  w_k(i) looks random, and depends only on k and the position i; k = 0 .. 3
 *     bits        sum h(i, bits of x[i]), modulo 2^64; h looks random: equal sums mean equal arrays, to the bit
 *
 * All are sums: the sketches of parts (ranks, micro-batches) add up to the sketch of the whole array, if `i` is the
 * position in the whole. `along` and `sum` are linear: equations between arrays, such as dw = dw_0 + dw_1 or
 * v = 0.9 v + g, also hold for the sketches, and can be tested on them. `bits` says nothing about sums or multiples.
 *
 * The weights are 2^16 values, evenly spaced and equally likely, from -c to c = 111/64, about sqrt(3). Their mean is 0,
 * and their variance c^2 / 3 = 1.003. If an array changes by d, the mean of (w_k d)^2 is about |d|^2 (Johnson,
 * Lindenstrauss, 1984). For any d, |w_k d| is at most c |d|_1, and the probability that it exceeds t |d| is below
 * 2 exp(-t^2 / 2.01). Nothing more is required of the weights (J. Matousek, "On variants of the Johnson-Lindenstrauss
 * lemma", Random Structures and Algorithms 33(2), 2008).
 *
 * Weights of 1 and -1 have these properties too (D. Achlioptas, "Database-friendly random projections", 2001), but four
 * such sums miss some d. Often d is nonzero at just two positions: a max_pool2d that takes i instead of j changes dx by
 * g at i and by -g at j, and so along[k] by g (w_k(i) - w_k(j)). With a probability of 1/16 the signs at both positions
 * are equal for all four k, and no sum changes. With evenly spaced weights this difference has a triangular density:
 *
 *     |w_k(i) - w_k(j)| <= e  with a probability of  1 - (1 - e / 2c)^2,  about e / c
 *
 * and |d| is sqrt(2) g. The probability that all four numbers change by less than a tenth of |d| is 4e-5; by less than
 * a fifth, 6e-4; by less than a quarter, 1.4e-3. A d with many nonzero positions has the same probabilities, because
 * w_k d is nearly normal. For a d with a single nonzero position, signs would show all of |d|; these weights show less
 * than a tenth of it with a probability of 1e-5, and less than a quarter with a probability of 4e-4.
 *
 * The weights are multiples of 2^-22, so their products with floats are exact in double, and so are sums of integers
 * (images, labels, masks), however a batch is divided. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { GS_ALONG = 4 };

#define GS_ALONG_MOST (111.0 / 64) /* maximum of |w| */

typedef struct gs_sketch {
    double n, sum, squares, along[GS_ALONG];
    uint64_t bits;
} gs_sketch;

/* The 64 bits derived from a position: 16 for each weight. The multipliers are odd and have random bits, as in
 * MurmurHash and splitmix64. */
static inline uint64_t gs_bits_of(uint64_t place) {
    uint64_t h = (place + 1) * 0x9E3779B97F4A7C15u;
    h = (h ^ h >> 32) * 0xD6E8FEB86659FD93u;
    h = (h ^ h >> 32) * 0xD6E8FEB86659FD93u;
    return h ^ h >> 32;
}

/* w_k at a position with these bits. */
static inline double gs_weight_of(uint64_t bits, int k) {
    const int sixteen = (int)(bits >> 16 * k & 0xFFFF);
    return (2 * sixteen - 0xFFFF) * (GS_ALONG_MOST / 0x10000);
}

/* h at a position with these bits, for element x; -0 counts as 0. */
static inline uint64_t gs_bits_with(uint64_t bits, float x) {
    uint32_t own;
    const float v = x + 0.0f;
    memcpy(&own, &v, sizeof own);
    const uint64_t h = (bits ^ own) * 0x9E3779B97F4A7C15u;
    return (h ^ h >> 32) * 0xD6E8FEB86659FD93u;
}

/* Add x[0 .. count-1], whose positions begin at `first`. */
static inline void gs_sketch_add(gs_sketch *to, const float *x, size_t count, uint64_t first) {
    for (size_t i = 0; i < count; i++) {
        const double v = (double)x[i];
        const uint64_t bits = gs_bits_of(first + i);
        to->bits += gs_bits_with(bits, x[i]);
        to->sum += v;
        to->squares += v * v;
        for (int k = 0; k < GS_ALONG; k++) to->along[k] += gs_weight_of(bits, k) * v;
    }
    to->n += (double)count;
}

/* to = the sketch of to + factor x. `squares` is only a bound; `bits` is valid only for disjoint parts (factor 1). */
static inline void gs_sketch_add_scaled(gs_sketch *to, double factor, const gs_sketch *x) {
    to->sum += factor * x->sum;
    to->squares += factor * factor * x->squares;
    for (int k = 0; k < GS_ALONG; k++) to->along[k] += factor * x->along[k];
    to->n += x->n;
    if (!(factor < 1)) to->bits += x->bits;
}
