#include "cpu/linear.h"
#include "cpu/matmul.h"
#include "cpu/round16.h"

#include <cblas.h>

/* The three products of a linear layer, each in the layout in which the tensors are stored:
 *
 *     forward    y  (n, out)  = x (n, in)  w^T        + b
 *     backward   dx (n, in)   = dy (n, out) w
 *                dw (out, in) (+)= dy^T x             (+)=: += with `add`, else =
 *                db (out)     (+)= column sums of dy
 *
 * With a fused relu, forward applies it to each block of y while the block is cached, and backward first masks dy.
 *
 * Here OpenBLAS computes each product, unless the two operators below choose another algorithm (linear.h). A product is
 * divided among the threads along its longer side, and each thread calls OpenBLAS for one block. */
typedef struct linear_work {
    gs_linear_task l;
    int parts, dw_parts;
} linear_work;

static void forward_part(void *context, int part) {
    const linear_work *t = context;
    bool by_rows = t->l.n >= t->l.out;
    gs_range r = gs_cpu_range((size_t)(by_rows ? t->l.n : t->l.out), part, t->parts);
    int begin = (int)r.begin, count = (int)(r.end - r.begin);
    int rows = by_rows ? count : t->l.n, columns = by_rows ? t->l.out : count;
    const float *x = by_rows ? t->l.x + (size_t)begin * (size_t)t->l.in : t->l.x;
    const float *w = by_rows ? t->l.w : t->l.w + (size_t)begin * (size_t)t->l.in;
    float *y = by_rows ? t->l.y + (size_t)begin * (size_t)t->l.out : t->l.y + begin;
    if (count == 0) return;
    for (int i = 0; i < rows && t->l.b; i++) {
        const float *b = by_rows ? t->l.b : t->l.b + begin;
        for (int o = 0; o < columns; o++) y[(size_t)i * (size_t)t->l.out + (size_t)o] = b[o];
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, columns, t->l.in, 1, x, t->l.in, w, t->l.in,
                t->l.b ? 1.0f : 0.0f, y, t->l.out);
    for (int i = 0; i < rows && t->l.relu; i++) {
        float *row = y + (size_t)i * (size_t)t->l.out;
        for (int o = 0; o < columns; o++) row[o] = row[o] < 0.0f ? 0.0f : row[o];
    }
}

/* Call linear_small.c with GS_BLOCK samples at a time, each of which is one block in the sums of dw. */
static gs_status by_samples(gs_device *d, gs_linear_task l,
                            gs_status (*small)(gs_device *, const gs_linear_task *)) {
    const size_t x = GS_BLOCK * (size_t)l.in, y = GS_BLOCK * (size_t)l.out;
    for (int left = l.n; left > 0; left -= GS_BLOCK, l.add = true) {
        l.n = left < GS_BLOCK ? left : GS_BLOCK;
        GS_TRY(small(d, &l));
        l.x += x;
        if (l.y) l.y += y;
        if (l.dy) l.dy += y;
        if (l.dx) l.dx += x;
        if (l.relu_y) l.relu_y += y;
    }
    return GS_OK;
}

gs_status GS_ISA(gs_cpu_linear_forward)(gs_device *d, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n,
                                        int in, int out, const gs_epilogue *then) {
    if (n == 0) return GS_OK;
    linear_work t = {.l = {.y = gs_cpu_floats(y),
                           .x = gs_cpu_floats(x),
                           .w = gs_cpu_floats(w),
                           .b = gs_cpu_floats(b),
                           .relu = gs_epilogue_of(d, then, NULL).relu,
                           .n = (int)n,
                           .in = in,
                           .out = out}};
    if (d->precision != GS_PRECISION_F32) return GS_ISA(gs_cpu_linear_16_forward)(d, &t.l);
    if (n == 1 && !d->exact) return GS_ISA(gs_cpu_linear_one_forward)(d, &t.l);
    if (d->fixed_order || gs_linear_is_ours(n, in, out))
        return gs_linear_is_large(n, in, out) ? GS_ISA(gs_cpu_linear_large_forward)(d, &t.l)
                                              : by_samples(d, t.l, GS_ISA(gs_cpu_linear_small_forward));
    t.parts = gs_cpu_parts(d, (int)n >= out ? n : (size_t)out, 32);
    return gs_cpu_run(d, t.parts, forward_part, &t);
}

typedef struct dy_work {
    const gs_linear_task *l;
    gs_precision precision;
    float *passed;
    int parts;
} dy_work;

/* Process some columns of dy. */
static void dy_part(void *context, int part) {
    const dy_work *t = context;
    const gs_linear_task *l = t->l;
    const gs_range r = gs_cpu_range((size_t)l->out, part, t->parts);
    float *restrict db = l->db;
    for (size_t o = r.begin; o < r.end && db && !l->add; o++) db[o] = 0;
    for (size_t row = 0; row < (size_t)l->n; row++) {
        const float *dy = l->dy + row * (size_t)l->out;
        if (l->relu_y) {
            const float *y = l->relu_y + row * (size_t)l->out;
            float *restrict passed = t->passed + row * (size_t)l->out;
            for (size_t o = r.begin; o < r.end; o++) passed[o] = y[o] > 0.0f ? dy[o] : 0.0f;
            dy = passed;
        }
        if (!db) continue;
        if (t->precision == GS_PRECISION_F32)
            for (size_t o = r.begin; o < r.end; o++) db[o] += dy[o];
        else if (t->precision == GS_PRECISION_BF16)
            for (size_t o = r.begin; o < r.end; o++) db[o] += gs_round_bf16(dy[o]);
        else
            for (size_t o = r.begin; o < r.end; o++) db[o] += gs_round_f16(dy[o]);
    }
}

