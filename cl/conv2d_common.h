/* The convolution algorithms from which conv2d.c chooses, and what they share. */
#pragma once

#include "cl/cl.h"

/* Whether the results must have the bits of the plain loops even where that takes longer. */
static inline bool gs_cl_is_exact(const gs_device *d) {
    return d->exact && d->precision == GS_PRECISION_F32;
}

/* The number of chunks of images whose sums dw adds up, with `floats` floats each (src/conv2d_order.h). Unless the bits
 * must be exact, there are several chunks per core, as long as their sums fit in the device's memory. */
size_t gs_cl_conv2d_chunks(gs_device *, const gs_conv2d_sizes *, size_t n, size_t floats);

/* How many chunks to process at once, if `copied` elements of each image are copied to 16 bits; and the end of a range
 * of chunks, at `end` or later, so that the next image is an even one (gs_cl_sample). */
size_t gs_cl_conv2d_at_once(gs_device *, size_t n, size_t chunks, size_t copied);
size_t gs_cl_conv2d_end(size_t n, size_t chunks, size_t end);

/* *table = `count` ints that `fill` computes from the sizes: created once for each set of sizes, and kept until the
 * device is closed. */
gs_status gs_cl_conv2d_table(gs_device *, const gs_conv2d_sizes *, size_t count,
                             void (*fill)(const gs_conv2d_sizes *, cl_int *table), gs_mem *table);

/* Adds up the `groups` groups of images whose sums are in part (group, out_c, inputs): dw = the total. If db
 * is not GS_NONE, part has one more column, whose total is db. With `add`, += replaces =. `file` is the program that
 * contains the kernel (conv2d_sum.clh). */
gs_status gs_cl_conv2d_weights_sum(gs_device *, const char *file, gs_mem dw, gs_mem db, gs_mem part,
                                   size_t groups, size_t out_c, size_t inputs, bool add);

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

/* 3x3 kernels with stride 1 in fewer multiplications (winograd.cl). gs_cl_winograd_pays: true if that is possible and
 * faster, or if exact bits need it. Backward has no epilogue, and rounds x, dy and w itself; _dx: without dw. */
bool gs_cl_winograd_pays(gs_device *, const gs_conv2d_sizes *);
gs_status gs_cl_winograd_forward(gs_device *, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n,
                                 const gs_conv2d_sizes *, const gs_epilogue *);
gs_status gs_cl_winograd_backward(gs_device *, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x, gs_mem w,
                                  size_t n, const gs_conv2d_sizes *, bool add);
gs_status gs_cl_winograd_dx(gs_device *, gs_mem dx, gs_mem dy, gs_mem w, size_t n, const gs_conv2d_sizes *);

/* For all shapes and devices: dw and db, of which one may be GS_NONE, in the order of conv2d_order.h. */
gs_status gs_cl_conv2d_weights_in_order(gs_device *, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x, size_t n,
                                        const gs_conv2d_sizes *, bool add);

/* With groups or dilation (gs_conv2d_is_grouped), without an epilogue. */
gs_status gs_cl_conv2d_groups_forward(gs_device *, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n,
                                      const gs_conv2d_sizes *);
gs_status gs_cl_conv2d_groups_backward(gs_device *, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                       gs_mem w, size_t n, const gs_conv2d_sizes *, bool add);
