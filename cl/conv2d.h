/* What the two ways to compute a convolution have in common: conv2d.c, and conv2d_rows.c for CPUs. */
#ifndef GS_CL_CONV2D_H
#define GS_CL_CONV2D_H

#include "cl/cl.h"

/* n > 0 images, on a CPU; otherwise as in backend.h. index: that of the max pooling which follows relu, or GS_NONE */
gs_status gs_cl_conv2d_rows_forward(gs_device *, gs_mem y, gs_mem index, gs_mem x, gs_mem w, gs_mem b,
                                    size_t n, const gs_conv2d_sizes *, bool relu);
/* relu_y: the y, pooled where there is an index, of the relu that lets dy pass, or GS_NONE */
gs_status gs_cl_conv2d_rows_backward(gs_device *, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem relu_y,
                                     gs_mem index, gs_mem x, gs_mem w, size_t n, const gs_conv2d_sizes *,
                                     bool add);

/* *table = `count` ints that follow from the sizes alone, as `fill` writes them: made once for each sizes, and kept until
 * the device is closed. */
gs_status gs_cl_conv2d_table(gs_device *, const gs_conv2d_sizes *, size_t count,
                             void (*fill)(const gs_conv2d_sizes *, cl_int *table), gs_mem *table);

/* dw = the sums of `groups` groups of images in part (group, out_c, inputs of one output), and db = those in the column
 * behind them, unless db is GS_NONE: then there is none. With `add` they are added to dw and db. `file` is the program that
 * has the kernel (conv2d_sum.clh). */
gs_status gs_cl_conv2d_weights_sum(gs_device *, const char *file, gs_mem dw, gs_mem db, gs_mem part,
                                   size_t groups, const gs_conv2d_sizes *, bool add);

#endif
