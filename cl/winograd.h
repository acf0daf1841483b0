/* Convolution on a CPU with kernels of 3x3 and stride 1 in fewer multiplications: winograd.cl. */
#pragma once

#include "cl/cl.h"

/* Can it, and does it pay? */
bool gs_cl_winograd_pays(gs_device *, const gs_conv2d_sizes *);

/* n > 0 images; otherwise as in backend.h. Backward has no bias and no epilogue, and rounds x, dy and
 * w itself. */
gs_status gs_cl_winograd_forward(gs_device *, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n,
                                 const gs_conv2d_sizes *, const gs_epilogue *);
gs_status gs_cl_winograd_backward(gs_device *, gs_mem dx, gs_mem dw, gs_mem dy, gs_mem x, gs_mem w, size_t n,
                                  const gs_conv2d_sizes *, bool add);
