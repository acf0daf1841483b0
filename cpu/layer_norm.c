/* Layer normalisation; cpu/plain/layer_norm.c shows the formulas.
 *
 * A row is read once for its mean and again for its variance; it is so short that it is then still in the cache.
 *
 * dw and db are sums over all rows, in blocks (gs_layer_norm_block), so results are bitwise identical for any number of
 * threads. */
#include "cpu/round16.h"
#include "cpu/sums.h"

#include <math.h>

typedef struct layer_work {
    size_t n, c, rows, blocks; /* rows: per block */
    const float *x, *dy, *w, *b;
    float *y, *dx, *mean, *rstd, *dw, *db, *part; /* part: sum dy u, then sum dy (c values each) per block */
    float eps;
    int parts;
} layer_work;

static layer_work work_of(gs_mem x, gs_mem w, gs_mem mean, gs_mem rstd, size_t n, int c) {
    return (layer_work){.n = n,
                        .c = (size_t)c,
                        .x = gs_cpu_floats(x),
                        .w = gs_cpu_floats(w),
                        .mean = gs_cpu_floats(mean),
                        .rstd = gs_cpu_floats(rstd)};
}

/* Two passes, for the reason explained in batch_norm.c. */
#define ADD(l, k, left) gs_add_deviations(&rest, &squares, l, x + (k), NULL, first, left)
static void statistics_of_row(const float *x, size_t c, float eps, float *mean, float *rstd) {
    const float count = (float)c, first = gs_sum_around(x, c, 0) / count;
    gs_lanes rest = {0}, squares = {0};
    GS_EACH_LINE(c, ADD);
    const float off = gs_sum_of_lanes(&rest), share = off / count;
    const float var = (gs_sum_of_lanes(&squares) - off * share) / count;
    *mean = first + share;
    *rstd = 1 / sqrtf((var < 0 ? 0 : var) + eps); /* a NaN stays a NaN */
}
#undef ADD

static void forward_part(void *context, int part) {
    const layer_work *t = context;
    const size_t c = t->c;
    const gs_range r = gs_cpu_tasks(t->n, part, t->parts);
    const float *w = t->w, *b = t->b;
    for (size_t i = r.begin; i < r.end; i++) {
        const float *x = t->x + i * c;
        float *restrict y = t->y + i * c;
        statistics_of_row(x, c, t->eps, &t->mean[i], &t->rstd[i]);
        const float mean = t->mean[i], rstd = t->rstd[i];
        for (size_t k = 0; k < c; k++) y[k] = w[k] * ((x[k] - mean) * rstd) + b[k];
    }
}

/* y = w u + b */
gs_status GS_ISA(gs_cpu_layer_norm_forward)(gs_device *d, gs_mem y, gs_mem mean, gs_mem rstd, gs_mem x,
                                            gs_mem w, gs_mem b, size_t n, int c, float eps) {
    layer_work t = work_of(x, w, mean, rstd, n, c);
    t.b = gs_cpu_floats(b), t.y = gs_cpu_floats(y), t.eps = eps;
    t.parts = gs_cpu_parts(d, n * (size_t)c, 1 << 13);
    return gs_cpu_run(d, t.parts, forward_part, &t);
}

/* Add a vector's terms g = dy w and g u. */
ALWAYS_INLINE void add_gradients(gs_lanes *a, gs_lanes *b, int l, const float *dy, const float *x,
                                 const float *w, float mean, float rstd, int left) {
    const gs_vector g = gs_load_first(dy, left) * gs_load_first(w, left);
    a->line[l] += g;
    b->line[l] += g * ((gs_load_first(x, left) - gs_fill_first(mean, left)) * rstd);
}

/* sum g / c and sum g u / c of a row, g = dy w */
#define ADD(l, k, left) add_gradients(&sum, &with_u, l, dy + (k), x + (k), w + (k), mean, rstd, left)
static void means_of_row(const layer_work *t, size_t i, float *of_g, float *of_gu) {
    const float *x = t->x + i * t->c, *dy = t->dy + i * t->c, *w = t->w, mean = t->mean[i], rstd = t->rstd[i];
    gs_lanes sum = {0}, with_u = {0};
    GS_EACH_LINE(t->c, ADD);
    *of_g = gs_sum_of_lanes(&sum) / (float)t->c;
    *of_gu = gs_sum_of_lanes(&with_u) / (float)t->c;
}
#undef ADD

/* forward: y = w u + b, so dx = rstd (g - sum g / c - u sum g u / c) */
static void dx_of_row(const layer_work *t, size_t i) {
    const float *x = t->x + i * t->c, *dy = t->dy + i * t->c, *w = t->w, mean = t->mean[i], rstd = t->rstd[i];
    float *restrict dx = t->dx + i * t->c, of_g, of_gu;
    means_of_row(t, i, &of_g, &of_gu);
    for (size_t k = 0; k < t->c; k++) dx[k] = rstd * (dy[k] * w[k] - of_g - (x[k] - mean) * rstd * of_gu);
}

static void block_of_rows(const layer_work *t, size_t block) {
    const size_t c = t->c, begin = block * t->rows, end = t->n - begin < t->rows ? t->n : begin + t->rows;
    float *restrict dw = t->part + block * 2 * c, *restrict db = dw + c;
    for (size_t k = 0; k < 2 * c; k++) dw[k] = 0;
    for (size_t i = begin; i < end; i++) {
        const float *x = t->x + i * c, *dy = t->dy + i * c, mean = t->mean[i], rstd = t->rstd[i];
        for (size_t k = 0; k < c; k++) {
            dw[k] += dy[k] * ((x[k] - mean) * rstd);
            db[k] += dy[k];
        }
        if (t->dx) dx_of_row(t, i);
    }
}

static void backward_part(void *context, int part) {
    const layer_work *t = context;
    const gs_range r = gs_cpu_tasks(t->blocks, part, t->parts);
    for (size_t block = r.begin; block < r.end; block++) block_of_rows(t, block);
}

gs_status GS_ISA(gs_cpu_layer_norm_backward)(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy,
                                             gs_mem x, gs_mem w, gs_mem mean, gs_mem rstd, size_t n, int c,
                                             bool add) {
    GS_TRY(GS_ISA(gs_cpu_rounded)(d, 1, &(gs_operand){&x, n * (size_t)c}));
    layer_work t = work_of(x, w, mean, rstd, n, c);
    t.dx = gs_cpu_floats(dx), t.dw = gs_cpu_floats(dw), t.db = gs_cpu_floats(db), t.dy = gs_cpu_floats(dy);
    t.rows = gs_layer_norm_block(n);
    t.blocks = (n + t.rows - 1) / t.rows;
    t.parts = gs_cpu_at_most(t.blocks, gs_cpu_parts(d, n * (size_t)c, 1 << 13));
    GS_TRY(gs_cpu_scratch(d, t.blocks * 2 * t.c, &t.part));
    gs_pool_run(gs_cpu_of(d)->pool, t.parts, backward_part, &t);
    for (size_t k = 0; k < t.c; k++) {
        float with_u = 0, sum = 0;
        for (const float *of = t.part + k, *end = of + t.blocks * 2 * t.c; of < end; of += 2 * t.c) {
            with_u += of[0];
            sum += of[t.c];
        }
        t.dw[k] = add ? t.dw[k] + with_u : with_u;
        t.db[k] = add ? t.db[k] + sum : sum;
    }
    return GS_OK;
}
