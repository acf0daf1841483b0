/* Layer normalisation; cpu/plain/layer_norm.c shows the formulas.
 *
 * A row is read once for its mean and again for its variance; it is so short that it is then still in the cache. Sums
 * over a row are added in sixteen lanes.
 *
 * dw and db are sums over all rows. The rows are cut into chunks whose size depends only on their number, and the
 * chunks' sums are added in order, so results are bitwise identical for any number of threads. */
#include "cpu/round16.h"

#include <math.h>

enum { SIDE = 16, LEAST_ROWS = 32, MOST_CHUNKS = 128 };

typedef struct layer_work {
    size_t n, c, rows, chunks; /* rows: per chunk */
    const float *x, *dy, *w, *b;
    float *y, *dx, *mean, *rstd, *dw, *db, *part; /* part: sum dy u, then sum dy (c values each) per chunk */
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

static void cut_rows(layer_work *t) {
    t->rows = (t->n + MOST_CHUNKS - 1) / MOST_CHUNKS;
    if (t->rows < LEAST_ROWS) t->rows = LEAST_ROWS;
    t->chunks = (t->n + t->rows - 1) / t->rows;
}

/* Adds pairs, then pairs of the sums: sixteen dependent additions would take as long as the rest of a short row. */
static double sum_of(const gs_float16 *v) {
    double pair[SIDE / 2];
    for (int j = 0; j < SIDE / 2; j++) pair[j] = (double)(*v)[j] + (double)(*v)[j + SIDE / 2];
    for (int j = 0; j < SIDE / 4; j++) pair[j] += pair[j + SIDE / 4];
    return (pair[0] + pair[2]) + (pair[1] + pair[3]);
}

/* ---- forward ---- */

/* Two passes, for the reason explained in batch_norm.c. */
static void statistics_of_row(const float *x, size_t c, float eps, float *mean, float *rstd) {
    gs_float16 sum = {0}, off = {0}, squares = {0};
    const size_t whole = c / SIDE * SIDE;
    for (size_t k = 0; k < whole; k += SIDE) sum += *(const gs_float16 *)(x + k);
    double all = sum_of(&sum), all_off, all_squares;
    for (size_t k = whole; k < c; k++) all += (double)x[k];
    const float middle = (float)(all / (double)c);
    for (size_t k = 0; k < whole; k += SIDE) {
        const gs_float16 o = *(const gs_float16 *)(x + k) - middle;
        off += o;
        squares += o * o;
    }
    all_off = sum_of(&off);
    all_squares = sum_of(&squares);
    for (size_t k = whole; k < c; k++) {
        const float o = x[k] - middle;
        all_off += (double)o;
        all_squares += (double)(o * o);
    }
    const double var = (all_squares - all_off * all_off / (double)c) / (double)c;
    *mean = (float)((double)middle + all_off / (double)c);
    *rstd = (float)(1 / sqrt((var < 0 ? 0 : var) + (double)eps)); /* a NaN stays a NaN */
}

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

/* ---- backward ---- */

/* sum g / c and sum g u / c of a row, g = dy w */
static void means_of_row(const layer_work *t, size_t i, float *of_g, float *of_gu) {
    const float *x = t->x + i * t->c, *dy = t->dy + i * t->c, *w = t->w, mean = t->mean[i], rstd = t->rstd[i];
    const size_t whole = t->c / SIDE * SIDE;
    gs_float16 sum = {0}, with_u = {0};
    for (size_t k = 0; k < whole; k += SIDE) {
        const gs_float16 g = *(const gs_float16 *)(dy + k) * *(const gs_float16 *)(w + k);
        sum += g;
        with_u += g * ((*(const gs_float16 *)(x + k) - mean) * rstd);
    }
    double all = sum_of(&sum), all_with_u = sum_of(&with_u);
    for (size_t k = whole; k < t->c; k++) {
        const float g = dy[k] * w[k];
        all += (double)g;
        all_with_u += (double)(g * ((x[k] - mean) * rstd));
    }
    *of_g = (float)(all / (double)t->c);
    *of_gu = (float)(all_with_u / (double)t->c);
}

/* forward: y = w u + b, so dx = rstd (g - sum g / c - u sum g u / c) */
static void dx_of_row(const layer_work *t, size_t i) {
    const float *x = t->x + i * t->c, *dy = t->dy + i * t->c, *w = t->w, mean = t->mean[i], rstd = t->rstd[i];
    float *restrict dx = t->dx + i * t->c, of_g, of_gu;
    means_of_row(t, i, &of_g, &of_gu);
    for (size_t k = 0; k < t->c; k++) dx[k] = rstd * (dy[k] * w[k] - of_g - (x[k] - mean) * rstd * of_gu);
}

static void chunk_of_rows(const layer_work *t, size_t chunk) {
    const size_t c = t->c, begin = chunk * t->rows, end = t->n - begin < t->rows ? t->n : begin + t->rows;
    float *restrict dw = t->part + chunk * 2 * c, *restrict db = dw + c;
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
    const gs_range r = gs_cpu_tasks(t->chunks, part, t->parts);
    for (size_t chunk = r.begin; chunk < r.end; chunk++) chunk_of_rows(t, chunk);
}

gs_status GS_ISA(gs_cpu_layer_norm_backward)(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy,
                                             gs_mem x, gs_mem w, gs_mem mean, gs_mem rstd, size_t n, int c,
                                             bool add) {
    GS_TRY(GS_ISA(gs_cpu_rounded)(d, 1, &(gs_operand){&x, n * (size_t)c}));
    layer_work t = work_of(x, w, mean, rstd, n, c);
    t.dx = gs_cpu_floats(dx), t.dw = gs_cpu_floats(dw), t.db = gs_cpu_floats(db), t.dy = gs_cpu_floats(dy);
    cut_rows(&t);
    t.parts = gs_cpu_at_most(t.chunks, gs_cpu_parts(d, n * (size_t)c, 1 << 13));
    GS_TRY(gs_cpu_scratch(d, t.chunks * 2 * t.c, &t.part));
    gs_pool_run(gs_cpu_of(d)->pool, t.parts, backward_part, &t);
    for (size_t k = 0; k < t.c; k++) {
        double with_u = 0, sum = 0;
        for (size_t chunk = 0; chunk < t.chunks; chunk++) {
            with_u += (double)t.part[chunk * 2 * t.c + k];
            sum += (double)t.part[chunk * 2 * t.c + t.c + k];
        }
        t.dw[k] = (add ? t.dw[k] : 0) + (float)with_u;
        t.db[k] = (add ? t.db[k] : 0) + (float)sum;
    }
    return GS_OK;
}
