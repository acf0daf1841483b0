/* Shared by softmax_cross_entropy.c and softmax_part.c. */
#pragma once

#include "core/functions.h"
#include "cpu/sums.h"

/* p = exp(x - top); returns the sum. Sixteen at a time; a shorter last group is filled with exp(-infinity) = 0. */
static inline float gs_exponentials_of(float *restrict p, const float *restrict x, size_t classes,
                                       float top) {
    enum { SIDE = 16 };
    float lane[GS_SUM_LANES] = {0}, last[SIDE];
    size_t k = 0;
    for (; k + SIDE <= classes; k += SIDE) {
        float *half = lane + k % GS_SUM_LANES;
        for (size_t j = 0; j < SIDE; j++) half[j] += p[k + j] = gs_exp(x[k + j] - top);
    }
    if (k < classes) {
        float *half = lane + k % GS_SUM_LANES;
        for (size_t j = 0; j < SIDE; j++) last[j] = -INFINITY;
        memcpy(last, x + k, (classes - k) * sizeof *x);
        for (size_t j = 0; j < SIDE; j++) half[j] += last[j] = gs_exp(last[j] - top);
        memcpy(p + k, last, (classes - k) * sizeof *p);
    }
    return gs_sum_around(lane, GS_SUM_LANES, 0);
}
