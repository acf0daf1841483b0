/* Six algorithms for a linear layer, from which linear.c chooses. (A seventh, linear_tree.c, has its own operators in
 * backend.h.)
 *
 *     linear.c         OpenBLAS. It first copies both matrices into the order in which it will read them.
 *     linear_small.c   our own products, which read the weights in place: faster where the batch is so small
 *                      that each weight is used only a few times, as with the 64 samples of one of two workers.
 *     linear_large.c   the same products in another order, for more samples, such as the tokens of sequences.
 *     linear_one.c     forward of one sample, or of one token: each weight is used once.
 *     linear_leaves.c  backward with dw and db as sums over leaves, for --exact.
 *     linear_16.c      16-bit products, if the device's precision is 16-bit. */
#pragma once

#include "cpu/cpu.h"

/* A layer's arrays and sizes, as in backend.h; NULL: the operator has no such array. */
typedef struct gs_linear_task {
    float *y, *dx, *dw, *db;
    const float *x, *w, *b, *dy;
    /* The y of a fused relu: in backward, dy counts only where relu_y is positive; NULL: dy counts everywhere. */
    const float *relu_y;
    bool relu; /* forward: y = max(y, 0) */
    bool add;  /* backward: add to dw and db */
    int n, in, out;
} gs_linear_task;

/* True if linear_large.c computes the layer, else linear_small.c. */
static inline bool gs_linear_is_large(size_t n, int in, int out) {
    return n > 128 && in >= 64 && out >= 64 && in <= 1024 && out <= 1024 && in * out <= 1 << 19 &&
           in % 16 == 0 && out % 16 == 0;
}

/* True if these two are at least as fast as OpenBLAS. On one core of a Xeon (AVX-512), with 16 to 128 samples, forward
 * of linear_small.c took 0.4 to 0.9 of OpenBLAS's time, and backward 0.8 to 1.15; with 3136 inputs and 128 outputs,
 * where x is larger than w, OpenBLAS was ahead. With AVX2 the times were 0.93 to 1.03 of OpenBLAS's, and 1.1 for 1024
 * samples and 1024 -> 1024. On one core of an EPYC (Zen 4, peak 116 GFLOP/s), with 144 to 1024 samples, linear_large.c
 * ran at 100 to 114 GFLOP/s (OpenBLAS: 101 to 105); where dw is larger than the L2 cache, computing dw fell to 73. */
static inline bool gs_linear_is_ours(size_t n, int in, int out) {
#if defined(__AVX512F__)
    return gs_linear_is_large(n, in, out) || (n <= 128 && out >= 64 && (in <= 1024 || out >= 1024));
#else
    (void)n, (void)in, (void)out;
    return false;
#endif
}

/* For n = 1; bitwise identical for any number of threads. */
gs_status GS_ISA(gs_cpu_linear_one_forward)(gs_device *, const gs_linear_task *);

/* dx by the other algorithms; dw and db as sums over leaves; n > 0. */
gs_status GS_ISA(gs_cpu_linear_leaves)(gs_device *, const gs_linear_task *, gs_mem dx, gs_mem w,
                                       const gs_leaves *);

/* For at most GS_BLOCK samples. In backward without dw (NULL), here and in linear_large.c, only dx is computed. */
gs_status GS_ISA(gs_cpu_linear_small_forward)(gs_device *, const gs_linear_task *);
gs_status GS_ISA(gs_cpu_linear_small_backward)(gs_device *, const gs_linear_task *);
gs_status GS_ISA(gs_cpu_linear_large_forward)(gs_device *, const gs_linear_task *);
gs_status GS_ISA(gs_cpu_linear_large_backward)(gs_device *, const gs_linear_task *);

/* Backward's first pass: db, computed from dy rounded to the device's precision. With relu_y, the masked dy is stored
 * in `passed` (n, out), which replaces dy. In linear.c. */
void GS_ISA(gs_cpu_linear_dy)(gs_device *, gs_linear_task *, float *passed);

/* For any n. */
gs_status GS_ISA(gs_cpu_linear_16_forward)(gs_device *, const gs_linear_task *);
gs_status GS_ISA(gs_cpu_linear_16_backward)(gs_device *, const gs_linear_task *);
