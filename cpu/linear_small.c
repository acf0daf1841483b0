#include "cpu/linear.h"
#include "cpu/matmul.h"

#include <string.h>

/* A linear layer for a batch that is small beside the layer (linear.h). The three products, each so that what is large is
 * read where it lies:
 *
 *     forward    y^T (out, n) = w (out, in) x^T       + b     x and y^T are turned around on the way
 *     backward   dx (n, in)   = dy (n, out) w
 *                dw (out, in) += dy^T x                       dy^T is packed in blocks first
 *                db (out)     (+)= column sums of dy
 *
 * With a relu after it, forward puts it on y while that is turned around, and backward first writes the dy that the
 * relu lets through.
 */
typedef struct gs_linear_work {
    float *y, *dx, *dw, *db;
    const float *x, *w, *b, *dy;
    const float *relu_y; /* backward: dy counts where this is above 0; NULL: everywhere */
    bool relu;           /* forward: y = max(y, 0) */
    bool add;            /* backward: to what dw and db hold */
    int n, in, out;
    int parts;       /* how often a product is cut */
    bool by_samples; /* forward: how it is cut */
    float *passed;   /* backward: (n, out), the dy that counts; nothing without a relu */
    float *packed;   /* backward: blocks of GS_TILE_ROWS outputs: dy of sample 0, of sample 1, ... */
    float *scratch;  /* of each part: x^T and y^T, or gs_matmul's strip */
    size_t scratch_part;
} gs_linear_work;

/* ---- forward ---- */

/* xt (in, padded) = the transpose of n rows of x, with zeros behind them */
static void transpose_x(float *xt, size_t padded, const float *x, int n, int in) {
    GS_ISA(transpose)(xt, padded, x, (size_t)in, n, in);
    if ((size_t)n == padded) return;
    for (int k = 0; k < in; k++) memset(xt + (size_t)k * padded + n, 0, (padded - (size_t)n) * sizeof *xt);
}

/* Some samples and all outputs, or all samples and some outputs. */
static void forward_part(void *context, int part) {
    const gs_linear_work *t = context;
    gs_range s = {0, (size_t)t->n}, o = {0, (size_t)t->out};
    *(t->by_samples ? &s : &o) = gs_cpu_range((size_t)(t->by_samples ? t->n : t->out), part, t->parts);
    size_t in = (size_t)t->in, out = (size_t)t->out, padded = gs_round_up(s.end - s.begin);
    int samples = (int)(s.end - s.begin), outputs = (int)(o.end - o.begin);
    float *xt = t->scratch + (size_t)part * t->scratch_part, *yt = xt + padded * in;
    float *y = t->y + s.begin * out + o.begin;

    transpose_x(xt, padded, t->x + s.begin * in, samples, t->in);
    gs_matmul m = {.rows = outputs,
                   .depth = t->in,
                   .columns = (int)padded,
                   .a = t->w + o.begin * in,
                   .a_block = GS_TILE_ROWS * in,
                   .a_row = in,
                   .a_column = 1,
                   .b = xt,
                   .b_row = padded,
                   .c = yt,
                   .c_row = padded};
    GS_ISA(matmul)(&m);
    GS_ISA(transpose)(y, out, yt, padded, outputs, samples);
    const float *b = t->b ? t->b + o.begin : NULL;
    for (int i = 0; i < samples && (b || t->relu); i++, y += out) {
        for (int j = 0; j < outputs && b; j++) y[j] += b[j];
        for (int j = 0; j < outputs && t->relu; j++) y[j] = y[j] < 0.0f ? 0.0f : y[j];
    }
}

gs_status GS_ISA(linear_small_forward)(gs_device *d, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n, int in,
                                       int out, bool relu) {
    if (n == 0) return GS_OK;
    int threads = gs_pool_threads(gs_cpu_of(d)->pool);
    gs_linear_work t = {.y = gs_cpu_floats(y),
                        .x = gs_cpu_floats(x),
                        .w = gs_cpu_floats(w),
                        .b = gs_cpu_floats(b),
                        .relu = relu,
                        .n = (int)n,
                        .in = in,
                        .out = out,
                        .by_samples = n >= 16 * (size_t)threads};
    t.parts = t.by_samples ? threads : gs_cpu_parts(d, (size_t)out, 32);
    size_t most = t.by_samples ? (n / 16 / (size_t)threads + 1) * 16 : n; /* see gs_cpu_range */
    t.scratch_part = gs_round_up(most) * (size_t)(in + out);
    GS_TRY(gs_cpu_scratch(d, (size_t)t.parts * t.scratch_part, &t.scratch));
    gs_pool_run(gs_cpu_of(d)->pool, t.parts, forward_part, &t);
    return GS_OK;
}

/* ---- backward ---- */

/* For some columns of dy: what passes the relu, packed too, and db. */
static void dy_part(void *context, int part) {
    const gs_linear_work *t = context;
    gs_range r = gs_cpu_range((size_t)t->out, part, t->parts);
    size_t n = (size_t)t->n, out = (size_t)t->out;
    for (size_t o = r.begin; o < r.end && t->db && !t->add; o++) t->db[o] = 0;
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
                   .add = t->add,
                   .strip = t->scratch + (size_t)part * t->scratch_part};
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
                   .strip = t->scratch + (size_t)(t->parts + part) * t->scratch_part};
    GS_ISA(matmul)(&m);
}

static void product_part(void *context, int part) {
    const gs_linear_work *t = context;
    if (part < t->parts)
        dw_part(t, part);
    else
        dx_part(t, part - t->parts);
}

gs_status GS_ISA(linear_small_backward)(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy,
                                        gs_mem relu_y, gs_mem x, gs_mem w, size_t n, int in, int out,
                                        bool add) {
    gs_linear_work t = {.dx = gs_cpu_floats(dx),
                        .dw = gs_cpu_floats(dw),
                        .db = gs_cpu_floats(db),
                        .dy = gs_cpu_floats(dy),
                        .x = gs_cpu_floats(x),
                        .w = gs_cpu_floats(w),
                        .relu_y = gs_cpu_floats(relu_y),
                        .add = add,
                        .n = (int)n,
                        .in = in,
                        .out = out};
    gs_pool *pool = gs_cpu_of(d)->pool;
    int threads = gs_pool_threads(pool);
    size_t blocks = ((size_t)out + GS_TILE_ROWS - 1) / GS_TILE_ROWS;
    size_t passed = t.relu_y ? gs_round_up(n * (size_t)out) : 0,
           packed = gs_round_up(blocks * GS_TILE_ROWS * n);
    t.scratch_part = (size_t)GS_STRIP * (n > (size_t)out ? n : (size_t)out);
    GS_TRY(gs_cpu_scratch(d, passed + packed + 2 * (size_t)threads * t.scratch_part, &t.passed));
    t.packed = t.passed + passed;
    t.scratch = t.packed + packed;
    t.parts = gs_cpu_parts(d, (size_t)out, 64);
    gs_pool_run(pool, t.parts, dy_part, &t);
    if (t.relu_y) t.dy = t.passed;
    t.parts = threads;
    gs_pool_run(pool, t.dx ? 2 * t.parts : t.parts, product_part, &t);
    return GS_OK;
}
