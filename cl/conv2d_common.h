/* The algorithms for a convolution, among which conv2d.c chooses, and what they share. */
#pragma once

#include "cl/cl.h"

/* *table = `count` ints that `fill` computes from the sizes: made once for each sizes, and kept until the device is
 * closed. */
gs_status gs_cl_conv2d_table(gs_device *, const gs_conv2d_sizes *, size_t count,
                             void (*fill)(const gs_conv2d_sizes *, cl_int *table), gs_mem *table);

/* dw = the sums of `groups` groups of images in part (group, out_c, inputs of one output); db = those of the column
 * behind them, unless db is GS_NONE: then that column is missing. With `add`, += for both. `file` is the program that
 * has the kernel (conv2d_sum.clh). */
gs_status gs_cl_conv2d_weights_sum(gs_device *, const char *file, gs_mem dw, gs_mem db, gs_mem part,
                                   size_t groups, const gs_conv2d_sizes *, bool add);

/* *groups = the work-groups that share `tasks` tasks, of `memory` floats each: one for each core, or fewer if there are
 * fewer tasks or too little memory. GS_E_MEMORY: not even one fits. */
gs_status gs_cl_conv2d_sharers(gs_device *, const gs_conv2d_sizes *, size_t tasks, size_t memory,
                               size_t *groups);

/* ---- n > 0 images, but of groups; otherwise as in backend.h ---- */

/* On a CPU. x, dy and w as stored: backward rounds them. */
gs_status gs_cl_conv2d_rows_forward(gs_device *, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n,
                                    const gs_conv2d_sizes *, const gs_epilogue *);
gs_status gs_cl_conv2d_rows_backward(gs_device *, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                     gs_mem w, size_t n, const gs_conv2d_sizes *, bool add,
                                     const gs_epilogue *);

/* On a CPU, kernels of 3x3 and stride 1 in fewer multiplications (winograd.cl): possible, and faster? Backward has no
 * bias and no epilogue, and rounds x, dy and w itself. */
bool gs_cl_winograd_pays(gs_device *, const gs_conv2d_sizes *);
gs_status gs_cl_winograd_forward(gs_device *, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n,
                                 const gs_conv2d_sizes *, const gs_epilogue *);
gs_status gs_cl_winograd_backward(gs_device *, gs_mem dx, gs_mem dw, gs_mem dy, gs_mem x, gs_mem w, size_t n,
                                  const gs_conv2d_sizes *, bool add);

/* With groups or dilation (gs_conv2d_is_grouped). No epilogue. */
gs_status gs_cl_conv2d_groups_forward(gs_device *, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n,
                                      const gs_conv2d_sizes *);
gs_status gs_cl_conv2d_groups_backward(gs_device *, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                       gs_mem w, size_t n, const gs_conv2d_sizes *, bool add);
