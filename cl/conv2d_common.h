/* What both ways to compute a convolution use: conv2d.c on a GPU, conv2d_rows.c on a CPU. */
#pragma once

#include "cl/cl.h"

/* *table = `count` ints that follow from the sizes alone, as `fill` writes them: made once for each sizes, and kept
 * until the device is closed. */
gs_status gs_cl_conv2d_table(gs_device *, const gs_conv2d_sizes *, size_t count,
                             void (*fill)(const gs_conv2d_sizes *, cl_int *table), gs_mem *table);

/* dw = the sums of `groups` groups of images in part (group, out_c, inputs of one output), and db = those in the column
 * behind them, unless db is GS_NONE: then there is none. With `add` they are added to dw and db. `file` is the program
 * that has the kernel (conv2d_sum.clh). */
gs_status gs_cl_conv2d_weights_sum(gs_device *, const char *file, gs_mem dw, gs_mem db, gs_mem part,
                                   size_t groups, const gs_conv2d_sizes *, bool add);
