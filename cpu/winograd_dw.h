/* The backward of a convolution with kernels of 3x3 and stride 1 in fewer multiplications: see winograd.h for the
 * forward and its matrices A, B and G. dx is such a convolution itself. For dw, of y = A^T (u v) A, u = G g G^T:
 *
 *     v = B^T d B       as in forward
 *     n = A dy A^T      2x2 numbers of dy become 16
 *     du = n v          place by place, summed over all tiles: for each of the 16 places a product of a matrix
 *                       (out_c, tiles) with a matrix (tiles, in_c)
 *     dg = G^T du G     once, at the end
 *
 * Here the lanes of a vector are channels: both numbers of channels are multiples of GS_VECTOR.
 */
#pragma once

#include "cpu/winograd.h"

/* There must be no bias and nothing fused: both would need another pass over dy. */
static inline bool gs_winograd_backward_pays(const gs_conv2d_sizes *s, bool bias, const gs_epilogue *e) {
    return !bias && !e->relu && !e->pool && gs_winograd_pays(s) && s->in_c % GS_VECTOR == 0 &&
           s->out_c % GS_VECTOR == 0;
}

/* conv2d_backward (backend.h) without db; dw holds what is to be added to. n > 0; dx may be NULL. */
gs_status GS_ISA(gs_cpu_winograd_backward)(gs_device *d, float *dx, float *dw, const float *dy,
                                           const float *x, const float *w, size_t n,
                                           const gs_conv2d_sizes *s);
