#include "cpu/cpu.h"

#include <cblas.h>
#include <string.h>

/* Convolution as matrix products, one image at a time.
 *
 * im2col writes the patches of an image side by side: column p of `patches` (k, positions) holds the k = in_c
 * kernel_h kernel_w inputs that output position p sees. Then, with w as the matrix (out_c, k) that it already
 * is:
 *
 *     forward    y  = w patches                      (out_c, positions)
 *     backward   dw += dy patches^T                  (out_c, k)
 *                dpatches = w^T dy, and col2im adds each of its entries to the pixel that it came from: dx
 *
 * Only one image's patches exist at a time for each thread, in memory that stays in the core's cache: the
 * whole batch's would be kernel_h kernel_w times the input, and each product would wait for memory.
 *
 * Source: Chellapilla, Puri, Simard, "High performance convolutional neural networks for document processing"
 * (2006).
 */
typedef struct gs_conv_work {
    const gs_conv2d_sizes *s;
    float *y, *dx, *dw, *db;
    const float *x, *w, *b, *dy;
    size_t n;
    int parts;
    int k, positions;       /* rows and columns of `patches` */
    int padded_h, padded_w; /* the image with its border of zeros */
    float *scratch;
    size_t scratch_part; /* floats of scratch for each part */
} gs_conv_work;

/* to[0..n-1] = from[0..n-1] for a short row: whole vectors, the last one laid over the one before. */
static inline void copy_row(float *to, const float *from, int n) {
    int i = 0;
    if (n >= 16) {
        for (; i + 16 <= n; i += 16) *(gs_float16 *)(to + i) = *(const gs_float16 *)(from + i);
        *(gs_float16 *)(to + n - 16) = *(const gs_float16 *)(from + n - 16);
    } else if (n >= 8) {
        *(gs_float8 *)to = *(const gs_float8 *)from;
        *(gs_float8 *)(to + n - 8) = *(const gs_float8 *)(from + n - 8);
    } else {
        for (; i < n; i++) to[i] = from[i];
    }
}

/* to[0..n-1] += from[0..n-1] */
static inline void add_row(float *to, const float *from, int n) {
    int i = 0;
    for (; i + 16 <= n; i += 16) *(gs_float16 *)(to + i) += *(const gs_float16 *)(from + i);
    if (i + 8 <= n) {
        *(gs_float8 *)(to + i) += *(const gs_float8 *)(from + i);
        i += 8;
    }
    if (i + 4 <= n) {
        *(gs_float4 *)(to + i) += *(const gs_float4 *)(from + i);
        i += 4;
    }
    for (; i < n; i++) to[i] += from[i];
}

static float sum_of(const float *x, int n) {
    gs_float16 sums = {0};
    int i = 0;
    for (; i + 16 <= n; i += 16) sums += *(const gs_float16 *)(x + i);
    float sum = 0;
    for (int j = 0; j < 16; j++) sum += sums[j];
    for (; i < n; i++) sum += x[i];
    return sum;
}

static bool is_padded(const gs_conv2d_sizes *s) {
    return s->pad_h > 0 || s->pad_w > 0;
}

/* A 1x1 convolution without stride and padding: the image is its own matrix of patches. */
static bool is_pointwise(const gs_conv2d_sizes *s) {
    return s->kernel_h == 1 && s->kernel_w == 1 && s->stride_h == 1 && s->stride_w == 1 && !is_padded(s);
}

/* Copy the image into the middle of `padded`, whose border is zero already. */
static void pad_image(const gs_conv_work *t, const float *x, float *padded) {
    const gs_conv2d_sizes *s = t->s;
    for (int c = 0; c < s->in_c; c++)
        for (int h = 0; h < s->in_h; h++)
            copy_row(padded +
                         ((size_t)c * (size_t)t->padded_h + (size_t)(h + s->pad_h)) * (size_t)t->padded_w +
                         s->pad_w,
                     x + ((size_t)c * (size_t)s->in_h + (size_t)h) * (size_t)s->in_w, s->in_w);
}

