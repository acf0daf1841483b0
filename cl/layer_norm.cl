#include "stored.clh"
#include "sums.clh"

/* Layer normalisation. The formulas are in src/backend.h; u = (x - mean) rstd.
 *
 * On a GPU HOLDERS work-items share a row; on a CPU one work-item processes it vector by vector. For dw and db: one
 * work-item per column of each block of rows, then one per column. */

#define ROW (get_global_id(0) / HOLDERS)
/* A work-item's part of a row: every HOLDERS-th vector and, on a CPU, the remainder. */
#define EACH_VECTOR(k) for (k = id % HOLDERS * GS_VECTOR; k + GS_VECTOR <= c; k += HOLDERS * GS_VECTOR)

#ifndef FLOATS_FLOW

/* sum (x - middle) and sum (x - middle)^2 of a row */
#define ADD(l, k, left) add_deviations(&a, &b, l, x + (k), end, x, 0, middle, left)
static two deviations(__global const flow *x, __global const flow *end, float middle, int c,
                      __local two *part, int id) {
    lanes a = {{0}}, b = {{0}};
    EACH_LINE(id, c, ADD);
    share_lanes(&a, &b, part, id);
    return sums_of_lanes(&a, &b, part, id / LANES);
}
#undef ADD

/* y = w u + b; mean and rstd as in cpu/plain/layer_norm.c */
__kernel OF_SUMMERS void layer_norm_forward(__global flow *y, ulong y_at, __global float *mean, ulong mean_at,
                                            __global float *rstd, ulong rstd_at, __global const flow *x,
                                            ulong x_at, __global const float *w, ulong w_at,
                                            __global const float *b, ulong b_at, ulong n, int c, float eps) {
    __local two part[SUMMERS];
    const size_t row = min((ulong)ROW, n - 1); /* all work-items of a group reach its barriers */
    const int id = SUMMER;
    int k;
    x += x_at + row * c;
    y += y_at + row * c;
    w += w_at;
    b += b_at;
    __global const flow *end = x + (n - row) * c;
    const float first = deviations(x, end, 0, c, part, id).a / c;
    const two sum = deviations(x, end, first, c, part, id);
    const float share = sum.a / c, var = (sum.b - sum.a * share) / c, middle = first + share;
    const float scale = 1.0f / sqrt((var < 0 ? 0 : var) + eps); /* a NaN stays a NaN */
    if (ROW >= n) return;
    EACH_VECTOR(k) store_flow(load(w + k) * ((load_flow(x + k) - middle) * scale) + load(b + k), y + k);
    for (; k < c; k++) store_one(w[k] * ((flowing(x[k]) - middle) * scale) + b[k], y + k);
    if (id % HOLDERS != 0) return;
    mean[mean_at + row] = middle;
    rstd[rstd_at + row] = scale;
}

#endif

/* part = for each block: sum dy u (c values), sum dy (c values) */
__kernel void layer_norm_blocks(__global float *part, __global const flow *dy, ulong dy_at,
                                __global const stored *x, ulong x_at, __global const float *mean,
                                ulong mean_at, __global const float *rstd, ulong rstd_at, ulong n, ulong rows,
                                int c) {
    const size_t k = get_global_id(0), block = get_global_id(1), begin = block * rows,
                 end = min((ulong)(begin + rows), n);
    float dw = 0, db = 0;
    if (k >= c) return;
    for (size_t i = begin; i < end; i++) {
        const float from = flowing(dy[dy_at + i * c + k]);
        dw += from * ((number(x[x_at + i * c + k]) - mean[mean_at + i]) * rstd[rstd_at + i]);
        db += from;
    }
    part[block * 2 * c + k] = dw;
    part[block * 2 * c + c + k] = db;
}

#ifdef STORED_FLOATS

/* forward: y = w u + b, so db = sum dy and dw = sum dy u */
__kernel void layer_norm_sums(__global float *dw, ulong dw_at, __global float *db, ulong db_at,
                              __global const float *part, ulong blocks, int c, int add) {
    const size_t k = get_global_id(0);
    float with_u = 0, sum = 0;
    if (k >= c) return;
    for (size_t block = 0; block < blocks; block++) {
        with_u += part[block * 2 * c + k];
        sum += part[block * 2 * c + c + k];
    }
    dw += dw_at + k;
    db += db_at + k;
    *dw = add ? *dw + with_u : with_u;
    *db = add ? *db + sum : sum;
}

#endif

/* Add a vector's terms g = dy w and g u (add_deviations in sums.clh). */
static void add_gradients(lanes *a, lanes *b, int l, __global const flow *dy, __global const stored *x,
                          __global const stored *end, __global const float *w, float middle, float scale,
                          int left) {
    const vec of_w = left >= GS_VECTOR ? load(w) : load_first(w, left);
    const vec g = keep_first(LOAD(flow, dy, end - x, left) * of_w, left);
    a->line[l] += g;
    b->line[l] += g * (keep_first(LOAD(stored, x, end - x, left) - middle, left) * scale);
}

/* dx = rstd (g - sum g / c - u sum g u / c), g = dy w */
#define ADD(l, k, left) add_gradients(&a, &b, l, dy + (k), x + (k), end, w + (k), middle, scale, left)
__kernel OF_SUMMERS void layer_norm_backward(__global flow *dx, ulong dx_at, __global const flow *dy,
                                             ulong dy_at, __global const stored *x, ulong x_at,
                                             __global const float *w, ulong w_at, __global const float *mean,
                                             ulong mean_at, __global const float *rstd, ulong rstd_at,
                                             ulong n, int c) {
    __local two part[SUMMERS];
    const size_t row = min((ulong)ROW, n - 1); /* all work-items of a group reach its barriers */
    const int id = SUMMER;
    lanes a = {{0}}, b = {{0}};
    int k;
    dx += dx_at + row * c;
    dy += dy_at + row * c;
    x += x_at + row * c;
    w += w_at;
    __global const stored *end = x + (n - row) * c;
    const float middle = mean[mean_at + row], scale = rstd[rstd_at + row];
    EACH_LINE(id, c, ADD);
    share_lanes(&a, &b, part, id);
    const two sum = sums_of_lanes(&a, &b, part, id / LANES);
    const float of_g = sum.a / c, of_gu = sum.b / c;
    if (ROW >= n) return;
    EACH_VECTOR(k)
    store_flow(scale *
                   (load_flow(dy + k) * load(w + k) - of_g - (load_stored(x + k) - middle) * scale * of_gu),
               dx + k);
    for (; k < c; k++)
        store_one(scale * (flowing(dy[k]) * w[k] - of_g - (number(x[k]) - middle) * scale * of_gu), dx + k);
}
