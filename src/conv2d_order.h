/* In which order convolution adds up. All rules depend on the sizes alone, so that every device computes the same bits:
 * the plain loops (cpu/plain/conv2d.c) define the sums, and the backends' kernels have their bits. */
#pragma once

#include "core/shard.h"
#include "operands.h"

/* The number of rows of tiles of 2x2 outputs that share a vector of `lanes` tiles. */
static inline int gs_winograd_share(int tiles, int lanes) {
    return 4 * tiles <= lanes ? 4 : 2 * tiles <= lanes ? 2 : 1;
}

/* True if y and dx are computed in fewer multiplications (cpu/winograd.h): where this is faster, that is, if sums are
 * few compared with products, and if tiles use most of 16 lanes. */
static inline bool gs_winograd_pays(const gs_conv2d_sizes *s) {
    enum { LANES = 16 };
    const int tiles = (s->out_w + 1) / 2, lanes = LANES / gs_winograd_share(tiles, LANES);
    return !gs_conv2d_is_grouped(s) && s->kernel_h == 3 && s->kernel_w == 3 && s->stride_h == 1 &&
           s->stride_w == 1 && s->pad_h <= 2 && s->pad_w <= 2 && s->in_c >= 16 && s->out_c >= 16 &&
           4 * tiles >= 3 * ((tiles + lanes - 1) / lanes * lanes);
}

/* True if dw is, too. */
static inline bool gs_winograd_dw_pays(const gs_conv2d_sizes *s) {
    return gs_winograd_pays(s) && s->in_c % 16 == 0 && s->out_c % 16 == 0;
}

/* dx is then itself such a convolution, of dy, with the kernels rotated by 180 degrees. */
static inline gs_conv2d_sizes gs_winograd_back(const gs_conv2d_sizes *s) {
    return (gs_conv2d_sizes){.in_c = s->out_c,
                             .in_h = s->out_h,
                             .in_w = s->out_w,
                             .out_c = s->in_c,
                             .out_h = s->in_h,
                             .out_w = s->in_w,
                             .pad_h = 2 - s->pad_h,
                             .pad_w = 2 - s->pad_w};
}

/* Then dw adds blocks of tiles: this many images, or rows of tiles of one image. Tiles are 16 numbers for each
 * channel; a block's are about CACHED floats, which stay in a core's L2 cache. With fewer than LEAST tiles, products
 * do not pay. */
typedef struct gs_winograd_order {
    int images, rows;
} gs_winograd_order;

static inline gs_winograd_order gs_winograd_order_of(const gs_conv2d_sizes *s) {
    enum { CACHED = 128 << 10, LEAST = 64 };
    const int fit = CACHED / 16 / (s->in_c + s->out_c), columns = (s->out_w + 1) / 2,
              rows = (s->out_h + 1) / 2;
    const int most = (fit > LEAST ? fit : LEAST) / columns, blocks = most > 0 ? (rows - 1) / most + 1 : rows;
    return (gs_winograd_order){blocks > 1 ? 1 : most / rows, (rows - 1) / blocks + 1};
}

/* dw and db add up the sums of this many chunks of images, a power of two: chunk c is the images from n c / chunks to n
 * (c + 1) / chunks - 1. Threads share the chunks, whose sums take memory and time: a chunk has at least SHORT positions
 * of y. */
static inline size_t gs_conv2d_chunks(const gs_conv2d_sizes *s, size_t n) {
    enum { MOST = 16, SHORT = 4096 };
    const size_t positions = n * (size_t)s->out_h * (size_t)s->out_w;
    size_t chunks = 1;
    while (chunks < MOST && 2 * chunks <= n && 2 * chunks * SHORT <= positions) chunks *= 2;
    return chunks;
}

/* Each sum of dw in a chunk: from +0 on it adds blocks, in order. A block is `images` images (the last ones of a chunk
 * may be fewer), or `positions` positions of one image where there are more. In a block, position (r, s) of y is added
 * by lane (r pitch + s) mod `lanes`, a chain of fma from +0; then lane j += lane j + h, for h = lanes / 2, ..., 2, 1.
 * db has such a sum, with 1 for x. */
enum { GS_CONV2D_LANES = 16 };

typedef struct gs_conv2d_order {
    int lanes, images, positions, pitch;
} gs_conv2d_order;

/* The length of a row that has room for all windows and all pixels, even those that no window covers. */
static inline int gs_conv2d_grid(int out, int in, int kernel, int dilation, int stride, int pad) {
    const int windows = out + (kernel - 1) * dilation / stride, pixels = (in - 1 + pad) / stride + 1;
    return windows > pixels ? windows : pixels;
}

/* With many weights, the lanes of vectors are output channels, and each weight is a chain. With groups or dilation, the
 * rows of y are as long as the grid's; but if they would waste much of it and nothing by themselves, they are as they
 * are, and so is each image. */
static inline gs_conv2d_order gs_conv2d_order_of(const gs_conv2d_sizes *sizes) {
    enum { LONG = 512, CHAIN = 256 };
    const gs_conv2d_sizes full = gs_conv2d_full(sizes), *s = &full;
    const int all = s->out_h * s->out_w, images = (LONG - 1) / all + 1;
    const int grid_w = gs_conv2d_grid(s->out_w, s->in_w, s->kernel_w, s->dilation_w, s->stride_w, s->pad_w);
    if (gs_conv2d_is_grouped(s) && (s->out_w % GS_CONV2D_LANES != 0 || 16 * (grid_w - s->out_w) <= s->out_w))
        return (gs_conv2d_order){GS_CONV2D_LANES, images, all, grid_w};
    if (gs_conv2d_is_grouped(s)) return (gs_conv2d_order){GS_CONV2D_LANES, 1, all, s->out_w};
    if (s->out_c >= 16 && s->in_c * s->kernel_h * s->kernel_w >= 64)
        return (gs_conv2d_order){1, all < CHAIN ? CHAIN / all : 1, CHAIN, s->out_w};
    return (gs_conv2d_order){GS_CONV2D_LANES, images, all, s->out_w};
}

/* db has lanes, and blocks of one image. */
static inline gs_conv2d_order gs_conv2d_order_of_db(const gs_conv2d_sizes *s) {
    return (gs_conv2d_order){GS_CONV2D_LANES, 1, s->out_h * s->out_w, s->out_w};
}