/* The gradient of pad_image: the middle of `padded` is the image's part. */
static void unpad_image(const gs_conv_work *t, float *dx, const float *padded) {
    const gs_conv2d_sizes *s = t->s;
    for (int c = 0; c < s->in_c; c++)
        for (int h = 0; h < s->in_h; h++)
            copy_row(dx + ((size_t)c * (size_t)s->in_h + (size_t)h) * (size_t)s->in_w,
                     padded +
                         ((size_t)c * (size_t)t->padded_h + (size_t)(h + s->pad_h)) * (size_t)t->padded_w +
                         s->pad_w,
                     s->in_w);
}

/* patches[(c, u, v)][(r, o)] = padded[c][r stride_h + u][o stride_w + v] */
static void im2col(const gs_conv_work *t, const float *padded, float *patches) {
    const gs_conv2d_sizes *s = t->s;
    for (int c = 0; c < s->in_c; c++)
        for (int u = 0; u < s->kernel_h; u++)
            for (int v = 0; v < s->kernel_w; v++)
                for (int r = 0; r < s->out_h; r++, patches += s->out_w) {
                    const float *from = padded +
                                        ((size_t)c * (size_t)t->padded_h + (size_t)(r * s->stride_h + u)) *
                                            (size_t)t->padded_w +
                                        v;
                    if (s->stride_w == 1)
                        copy_row(patches, from, s->out_w);
                    else
                        for (int o = 0; o < s->out_w; o++) patches[o] = from[o * s->stride_w];
                }
}

/* The gradient of im2col: each entry of dpatches is added to the pixel that it was a copy of. */
static void col2im(const gs_conv_work *t, const float *dpatches, float *padded) {
    const gs_conv2d_sizes *s = t->s;
    memset(padded, 0, (size_t)s->in_c * (size_t)t->padded_h * (size_t)t->padded_w * sizeof(float));
    for (int c = 0; c < s->in_c; c++)
        for (int u = 0; u < s->kernel_h; u++)
            for (int v = 0; v < s->kernel_w; v++)
                for (int r = 0; r < s->out_h; r++, dpatches += s->out_w) {
                    float *to = padded +
                                ((size_t)c * (size_t)t->padded_h + (size_t)(r * s->stride_h + u)) *
                                    (size_t)t->padded_w +
                                v;
                    if (s->stride_w == 1)
                        add_row(to, dpatches, s->out_w);
                    else
                        for (int o = 0; o < s->out_w; o++) to[o * s->stride_w] += dpatches[o];
                }
}

/* The patches of one image; `padded` (if there is padding) and `room` are this part's scratch. */
static const float *patches_of(const gs_conv_work *t, const float *x, float *padded, float *room) {
    if (is_pointwise(t->s)) return x;
    if (is_padded(t->s)) {
        pad_image(t, x, padded);
        x = padded;
    }
    im2col(t, x, room);
    return room;
}

static void forward_part(void *context, int part) {
    const gs_conv_work *t = context;
    const gs_conv2d_sizes *s = t->s;
    size_t begin = t->n * (size_t)part / (size_t)t->parts, end = t->n * (size_t)(part + 1) / (size_t)t->parts;
    size_t in = (size_t)s->in_c * (size_t)s->in_h * (size_t)s->in_w,
           out = (size_t)s->out_c * (size_t)t->positions;
    size_t padded_size = (size_t)s->in_c * (size_t)t->padded_h * (size_t)t->padded_w;
    float *padded = t->scratch + t->scratch_part * (size_t)part, *room = padded + padded_size;
    memset(padded, 0, padded_size * sizeof(float));
    for (size_t i = begin; i < end; i++) {
        const float *patches = patches_of(t, t->x + i * in, padded, room);
        float *y = t->y + i * out;
        for (int o = 0; o < s->out_c && t->b; o++)
            for (int p = 0; p < t->positions; p++) y[(size_t)o * (size_t)t->positions + (size_t)p] = t->b[o];
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, s->out_c, t->positions, t->k, 1, t->w, t->k,
                    patches, t->positions, t->b ? 1.0f : 0.0f, y, t->positions);
    }
}