void GS_ISA(gs_cpu_linear_dy)(gs_device *d, gs_linear_task *l, float *passed) {
    dy_work t = {l, d->precision, passed, gs_cpu_parts(d, (size_t)l->out, 64)};
    if (l->db || l->relu_y) gs_pool_run(gs_cpu_of(d)->pool, t.parts, dy_part, &t);
    if (l->relu_y) l->dy = passed;
}

static void dw_part(const linear_work *t, int part) {
    bool by_rows = t->l.out >= t->l.in;
    gs_range r = gs_cpu_range((size_t)(by_rows ? t->l.out : t->l.in), part, t->dw_parts);
    int begin = (int)r.begin, count = (int)(r.end - r.begin);
    const float *dy = by_rows ? t->l.dy + begin : t->l.dy, *x = by_rows ? t->l.x : t->l.x + begin;
    float *dw = by_rows ? t->l.dw + (size_t)begin * (size_t)t->l.in : t->l.dw + begin;
    if (count == 0) return;
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, by_rows ? count : t->l.out,
                by_rows ? t->l.in : count, t->l.n, 1, dy, t->l.out, x, t->l.in, t->l.add ? 1.0f : 0.0f, dw,
                t->l.in);
}

static void dx_part(const linear_work *t, int part) {
    bool by_rows = t->l.n >= t->l.in;
    gs_range r = gs_cpu_range((size_t)(by_rows ? t->l.n : t->l.in), part, t->parts - t->dw_parts);
    int begin = (int)r.begin, count = (int)(r.end - r.begin);
    const float *dy = by_rows ? t->l.dy + (size_t)begin * (size_t)t->l.out : t->l.dy,
                *w = by_rows ? t->l.w : t->l.w + begin;
    float *dx = by_rows ? t->l.dx + (size_t)begin * (size_t)t->l.in : t->l.dx + begin;
    if (count == 0) return;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, by_rows ? count : t->l.n,
                by_rows ? t->l.in : count, t->l.out, 1, dy, t->l.out, w, t->l.in, 0, dx, t->l.in);
}

/* All parts of dw, then all of dx: they are independent, so no thread waits in between. */
static void product_part(void *context, int part) {
    const linear_work *t = context;
    if (part < t->dw_parts)
        dw_part(t, part);
    else
        dx_part(t, part - t->dw_parts);
}

/* dw += dy^T x and db += column sums of dy, these sums being computed first. */
static gs_status backward_apart(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x, gs_mem w,
                                size_t n, int in, int out, const gs_epilogue *then) {
    const size_t count = (size_t)in * (size_t)out;
    float *sums;
    GS_TRY(gs_cpu_scratch_rounded(d, count + (size_t)out, &sums));
    const gs_mem own_dw = {.base = sums}, own_db = db.base ? gs_at(own_dw, count) : GS_NONE;
    GS_TRY(GS_ISA(gs_cpu_linear_backward)(d, dx, own_dw, own_db, dy, x, w, n, in, out, false, then));
    GS_TRY(GS_ISA(gs_cpu_add)(d, dw, dw, own_dw, count));
    return db.base ? GS_ISA(gs_cpu_add)(d, db, db, own_db, (size_t)out) : GS_OK;
}

gs_status GS_ISA(gs_cpu_linear_backward)(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                         gs_mem w, size_t n, int in, int out, bool add,
                                         const gs_epilogue *then) {
    if (n > 0 && add && d->fixed_order) return backward_apart(d, dx, dw, db, dy, x, w, n, in, out, then);
    const gs_epilogue e = gs_epilogue_of(d, then, NULL);
    if (n == 0) return add ? GS_OK : gs_clear(d, dw, (size_t)in * (size_t)out, db, (size_t)out);
    linear_work t = {.l = {.dx = gs_cpu_floats(dx),
                           .dw = gs_cpu_floats(dw),
                           .db = gs_cpu_floats(db),
                           .dy = gs_cpu_floats(dy),
                           .x = gs_cpu_floats(x),
                           .w = gs_cpu_floats(w),
                           .relu_y = e.relu ? gs_cpu_floats(e.y) : NULL,
                           .add = add,
                           .n = (int)n,
                           .in = in,
                           .out = out}};
    if (then && then->leaves) return GS_ISA(gs_cpu_linear_leaves)(d, &t.l, dx, w, then->leaves);
    if (d->precision != GS_PRECISION_F32) return GS_ISA(gs_cpu_linear_16_backward)(d, &t.l);
    if (d->fixed_order || gs_linear_is_ours(n, in, out))
        return gs_linear_is_large(n, in, out) ? GS_ISA(gs_cpu_linear_large_backward)(d, &t.l)
                                              : by_samples(d, t.l, GS_ISA(gs_cpu_linear_small_backward));
    float *passed = NULL;
    if (t.l.relu_y) GS_TRY(gs_cpu_scratch(d, n * (size_t)out, &passed));
    GS_ISA(gs_cpu_linear_dy)(d, &t.l, passed);
    t.parts = t.dw_parts = gs_cpu_parts(d, (size_t)(out >= in ? out : in), 32);
    if (t.l.dx) t.parts += gs_cpu_parts(d, (size_t)((int)n >= in ? (int)n : in), 32);
    return gs_cpu_run(d, t.parts, product_part, &t);
}
