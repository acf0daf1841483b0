#include "cpu/cpu.h"

#include <cblas.h>

/* The three products of a linear layer, each in the layout in which the tensors lie:
 *
 *     forward    y  (n, out)  = x (n, in)  w^T        + b
 *     backward   dx (n, in)   = dy (n, out) w
 *                dw (out, in) += dy^T x
 *                db (out)     += column sums of dy
 *
 * A product is cut over the threads along its longer side, and each thread calls OpenBLAS for its own block.
 */
typedef struct gs_linear_work {
    float *y, *dx, *dw, *db;
    const float *x, *w, *b, *dy;
    int n, in, out, parts;
} gs_linear_work;

static void forward_part(void *context, int part) {
    const gs_linear_work *t = context;
    bool by_rows = t->n >= t->out;
    gs_range r = gs_cpu_range((size_t)(by_rows ? t->n : t->out), part, t->parts);
    int begin = (int)r.begin, count = (int)(r.end - r.begin);
    int rows = by_rows ? count : t->n, columns = by_rows ? t->out : count;
    const float *x = by_rows ? t->x + (size_t)begin * (size_t)t->in : t->x;
    const float *w = by_rows ? t->w : t->w + (size_t)begin * (size_t)t->in;
    float *y = by_rows ? t->y + (size_t)begin * (size_t)t->out : t->y + begin;
    if (count == 0) return;
    for (int i = 0; i < rows && t->b; i++) {
        const float *b = by_rows ? t->b : t->b + begin;
        for (int o = 0; o < columns; o++) y[(size_t)i * (size_t)t->out + (size_t)o] = b[o];
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, columns, t->in, 1, x, t->in, w, t->in,
                t->b ? 1.0f : 0.0f, y, t->out);
}

gs_status GS_ISA(linear_forward)(gs_device *d, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n, int in,
                                 int out) {
    if (n == 0) return GS_OK;
    int longer = (int)n >= out ? (int)n : out;
    gs_linear_work t = {.y = gs_cpu_floats(y),
                        .x = gs_cpu_floats(x),
                        .w = gs_cpu_floats(w),
                        .b = gs_cpu_floats(b),
                        .n = (int)n,
                        .in = in,
                        .out = out,
                        .parts = gs_cpu_parts(d, (size_t)longer, 32)};
    gs_pool_run(gs_cpu_of(d)->pool, t.parts, forward_part, &t);
    return GS_OK;
}

static void dw_part(void *context, int part) {
    const gs_linear_work *t = context;
    bool by_rows = t->out >= t->in;
    gs_range r = gs_cpu_range((size_t)(by_rows ? t->out : t->in), part, t->parts);
    int begin = (int)r.begin, count = (int)(r.end - r.begin);
    if (count == 0) return;
    if (by_rows)
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, count, t->in, t->n, 1, t->dy + begin, t->out,
                    t->x, t->in, 1, t->dw + (size_t)begin * (size_t)t->in, t->in);
    else
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, t->out, count, t->n, 1, t->dy, t->out,
                    t->x + begin, t->in, 1, t->dw + begin, t->in);
}

static void dx_part(void *context, int part) {
    const gs_linear_work *t = context;
    bool by_rows = t->n >= t->in;
    gs_range r = gs_cpu_range((size_t)(by_rows ? t->n : t->in), part, t->parts);
    int begin = (int)r.begin, count = (int)(r.end - r.begin);
    if (count == 0) return;
    if (by_rows)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, count, t->in, t->out, 1,
                    t->dy + (size_t)begin * (size_t)t->out, t->out, t->w, t->in, 0,
                    t->dx + (size_t)begin * (size_t)t->in, t->in);
    else
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, t->n, count, t->out, 1, t->dy, t->out,
                    t->w + begin, t->in, 0, t->dx + begin, t->in);
}

gs_status GS_ISA(linear_backward)(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                  gs_mem w, size_t n, int in, int out) {
    if (n == 0) return GS_OK;
    gs_linear_work t = {.dx = gs_cpu_floats(dx),
                        .dw = gs_cpu_floats(dw),
                        .db = gs_cpu_floats(db),
                        .dy = gs_cpu_floats(dy),
                        .x = gs_cpu_floats(x),
                        .w = gs_cpu_floats(w),
                        .n = (int)n,
                        .in = in,
                        .out = out};
    gs_pool *pool = gs_cpu_of(d)->pool;
    for (size_t i = 0; i < n && t.db; i++)
        for (int o = 0; o < out; o++) t.db[o] += t.dy[i * (size_t)out + (size_t)o];
    t.parts = gs_cpu_parts(d, (size_t)(out >= in ? out : in), 32);
    gs_pool_run(pool, t.parts, dw_part, &t);
    if (!t.dx) return GS_OK;
    t.parts = gs_cpu_parts(d, (size_t)((int)n >= in ? (int)n : in), 32);
    gs_pool_run(pool, t.parts, dx_part, &t);
    return GS_OK;
}
