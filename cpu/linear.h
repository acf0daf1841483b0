/* Two ways through a linear layer; linear.c chooses.
 *
 *     linear.c         OpenBLAS. Its products copy both matrices first, into the order in which they will be read.
 *     linear_small.c   products of our own, which read the weights where they lie: faster where the batch is so small
 *                      that each weight is used only a few times, as with the 64 samples of one of two workers.
 */
#pragma once

#include "cpu/cpu.h"

/* Where linear_small.c is the faster way. On one core of a Xeon (AVX-512), forward took 0.4 to 0.9 of OpenBLAS's time
 * for 16 to 128 samples and layers of 64 to 1024 inputs and 64 to 1024 outputs, backward 0.8 to 1.15; with 256 samples
 * both were equal, with 512 OpenBLAS was ahead. For 2048 or 4096 inputs and as many outputs all took 0.87 to 0.95 of
 * its time, on two cores 0.76 to 0.87; but with 3136 inputs and 128 outputs, where x is larger than w, OpenBLAS was
 * ahead. Narrow layers fill no tile; and without AVX-512 OpenBLAS's kernels, written by hand, are ahead. */
static inline bool gs_linear_is_small(size_t n, int in, int out) {
#if defined(__AVX512F__)
    return n <= 128 && out >= 64 && (in <= 1024 || out >= 1024);
#else
    (void)n, (void)in, (void)out;
    return false;
#endif
}

/* relu: y = max(y, 0). relu_y: the y of the layer and its relu, dy counts where it is above 0; GS_NONE: everywhere. The
 * rest as in backend.h. */
gs_status GS_ISA(linear_small_forward)(gs_device *, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n, int in,
                                       int out, bool relu);
gs_status GS_ISA(linear_small_backward)(gs_device *, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy,
                                        gs_mem relu_y, gs_mem x, gs_mem w, size_t n, int in, int out,
                                        bool add);
