/* Arguments of the operators in backend.h: memory on a device, and sizes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/scaling.h"
#include "core/shard.h"

/* Memory on a device: `at` elements of 4 bytes after the start of an allocation. `base` is the float pointer itself for
 * cpu, and the cl_mem for cl; only the backend looks inside. Passed by value. */
typedef struct gs_mem {
    void *base;
    size_t at;
    bool half; /* each element holds two 16-bit numbers (`narrow`) */
} gs_mem;

#define GS_NONE ((gs_mem){NULL, 0, false})

/* The memory `elements` elements further on. (One flat array holds the parameters of all layers.) */
static inline gs_mem gs_at(gs_mem m, size_t elements) {
    m.at += elements;
    return m;
}

/* The memory `numbers` numbers further on; `numbers` must be even if m is half. */
static inline gs_mem gs_at_number(gs_mem m, size_t numbers) {
    return gs_at(m, m.half ? numbers / 2 : numbers);
}

/* The bytes that `numbers` numbers take. */
static inline size_t gs_bytes_of(size_t numbers, bool half) {
    return numbers * (half ? sizeof(uint16_t) : sizeof(float));
}

/* The sizes of a 2-d convolution. x is (n, in_c, in_h, in_w), w is (out_c, in_c / groups, kernel_h, kernel_w), b is
 * (out_c), y is (n, out_c, out_h, out_w) with out = floor((in + 2 pad - dilation (kernel - 1) - 1) / stride) + 1. The
 * channels of x and of y are each cut into `groups` equal parts, and part g of y sees only part g of x. The pixels
 * under a kernel are `dilation` apart. The last three fields may be omitted: 0 means 1. */
typedef struct gs_conv2d_sizes {
    int in_c, in_h, in_w, out_c, out_h, out_w;
    int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
    int groups, dilation_h, dilation_w;
} gs_conv2d_sizes;

/* True if there are several groups, or gaps in the kernel. Backends have separate files for that. */
static inline bool gs_conv2d_is_grouped(const gs_conv2d_sizes *s) {
    return s->groups > 1 || s->dilation_h > 1 || s->dilation_w > 1;
}

/* The sizes with each 0 that means 1 replaced by 1. */
static inline gs_conv2d_sizes gs_conv2d_full(const gs_conv2d_sizes *s) {
    gs_conv2d_sizes full = *s;
    if (full.groups == 0) full.groups = 1;
    if (full.dilation_h == 0) full.dilation_h = 1;
    if (full.dilation_w == 0) full.dilation_w = 1;
    return full;
}

/* The sizes of a 2-d pooling; x is (n, c, in_h, in_w), y is (n, c, out_h, out_w), out as for convolution. */
typedef struct gs_pool2d_sizes {
    int c, in_h, in_w, out_h, out_w;
    int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
} gs_pool2d_sizes;

/* Floats in one image of x; in the weights; in one image of y, after the pooling if `pool` is not NULL. */
static inline size_t gs_conv2d_x(const gs_conv2d_sizes *s) {
    return (size_t)s->in_c * (size_t)s->in_h * (size_t)s->in_w;
}

static inline size_t gs_conv2d_w(const gs_conv2d_sizes *s) {
    const int in_c = s->in_c / gs_conv2d_full(s).groups;
    return (size_t)s->out_c * (size_t)in_c * (size_t)s->kernel_h * (size_t)s->kernel_w;
}

static inline size_t gs_conv2d_y(const gs_conv2d_sizes *s, const gs_pool2d_sizes *pool) {
    const int h = pool ? pool->out_h : s->out_h, w = pool ? pool->out_w : s->out_w;
    return (size_t)s->out_c * (size_t)h * (size_t)w;
}

/* Batch normalisation: x is (n, c, plane); a plane is the h w pixels of a channel, or 1 for vectors. */
typedef struct gs_batch_norm_sizes {
    int c, plane;
    float eps;      /* added to each variance */
    float momentum; /* how far a batch moves the running statistics towards its own */
} gs_batch_norm_sizes;

/* Sums over a batch are added in blocks, and the blocks' sums in order. A block holds this many images ... */
static inline size_t gs_batch_norm_block(const gs_batch_norm_sizes *s) {
    return s->plane < 32 ? 32 : s->plane < 1024 ? 1024 / (size_t)s->plane : 1;
}

/* ... and this many of layer_norm's n rows: at least 32, and at most 128 blocks. */
static inline size_t gs_layer_norm_block(size_t n) {
    return n > 32 * 128 ? (n + 127) / 128 : 32;
}

