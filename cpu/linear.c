#include "cpu/matmul.h"

#include <string.h>

/* The three products of a linear layer, each so that what is large is read where it lies:
 *
 *     forward    y^T (out, n) = w (out, in) x^T       + b     x and y^T are turned around on the way
 *     backward   dx (n, in)   = dy (n, out) w
 *                dw (out, in) += dy^T x                       dy^T is packed in blocks first
 *                db (out)     += column sums of dy
 *
 * With a relu after it, forward puts it on y while that is turned around, and backward first writes the dy that the
 * relu lets through.
 */
typedef struct gs_linear_work {
    float *y, *dx, *dw, *db;
    const float *x, *w, *b, *dy;
    const float *relu_y; /* backward: dy counts where this is above 0; NULL: everywhere */
    bool relu;           /* forward: y = max(y, 0) */
    int n, in, out;
    int parts; /* how often a product is cut */
    /* scratch memory: the pieces that are not wanted in this direction are empty */
    int n_padded;  /* samples, rounded up to whole vectors */
    float *xt;     /* (in, n_padded): x^T */
    float *yt;     /* (out, n_padded): y^T without b */
    float *passed; /* (n, out): the dy that counts */
    float *packed; /* blocks of GS_TILE_ROWS outputs: dy of sample 0, of sample 1, ... */
    float *strips; /* for each part, of each product */
    size_t strip;
} gs_linear_work;

/* ---- forward ---- */

enum { DEPTH = 1024 /* so many rows of x^T, for 128 samples 0.5 MB, stay in a core's second-level cache */ };

static void xt_part(void *context, int part) {
    const gs_linear_work *t = context;
    gs_range r = gs_cpu_range((size_t)t->in, part, t->parts);
    size_t padded = (size_t)t->n_padded, n = (size_t)t->n;
    float *xt = t->xt + r.begin * padded;
    GS_ISA(transpose)(xt, padded, t->x + r.begin, (size_t)t->in, t->n, (int)(r.end - r.begin));
    for (size_t k = r.begin; k < r.end && n < padded; k++, xt += padded)
        memset(xt + n, 0, (padded - n) * sizeof *xt);
}

static void forward_part(void *context, int part) {
    const gs_linear_work *t = context;
    gs_range r = gs_cpu_range((size_t)t->out, part, t->parts);
    size_t in = (size_t)t->in, out = (size_t)t->out, padded = (size_t)t->n_padded;
    float *yt = t->yt + r.begin * padded, *y = t->y + r.begin;
    int rows = (int)(r.end - r.begin);
    for (int k = 0; k < t->in; k += DEPTH) {
        gs_matmul m = {.rows = rows,
                       .depth = t->in - k < DEPTH ? t->in - k : DEPTH,
                       .columns = t->n_padded,
                       .a = t->w + r.begin * in + (size_t)k,
                       .a_block = GS_TILE_ROWS * in,
                       .a_row = in,
                       .a_column = 1,
                       .b = t->xt + (size_t)k * padded,
                       .b_row = padded,
                       .c = yt,
                       .c_row = padded,
                       .add = k > 0};
        GS_ISA(matmul)(&m);
    }
    GS_ISA(transpose)(y, out, yt, padded, rows, t->n);
    const float *b = t->b ? t->b + r.begin : NULL;
    for (int s = 0; s < t->n && (b || t->relu); s++, y += out) {
        for (int o = 0; o < rows && b; o++) y[o] += b[o];
        for (int o = 0; o < rows && t->relu; o++) y[o] = y[o] < 0.0f ? 0.0f : y[o];
    }
}

static gs_status forward(gs_device *d, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n, int in, int out,
                         bool relu) {
    if (n == 0) return GS_OK;
    gs_linear_work t = {.y = gs_cpu_floats(y),
                        .x = gs_cpu_floats(x),
                        .w = gs_cpu_floats(w),
                        .b = gs_cpu_floats(b),
                        .relu = relu,
                        .n = (int)n,
                        .in = in,
                        .out = out,
                        .n_padded = (int)gs_round_up(n)};
    gs_pool *pool = gs_cpu_of(d)->pool;
    size_t padded = (size_t)t.n_padded;
    GS_TRY(gs_cpu_scratch(d, padded * (size_t)(in + out), &t.xt));
    t.yt = t.xt + padded * (size_t)in;
    t.parts = gs_cpu_parts(d, (size_t)in, 64);
    gs_pool_run(pool, t.parts, xt_part, &t);
    t.parts = gs_cpu_parts(d, (size_t)out, 32);
    gs_pool_run(pool, t.parts, forward_part, &t);
    return GS_OK;
}

gs_status GS_ISA(linear_forward)(gs_device *d, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n, int in,
                                 int out) {
    return forward(d, y, x, w, b, n, in, out, false);
}

gs_status GS_ISA(linear_relu_forward)(gs_device *d, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n, int in,
                                      int out) {
    return forward(d, y, x, w, b, n, in, out, true);
}

/* ---- backward ---- */

