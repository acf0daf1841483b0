/* A few numbers that stand for many: how two runs are compared without keeping what they computed.
 *
 *     n           how many numbers x[i] there are
 *     sum         sum x[i]
 *     squares     sum x[i]^2
 *     along[k]    sum s_k(i) x[i];  s_k(i) is 1 or -1, and follows from k and the place i alone; k = 0 .. 3
 *
 * All are sums, so those of parts (ranks, micro-batches) add up to those of the whole, if `i` is the place in the
 * whole. `along` and `sum` are linear: what holds for arrays, such as dw = dw_0 + dw_1 or v = 0.9 v + g, holds for
 * them, and can be tested on them. If a changes by d, along[k] changes by about |d|: each sign is as likely as the
 * other (Johnson and Lindenstrauss; the signs are those of Achlioptas, "Database-friendly random projections", 2001).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { GS_ALONG = 4 };

typedef struct gs_numbers {
    double n, sum, squares, along[GS_ALONG];
} gs_numbers;

/* Four signs of a place, as bits. The multipliers are those of MurmurHash's and splitmix64's kind: odd, and of random
 * bits. */
static inline unsigned gs_signs_of(uint64_t place) {
    uint64_t h = (place + 1) * 0x9E3779B97F4A7C15u;
    h = (h ^ h >> 32) * 0xD6E8FEB86659FD93u;
    h = (h ^ h >> 32) * 0xD6E8FEB86659FD93u;
    return (unsigned)(h >> 60);
}

/* Add x[0 .. count-1], which are at places from `first` on. */
static inline void gs_numbers_add(gs_numbers *to, const float *x, size_t count, uint64_t first) {
    for (size_t i = 0; i < count; i++) {
        const double v = (double)x[i];
        const unsigned signs = gs_signs_of(first + i);
        to->sum += v;
        to->squares += v * v;
        for (int k = 0; k < GS_ALONG; k++) to->along[k] += signs >> k & 1 ? v : -v;
    }
    to->n += (double)count;
}

/* to += factor x, as of arrays; squares are then a bound and not exact */
static inline void gs_numbers_add_scaled(gs_numbers *to, double factor, const gs_numbers *x) {
    to->sum += factor * x->sum;
    to->squares += factor * factor * x->squares;
    for (int k = 0; k < GS_ALONG; k++) to->along[k] += factor * x->along[k];
    to->n += x->n;
}