/* Attention: x is (n, length, 3, heads, d), the q, k and v of each token; y is (n, length, heads, d); d = width /
 * heads. */
typedef struct gs_attention_sizes {
    int length, width, heads; /* width: floats per token in y; a multiple of heads */
    int causal;               /* 1: a token attends to itself and earlier tokens; 0: to all */
} gs_attention_sizes;

/* True if the windows are 2x2, side by side, and cover x exactly. */
static inline bool gs_pool2d_is_2x2(const gs_pool2d_sizes *p) {
    return p->kernel_h == 2 && p->kernel_w == 2 && p->stride_h == 2 && p->stride_w == 2 &&
           p->in_h == 2 * p->out_h && p->in_w == 2 * p->out_w;
}

/* Layers after linear or conv2d that the same operator computes before it writes y, so that no intermediate value goes
 * through memory. A NULL or empty epilogue means no such layers. The bits are those of the separate operators, except
 * where a 16-bit y rounds to 0: in the fused operator, dy passes if y was above 0 before rounding. `fuses` tells what a
 * backend supports; a convolution with groups or dilation supports no epilogue. */
typedef struct gs_epilogue {
    bool relu;                   /* y = max(y, 0); backward: dy passes where y > 0 */
    const gs_pool2d_sizes *pool; /* then max_pool2d; y and dy are those after the pooling; NULL: no pooling */
    gs_mem index;                /* for the pooling: forward writes it, backward reads it */
    gs_mem y;                    /* backward: the y that forward wrote */
    /* For linear_backward if gs_backend.sums_leaves: dw and db are sums over these leaves of the samples, in the order
     * of their tree (train/ordered_sums.h). A sample has n / at[count] rows. NULL: not cut. */
    const gs_leaves *leaves;
} gs_epilogue;

/* One rank's share of `whole` items, such as the words of a vocabulary: the items from floor(rank whole / ranks) on. A
 * sum over all items is cut into leaves x ranks parts; this rank's `leaves` parts begin with part rank x leaves. */
typedef struct gs_share {
    int rank, ranks, whole, leaves;
} gs_share;

/* The start of leaf i of this rank, relative to the rank's first item; for i = leaves, the end of the rank's items. */
static inline int gs_share_leaf(const gs_share *s, int i) {
    const int64_t whole = s->whole, first = whole * s->rank / s->ranks;
    return (int)(whole * ((int64_t)s->rank * s->leaves + i) / ((int64_t)s->ranks * s->leaves) - first);
}

static inline int gs_share_first(const gs_share *s) {
    return (int)((int64_t)s->whole * s->rank / s->ranks);
}

static inline int gs_share_count(const gs_share *s) {
    return gs_share_leaf(s, s->leaves);
}

/* The arguments of dropout, which draws the same mask on every device. Element i of this batch is element `first + i`
 * of the global batch; word (first + i) % 4 of philox(key, hi, (first + i) / 4) decides whether it is kept. */
typedef struct gs_dropout_draw {
    float p;          /* probability that an element becomes 0; 0 <= p < 1 */
    uint64_t key, hi; /* see core/philox.h */
    uint64_t first;   /* index of this batch's first element in the global batch */
} gs_dropout_draw;

/* How bytes become floats: the scale and shift of each channel. With one channel, they apply to all bytes. */
typedef struct gs_byte_scale {
    int channels; /* 1 to GS_CHANNELS */
    size_t plane; /* contiguous bytes of a channel, at least 1; ignored for one channel */
    float scale[GS_CHANNELS], shift[GS_CHANNELS];
} gs_byte_scale;

/* The constants of one Adam step (optim/adam.c). Kernels read this struct too: all floats, in this order. */
typedef struct gs_adam_step {
    float scale;        /* 1 / (global number of samples) */
    float rate;         /* lr / (1 - beta1^t) */
    float beta1, rest1; /* rest1 = 1 - beta1, and so on */
    float beta2, rest2;
    float root; /* 1 / sqrt(1 - beta2^t) */
    float epsilon;
    float l2, keep; /* weight decay: l2 w is added to the gradient, or keep w replaces w (1: no decay) */
} gs_adam_step;

/* The bits of the largest |x| of an array, and the sum of its squares in fixed point: high 2^32 + low, in units that
 * depend on `top` (optim/norm.h). */
typedef struct gs_squares {
    uint32_t largest, top; /* top: the exponent bits for which the units are made */
    uint64_t high, low;
} gs_squares;
