/* The convolution algorithms from which conv2d.c chooses, and what they share. */
#pragma once

#include "cl/cl.h"

/* *table = `count` ints that `fill` computes from the sizes: created once for each set of sizes, and kept until the
 * device is closed. */
gs_status gs_cl_conv2d_table(gs_device *, const gs_conv2d_sizes *, size_t count,
                             void (*fill)(const gs_conv2d_sizes *, cl_int *table), gs_mem *table);

/* Adds up the `groups` groups of images whose sums are in part (group, out_c, inputs per output): dw = the total. If db
 * is not GS_NONE, part has one more column, whose total is db. With `add`, += replaces =. `file` is the program that
 * contains the kernel (conv2d_sum.clh). */
gs_status gs_cl_conv2d_weights_sum(gs_device *, const char *file, gs_mem dw, gs_mem db, gs_mem part,
                                   size_t groups, const gs_conv2d_sizes *, bool add);

/* *groups = the number of work-groups, each with `memory` floats, that share `tasks` tasks: one per core, or fewer if
 * there are fewer tasks or too little memory. GS_E_MEMORY: there is not enough memory for even one. */
gs_status gs_cl_conv2d_sharers(gs_device *, const gs_conv2d_sizes *, size_t tasks, size_t memory,
                               size_t *groups);

/* ---- as in backend.h, but n > 0; only the last two functions support groups or dilation ---- */

/* On a CPU. x, dy and w are passed as stored: backward rounds them. */
gs_status gs_cl_conv2d_rows_forward(gs_device *, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n,
                                    const gs_conv2d_sizes *, const gs_epilogue *);
gs_status gs_cl_conv2d_rows_backward(gs_device *, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                     gs_mem w, size_t n, const gs_conv2d_sizes *, bool add,
                                     const gs_epilogue *);

/* On a CPU, 3x3 kernels with stride 1 in fewer multiplications (winograd.cl). gs_cl_winograd_pays: true if that is
 * possible and faster. Backward has no bias or epilogue, and rounds x, dy and w itself. */
bool gs_cl_winograd_pays(gs_device *, const gs_conv2d_sizes *);
gs_status gs_cl_winograd_forward(gs_device *, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n,
                                 const gs_conv2d_sizes *, const gs_epilogue *);
gs_status gs_cl_winograd_backward(gs_device *, gs_mem dx, gs_mem dw, gs_mem dy, gs_mem x, gs_mem w, size_t n,
                                  const gs_conv2d_sizes *, bool add);

/* With groups or dilation (gs_conv2d_is_grouped), without an epilogue. */
gs_status gs_cl_conv2d_groups_forward(gs_device *, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n,
                                      const gs_conv2d_sizes *);
gs_status gs_cl_conv2d_groups_backward(gs_device *, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                       gs_mem w, size_t n, const gs_conv2d_sizes *, bool add);