/* Each part sums its own dw and db, in its scratch; conv2d_backward adds them up in the order of the parts. */
static void backward_part(void *context, int part) {
    const gs_conv_work *t = context;
    const gs_conv2d_sizes *s = t->s;
    size_t begin = t->n * (size_t)part / (size_t)t->parts, end = t->n * (size_t)(part + 1) / (size_t)t->parts;
    size_t in = (size_t)s->in_c * (size_t)s->in_h * (size_t)s->in_w,
           out = (size_t)s->out_c * (size_t)t->positions;
    size_t padded_size = (size_t)s->in_c * (size_t)t->padded_h * (size_t)t->padded_w;
    size_t weights = (size_t)s->out_c * (size_t)t->k;
    float *dw = t->scratch + t->scratch_part * (size_t)part, *db = dw + weights;
    float *padded = db + s->out_c, *dpadded = padded + padded_size, *room = dpadded + padded_size;
    memset(dw, 0, (weights + (size_t)s->out_c + padded_size) * sizeof(float));
    for (size_t i = begin; i < end; i++) {
        const float *patches = patches_of(t, t->x + i * in, padded, room), *dy = t->dy + i * out;
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, s->out_c, t->k, t->positions, 1, dy,
                    t->positions, patches, t->positions, 1, dw, t->k);
        for (int o = 0; o < s->out_c && t->db; o++)
            db[o] += sum_of(dy + (size_t)o * (size_t)t->positions, t->positions);
        if (!t->dx) continue;
        float *dx = t->dx + i * in;
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, t->k, t->positions, s->out_c, 1, t->w, t->k, dy,
                    t->positions, 0, is_pointwise(s) ? dx : room, t->positions);
        if (is_pointwise(s)) continue;
        col2im(t, room, is_padded(s) ? dpadded : dx);
        if (is_padded(s)) unpad_image(t, dx, dpadded);
    }
}

static gs_conv_work work_of(gs_device *d, const gs_conv2d_sizes *s, size_t n) {
    return (gs_conv_work){.s = s,
                          .n = n,
                          .k = s->in_c * s->kernel_h * s->kernel_w,
                          .positions = s->out_h * s->out_w,
                          .padded_h = s->in_h + 2 * s->pad_h,
                          .padded_w = s->in_w + 2 * s->pad_w,
                          .parts = gs_cpu_parts(d, n, 1)};
}

gs_status GS_ISA(conv2d_forward)(gs_device *d, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n,
                                 const gs_conv2d_sizes *s) {
    if (n == 0) return GS_OK;
    gs_conv_work t = work_of(d, s, n);
    t.y = gs_cpu_floats(y), t.x = gs_cpu_floats(x), t.w = gs_cpu_floats(w), t.b = gs_cpu_floats(b);
    t.scratch_part =
        (size_t)s->in_c * (size_t)t.padded_h * (size_t)t.padded_w + (size_t)t.k * (size_t)t.positions;
    GS_TRY(gs_cpu_scratch(d, t.scratch_part * (size_t)t.parts, &t.scratch));
    gs_pool_run(gs_cpu_of(d)->pool, t.parts, forward_part, &t);
    return GS_OK;
}

gs_status GS_ISA(conv2d_backward)(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                  gs_mem w, size_t n, const gs_conv2d_sizes *s) {
    if (n == 0) return GS_OK;
    gs_conv_work t = work_of(d, s, n);
    size_t weights = (size_t)s->out_c * (size_t)t.k;
    t.dx = gs_cpu_floats(dx), t.dw = gs_cpu_floats(dw), t.db = gs_cpu_floats(db);
    t.dy = gs_cpu_floats(dy), t.x = gs_cpu_floats(x), t.w = gs_cpu_floats(w);
    t.scratch_part = weights + (size_t)s->out_c +
                     2 * (size_t)s->in_c * (size_t)t.padded_h * (size_t)t.padded_w +
                     (size_t)t.k * (size_t)t.positions;
    GS_TRY(gs_cpu_scratch(d, t.scratch_part * (size_t)t.parts, &t.scratch));
    gs_pool_run(gs_cpu_of(d)->pool, t.parts, backward_part, &t);
    for (int part = 0; part < t.parts; part++) {
        const float *own = t.scratch + t.scratch_part * (size_t)part;
        for (size_t i = 0; i < weights; i++) t.dw[i] += own[i];
        for (int o = 0; o < s->out_c && t.db; o++) t.db[o] += own[weights + (size_t)o];
    }
    return GS_OK;
}
