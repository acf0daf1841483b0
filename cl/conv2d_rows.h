/* Convolution on a CPU. */
#pragma once

#include "cl/cl.h"

/* n > 0 images; otherwise as in backend.h. */
gs_status gs_cl_conv2d_rows_forward(gs_device *, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n,
                                    const gs_conv2d_sizes *, const gs_epilogue *);
/* x, dy and w as they are stored: it rounds them. */
gs_status gs_cl_conv2d_rows_backward(gs_device *, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                     gs_mem w, size_t n, const gs_conv2d_sizes *, bool add,
                                     const gs_epilogue *);