/* For some columns of dy: what passes the relu, packed too, and db. */
static void dy_part(void *context, int part) {
    const gs_linear_work *t = context;
    gs_range r = gs_cpu_range((size_t)t->out, part, t->parts);
    size_t n = (size_t)t->n, out = (size_t)t->out;
    for (size_t s = 0; s < n; s++) {
        const float *dy = t->dy + s * out;
        if (t->relu_y) {
            const float *y = t->relu_y + s * out;
            float *restrict passed = t->passed + s * out;
            for (size_t o = r.begin; o < r.end; o++) passed[o] = y[o] > 0.0f ? dy[o] : 0.0f;
            dy = passed;
        }
        float *restrict db = t->db;
        for (size_t o = r.begin; o < r.end && db; o++) db[o] += dy[o];
        float *to = t->packed + s * GS_TILE_ROWS;
        size_t o = r.begin;
        for (; o + GS_TILE_ROWS <= r.end; o += GS_TILE_ROWS)
            memcpy(to + o * n, dy + o, GS_TILE_ROWS * sizeof *to);
        if (o < r.end) memcpy(to + o * n, dy + o, (r.end - o) * sizeof *to);
    }
}

static void dw_part(const gs_linear_work *t, int part) {
    bool by_rows = t->out >= t->in;
    gs_range r = gs_cpu_range((size_t)(by_rows ? t->out : t->in), part, t->parts);
    size_t n = (size_t)t->n, in = (size_t)t->in;
    int count = (int)(r.end - r.begin);
    gs_matmul m = {.rows = by_rows ? count : t->out,
                   .depth = t->n,
                   .columns = by_rows ? t->in : count,
                   .a = by_rows ? t->packed + r.begin * n : t->packed,
                   .a_block = GS_TILE_ROWS * n,
                   .a_row = 1,
                   .a_column = GS_TILE_ROWS,
                   .b = by_rows ? t->x : t->x + r.begin,
                   .b_row = in,
                   .c = by_rows ? t->dw + r.begin * in : t->dw + r.begin,
                   .c_row = in,
                   .add = true,
                   .strip = t->strips + (size_t)part * t->strip};
    GS_ISA(matmul)(&m);
}

static void dx_part(const gs_linear_work *t, int part) {
    bool by_rows = t->n >= t->in;
    gs_range r = gs_cpu_range((size_t)(by_rows ? t->n : t->in), part, t->parts);
    size_t in = (size_t)t->in, out = (size_t)t->out;
    int count = (int)(r.end - r.begin);
    gs_matmul m = {.rows = by_rows ? count : t->n,
                   .depth = t->out,
                   .columns = by_rows ? t->in : count,
                   .a = by_rows ? t->dy + r.begin * out : t->dy,
                   .a_block = GS_TILE_ROWS * out,
                   .a_row = out,
                   .a_column = 1,
                   .b = by_rows ? t->w : t->w + r.begin,
                   .b_row = in,
                   .c = by_rows ? t->dx + r.begin * in : t->dx + r.begin,
                   .c_row = in,
                   .by_columns = true,
                   .strip = t->strips + (size_t)(t->parts + part) * t->strip};
    GS_ISA(matmul)(&m);
}

static void product_part(void *context, int part) {
    const gs_linear_work *t = context;
    if (part < t->parts)
        dw_part(t, part);
    else
        dx_part(t, part - t->parts);
}

static gs_status backward(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem relu_y, gs_mem x,
                          gs_mem w, size_t n, int in, int out) {
    if (n == 0) return GS_OK;
    gs_linear_work t = {.dx = gs_cpu_floats(dx),
                        .dw = gs_cpu_floats(dw),
                        .db = gs_cpu_floats(db),
                        .dy = gs_cpu_floats(dy),
                        .x = gs_cpu_floats(x),
                        .w = gs_cpu_floats(w),
                        .relu_y = gs_cpu_floats(relu_y),
                        .n = (int)n,
                        .in = in,
                        .out = out};
    gs_pool *pool = gs_cpu_of(d)->pool;
    int threads = gs_pool_threads(pool);
    size_t blocks = ((size_t)out + GS_TILE_ROWS - 1) / GS_TILE_ROWS;
    size_t passed = t.relu_y ? gs_round_up(n * (size_t)out) : 0,
           packed = gs_round_up(blocks * GS_TILE_ROWS * n);
    t.strip = (size_t)GS_STRIP * (n > (size_t)out ? n : (size_t)out);
    GS_TRY(gs_cpu_scratch(d, passed + packed + 2 * (size_t)threads * t.strip, &t.passed));
    t.packed = t.passed + passed;
    t.strips = t.packed + packed;
    t.parts = gs_cpu_parts(d, (size_t)out, 64);
    gs_pool_run(pool, t.parts, dy_part, &t);
    if (t.relu_y) t.dy = t.passed;
    t.parts = threads;
    gs_pool_run(pool, t.dx ? 2 * t.parts : t.parts, product_part, &t);
    return GS_OK;
}

gs_status GS_ISA(linear_backward)(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                  gs_mem w, size_t n, int in, int out) {
    return backward(d, dx, dw, db, dy, GS_NONE, x, w, n, in, out);
}

gs_status GS_ISA(linear_relu_backward)(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem y,
                                       gs_mem x, gs_mem w, size_t n, int in, int out) {
    return backward(d, dx, dw, db, dy, y, x, w, n, in, out);
}
