/* The image in the layout that convolution reads: its rows, once for each column of the kernel.
 *
 * The matrix of patches (im2col) has a row for each (c, u, v), with the inputs that all output positions (r, o) see
 * through that kernel position. Rows with the same (c, v) but different u hold the same elements, shifted by rows of
 * the image. So only one plane per (c, v) is written, in rows as long as an output row:
 *
 *     plane (c, v):  row h = x[c][h - pad_h][o stride_w + v - pad_w], o = 0..out_w-1        0 outside of x
 *
 * and row (c, u, v) of the patches is that plane from its row u on: all output positions are consecutive, nothing
 * unnecessary is computed, and the copy is kernel_h times smaller than im2col's. With a stride the rows h, h +
 * stride_h, h + 2 stride_h ... must be adjacent, so a plane groups its rows by their "phase", h mod stride_h.
 *
 * Source of im2col: Chellapilla, Puri, Simard, "High performance convolutional neural networks for document processing"
 * (2006). */
#pragma once

#include "cpu/product.h"

/* The chunks of images whose sums dw adds up: gs_conv2d_chunks, or one per thread if that is more and the device need
 * not have fixed bits. */
static inline size_t gs_cpu_conv2d_chunks(gs_device *d, const gs_conv2d_sizes *s, size_t n) {
    const size_t chunks = gs_conv2d_chunks(s, n), threads = (size_t)gs_cpu_parts(d, n, 1);
    return d->fixed_order || threads < chunks ? chunks : threads;
}

/* On one axis, the pixels whose padded position modulo stride is `phase`: their indices within the phase are first ..
 * end - 1. They are seen by the `taps` kernel positions u for which u dilation modulo stride is `phase`. */
typedef struct gs_conv_phase {
    int first, end, taps;
} gs_conv_phase;

static inline gs_conv_phase gs_conv_phase_of(int phase, int in, int pad, int stride, int kernel,
                                             int dilation) {
    const int before = pad - phase, last = in - 1 + before;
    gs_conv_phase f = {.first = before > 0 ? (before + stride - 1) / stride : 0,
                       .end = last < 0 ? 0 : last / stride + 1};
    for (int u = 0; u < kernel; u++) f.taps += u * dilation % stride == phase;
    return f;
}

typedef struct gs_conv_rows {
    const gs_conv2d_sizes *s;
    size_t phase; /* floats per phase of a plane */
    size_t plane; /* floats per plane, with room for GS_CONV2D_LANES floats after it */
    size_t size;  /* floats of all planes; there must be room for `slack` zeros before and after them */
    size_t slack;
} gs_conv_rows;

static inline gs_conv_rows gs_conv_rows_of(const gs_conv2d_sizes *s) {
    size_t padded_h = (size_t)s->in_h + 2 * (size_t)s->pad_h, stride_h = (size_t)s->stride_h;
    gs_conv_rows r = {.s = s, .phase = (padded_h + stride_h - 1) / stride_h * (size_t)s->out_w};
    r.plane = gs_round_up(stride_h * r.phase) + GS_CONV2D_LANES;
    r.size = (size_t)s->in_c * (size_t)s->kernel_w * r.plane;
    r.slack = gs_round_up((size_t)s->kernel_w + (size_t)s->pad_w) + 2 * GS_VECTOR;
    return r;
}

/* Where row `padded_h` of the padded image starts in a plane. */
static inline size_t gs_conv_row(const gs_conv_rows *r, int padded_h) {
    return (size_t)(padded_h % r->s->stride_h) * r->phase +
           (size_t)(padded_h / r->s->stride_h) * (size_t)r->s->out_w;
}

/* Computes gs_conv_row step by step, for a plane's rows in the order of the padded image. */
typedef struct gs_conv_walk {
    size_t at;
    int phase;
} gs_conv_walk;

static inline gs_conv_walk gs_conv_walk_from(const gs_conv_rows *r, int padded_h) {
    return (gs_conv_walk){gs_conv_row(r, padded_h), padded_h % r->s->stride_h};
}

static inline void gs_conv_walk_on(const gs_conv_rows *r, gs_conv_walk *walk) {
    walk->at += r->phase;
    if (++walk->phase < r->s->stride_h) return;
    walk->phase = 0;
    walk->at += (size_t)r->s->out_w - (size_t)r->s->stride_h * r->phase;
}

/* Write the planes of the image x. `rows` must hold zeros or an earlier image. */
void GS_ISA(gs_cpu_conv_rows_from_image)(const gs_conv_rows *, float *rows, const float *x);

/* The gradient of that copy: for each pixel, dx is the sum of drows over all positions to which it was copied. */
void GS_ISA(gs_cpu_conv_image_from_rows)(const gs_conv_rows *, float *dx, const float *drows);
