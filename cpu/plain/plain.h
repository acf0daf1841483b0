/* The plain loops: each operator written like its formula in backend.h, in about ten lines, with nothing done for
 * speed: one thread, nothing fused, compiled once for the most basic processor.
 *
 * Read cpu/plain/conv2d.c before cpu/conv2d.c, which computes the same results. The plain loops are used
 *   - by the tests, as a second opinion on every operator of cpu/ and cl/ (tests/operators/test_operators_plain.c);
 *   - by `gradsum profile --plain`, which shows layer by layer what the rest of cpu/ gains.
 *
 * They have their own folder because the files they explain are compiled several times, and some are close to the limit
 * on file length; and here they can be read in one go. element_wise.c: tanh, gelu and others. dropout and one_hot are
 * missing: in cpu/dropout.c and cpu/data.c they are plain loops already.
 *
 * A function receives memory (x_, w_) and first gives it a shape, so that x[i][k] means the same as in the formula. n
 * is the number of samples. */
#pragma once

#include "cpu/cpu.h"

#include <math.h>

/* gs_plain_sigmoid_forward and so on; gs_cpu_plain (backend.h) puts them all into a table of the cpu backend. */
#define GS_DECLARE(name) GS_OPERATOR(name) gs_plain_##name;
GS_PLAIN_OPERATORS(GS_DECLARE)
#undef GS_DECLARE

/* The order of a sum of many terms: term k is added to lane k mod 32; then lane j + h is added to lane j, j < h, for
 * h = 16, 8, 4, 2, 1. Lanes start at +0. Vectors of 4, 8 or 16 floats and 32 work-items can all follow it. */
enum { GS_SUM_LANES = 32 };

static inline float gs_sum_of_lanes(float *lane) {
    for (int h = GS_SUM_LANES / 2; h > 0; h /= 2)
        for (int j = 0; j < h; j++) lane[j] += lane[j + h];
    return lane[0];
}

/* The address of the memory, for a pointer with a shape; NULL for GS_NONE. */
static inline void *gs_plain_at(gs_mem m) {
    return gs_cpu_floats(m);
}

/* The order of a product's sum: blocks of 256 terms, each a chain of fused multiply-adds; the blocks are added in
 * order. sum_k a[k a_step] b[k b_step], k < terms */
static inline float gs_plain_product(const float *a, size_t a_step, const float *b, size_t b_step,
                                     size_t terms) {
    float sum = 0;
    for (size_t first = 0; first < terms; first += 256) {
        float s = 0;
        for (size_t k = first; k < terms && k < first + 256; k++) s = fmaf(a[k * a_step], b[k * b_step], s);
        sum = first == 0 ? s : sum + s;
    }
    return sum;
}

/* conv2d where gs_winograd_pays (conv2d_order.h), with the sums of cpu/winograd.h. Forward or, `turned` and with sizes
 * to match, dx: there w is (in_c, out_c, 3, 3), and each kernel is rotated by 180 degrees. */
void gs_plain_winograd(const gs_conv2d_sizes *, float *y, const float *x, const float *w, const float *b,
                       size_t n, bool turned);
/* dw += its gradient, where gs_winograd_dw_pays. */
void gs_plain_winograd_dw(const gs_conv2d_sizes *, float *dw, const float *dy, const float *x, size_t n);
