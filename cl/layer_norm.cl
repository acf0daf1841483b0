#include "stored.clh"
#include "sums.clh"

/* Layer normalisation. The formulas are in src/backend.h; u = (x - mean) rstd.
 *
 * One work-group per row: on a GPU its SUMMERS work-items share the row; on a CPU its only work-item processes the row
 * vector by vector. For dw and db: one work-item per column of each chunk of rows, then one per column. */

#define ROW (get_global_id(0) / SUMMERS)
#define SUMMER ((int)(get_global_id(0) % SUMMERS))
/* A work-item's part of a row: every SUMMERS-th vector and, on a CPU, the remainder. */
#define EACH_VECTOR(k) for (k = id * GS_VECTOR; k + GS_VECTOR <= c; k += SUMMERS * GS_VECTOR)

#ifndef FLOATS_FLOW

/* This work-item's part of (sum (x - middle), sum (x - middle)^2). */
static two deviations(__global const flow *x, float middle, int c, int id) {
    vec a = 0, b = 0;
    int k;
    EACH_VECTOR(k) {
        const vec off = load_flow(x + k) - middle;
        a += off;
        b += off * off;
    }
    two sum = {sum_of(a), sum_of(b)};
    for (; k < c; k++) {
        const float off = flowing(x[k]) - middle;
        sum.a += off;
        sum.b += off * off;
    }
    return sum;
}

/* y = w u + b; mean and rstd by the corrected two-pass algorithm (cpu/batch_norm.c) */
__kernel OF_SUMMERS void layer_norm_forward(__global flow *y, ulong y_at, __global float *mean, ulong mean_at,
                                            __global float *rstd, ulong rstd_at, __global const flow *x,
                                            ulong x_at, __global const float *w, ulong w_at,
                                            __global const float *b, ulong b_at, ulong n, int c, float eps) {
    __local two part[SUMMERS];
    const size_t row = ROW;
    const int id = SUMMER;
    int k;
    if (row >= n) return; /* never true on a GPU */
    x += x_at + row * c;
    y += y_at + row * c;
    w += w_at;
    b += b_at;
    two sum = sum_all(deviations(x, 0, c, id), part, id);
    const float first = sum.a / c;
    sum = sum_all(deviations(x, first, c, id), part, id);
    const float middle = first + sum.a / c, var = (sum.b - sum.a * (sum.a / c)) / c;
    const float scale = 1.0f / sqrt((var < 0 ? 0 : var) + eps); /* a NaN stays a NaN */
    EACH_VECTOR(k) store_flow(load(w + k) * ((load_flow(x + k) - middle) * scale) + load(b + k), y + k);
    for (; k < c; k++) store_one(w[k] * ((flowing(x[k]) - middle) * scale) + b[k], y + k);
    if (id != 0) return;
    mean[mean_at + row] = middle;
    rstd[rstd_at + row] = scale;
}

#endif

/* part = for each chunk: sum dy u (c values), sum dy (c values) */
__kernel void layer_norm_chunks(__global float *part, __global const flow *dy, ulong dy_at,
                                __global const stored *x, ulong x_at, __global const float *mean,
                                ulong mean_at, __global const float *rstd, ulong rstd_at, ulong n, ulong rows,
                                int c) {
    const size_t k = get_global_id(0), chunk = get_global_id(1), begin = chunk * rows,
                 end = min((ulong)(begin + rows), n);
    float dw = 0, db = 0;
    if (k >= c) return;
    for (size_t i = begin; i < end; i++) {
        const float from = flowing(dy[dy_at + i * c + k]);
        dw += from * ((number(x[x_at + i * c + k]) - mean[mean_at + i]) * rstd[rstd_at + i]);
        db += from;
    }
    part[chunk * 2 * c + k] = dw;
    part[chunk * 2 * c + c + k] = db;
}

#ifdef STORED_FLOATS

/* forward: y = w u + b, so db = sum dy and dw = sum dy u */
__kernel void layer_norm_sums(__global float *dw, ulong dw_at, __global float *db, ulong db_at,
                              __global const float *part, ulong chunks, int c, int add) {
    const size_t k = get_global_id(0);
    float with_u = 0, sum = 0;
    if (k >= c) return;
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        with_u += part[chunk * 2 * c + k];
        sum += part[chunk * 2 * c + c + k];
    }
    dw += dw_at + k;
    db += db_at + k;
    *dw = add ? *dw + with_u : with_u;
    *db = add ? *db + sum : sum;
}

#endif

/* dx = rstd (g - sum g / c - u sum g u / c), g = dy w */
__kernel OF_SUMMERS void layer_norm_backward(__global flow *dx, ulong dx_at, __global const flow *dy,
                                             ulong dy_at, __global const stored *x, ulong x_at,
                                             __global const float *w, ulong w_at, __global const float *mean,
                                             ulong mean_at, __global const float *rstd, ulong rstd_at,
                                             ulong n, int c) {
    __local two part[SUMMERS];
    const size_t row = ROW;
    const int id = SUMMER;
    vec a = 0, b = 0;
    int k;
    if (row >= n) return; /* never true on a GPU */
    dx += dx_at + row * c;
    dy += dy_at + row * c;
    x += x_at + row * c;
    w += w_at;
    const float middle = mean[mean_at + row], scale = rstd[rstd_at + row];
    EACH_VECTOR(k) {
        const vec g = load_flow(dy + k) * load(w + k);
        a += g;
        b += g * ((load_stored(x + k) - middle) * scale);
    }
    two mine = {sum_of(a), sum_of(b)};
    for (; k < c; k++) {
        const float g = flowing(dy[k]) * w[k];
        mine.a += g;
        mine.b += g * ((number(x[k]) - middle) * scale);
    }
    const two sum = sum_all(mine, part, id);
    const float of_g = sum.a / c, of_gu = sum.b / c;
    EACH_VECTOR(k)
    store_flow(scale *
                   (load_flow(dy + k) * load(w + k) - of_g - (load_stored(x + k) - middle) * scale * of_gu),
               dx + k);
    for (; k < c; k++)
        store_one(scale * (flowing(dy[k]) * w[k] - of_g - (number(x[k]) - middle) * scale * of_gu), dx + k);
}
