#include "stored.clh"
#include "sums.clh"

/* Batch normalisation. The formulas are in src/backend.h; u = (x - mean) / sqrt(var + eps).
 *
 * Sums have one work-group per channel, in blocks of images (gs_batch_norm_block). On a GPU, its work-items sum PAIRS
 * blocks at once; on a CPU, its only work-item reads planes vector by vector. Everything else has one work-item per
 * element for vector samples, and GS_LANES work-items per plane for images. */

typedef struct batch_norm {
    int c, plane;
    float eps, momentum;
} batch_norm;

#define CHANNEL (get_global_id(0) / SUMMERS)

static size_t images_of_block(batch_norm s) {
    return max(1024 / max(s.plane, 32), 1);
}

/* The sums of `by` and of by (x - middle) over the first n planes of channel c, where `by` is dy or, without dy, x -
 * middle. x ends at `end`. */
#define ADD(l, k, left)                                                                                      \
    add_deviations(&a, &b, l, x + i * sample + (k), end, dy + i * sample + (k), has_dy, middle, left)
static two sum_blocks(__global const stored *x, __global const stored *end, __global const flow *dy,
                      int has_dy, float middle, ulong n, batch_norm s, size_t c, __local two *part, int id) {
    const size_t sample = (size_t)s.c * s.plane, images = images_of_block(s);
    two sum = {0, 0};
    x += c * s.plane;
    dy += c * s.plane;
    for (size_t block = 0; block < n; block += images * PAIRS) {
        const size_t first = block + id / LANES * images, last = min((ulong)(first + images), n);
        lanes a = {{0}}, b = {{0}};
        for (size_t i = first; i < last; i++) EACH_LINE(id, s.plane, ADD);
        share_lanes(&a, &b, part, id);
        for (int i = 0; i < PAIRS; i++) {
            const two more = sums_of_lanes(&a, &b, part, i);
            sum.a += more.a;
            sum.b += more.b;
        }
    }
    return sum;
}
#undef ADD

#ifndef FLOATS_FLOW

/* mean = sum x / m;  var = sum (x - mean)^2 / m, from deviations from the first block's mean, as in
 * cpu/plain/batch_norm.c; n > 0 */
__kernel OF_SUMMERS void batch_norm_statistics(__global float *mean, ulong mean_at, __global float *var,
                                               ulong var_at, __global const flow *x, ulong x_at, ulong n,
                                               batch_norm s) {
    __local two part[SUMMERS];
    const size_t c = CHANNEL, few = min((ulong)images_of_block(s), n);
    const int id = SUMMER;
    if (c >= s.c) return; /* never true on a GPU */
    const float m = (float)n * (float)s.plane;
    x += x_at;
    __global const flow *end = x + n * s.c * s.plane;
    const float middle = sum_blocks(x, end, x, 0, 0, few, s, c, part, id).a / ((float)few * (float)s.plane);
    const two sum = sum_blocks(x, end, x, 0, middle, n, s, c, part, id);
    if (id != 0) return;
    const float share = sum.a / m, all = (sum.b - sum.a * share) / m;
    mean[mean_at + c] = middle + share;
    var[var_at + c] = all < 0 ? 0 : all; /* a NaN stays a NaN */
}

/* dmean (+)= samples ((1 - momentum) running_mean + momentum mean)
 * dvar (+)= samples ((1 - momentum) running_var + momentum var m / (m - 1)) */
__kernel void batch_norm_running(__global float *dmean, ulong dmean_at, __global float *dvar, ulong dvar_at,
                                 __global const float *running_mean, ulong running_mean_at,
                                 __global const float *running_var, ulong running_var_at,
                                 __global const float *mean, ulong mean_at, __global const float *var,
                                 ulong var_at, float m, float samples, batch_norm s, int add) {
    const size_t c = get_global_id(0);
    if (c >= s.c) return;
    const float keep = 1 - s.momentum, old = running_var[running_var_at + c];
    const float unbiased = m > 1 ? var[var_at + c] * (m / (m - 1)) : old;
    const float next_mean =
        samples * (keep * running_mean[running_mean_at + c] + s.momentum * mean[mean_at + c]);
    const float next_var = samples * (keep * old + s.momentum * unbiased);
    dmean += dmean_at + c;
    dvar += dvar_at + c;
    *dmean = add ? *dmean + next_mean : next_mean;
    *dvar = add ? *dvar + next_var : next_var;
}

#endif

/* forward: y = w u + b, so db = sum dy and dw = sum dy u */
__kernel OF_SUMMERS void batch_norm_sums(__global float *sums, ulong sums_at, __global float *dw, ulong dw_at,
                                         __global float *db, ulong db_at, __global const flow *dy,
                                         ulong dy_at, __global const stored *x, ulong x_at,
                                         __global const float *mean, ulong mean_at, __global const float *var,
                                         ulong var_at, ulong n, batch_norm s, int add) {
    __local two part[SUMMERS];
    const size_t c = CHANNEL;
    const int id = SUMMER;
    if (c >= s.c) return; /* never true on a GPU */
    x += x_at;
    const two sum = sum_blocks(x, x + n * s.c * s.plane, dy + dy_at, 1, mean[mean_at + c], n, s, c, part, id);
    if (id != 0) return;
    const float with_u = sum.b / sqrt(var[var_at + c] + s.eps);
    sums[sums_at + c] = sum.a;
    sums[sums_at + s.c + c] = with_u;
    db += db_at + c;
    dw += dw_at + c;
    *db = add ? *db + sum.a : sum.a;
    *dw = add ? *dw + with_u : with_u;
}

#ifndef FLOATS_FLOW

/* y = w u + b for images; work-item (plane GS_LANES + lane) */
__kernel GS_OF_VECTORS void
batch_norm_forward(__global flow *y, ulong y_at, __global const flow *x, ulong x_at, __global const float *w,
                   ulong w_at, __global const float *b, ulong b_at, __global const float *mean, ulong mean_at,
                   __global const float *var, ulong var_at, ulong planes, batch_norm s) {
    const size_t plane = GS_PLANE;
    if (plane >= planes) return;
    const size_t c = plane % s.c;
    const float scale = w[w_at + c] / sqrt(var[var_at + c] + s.eps), middle = mean[mean_at + c],
                shift = b[b_at + c];
    y += y_at + plane * s.plane;
    x += x_at + plane * s.plane;
    int p = GS_LANE * GS_VECTOR;
    for (; p + GS_VECTOR <= s.plane; p += GS_LANES * GS_VECTOR)
        store_flow((load_flow(x + p) - middle) * scale + shift, y + p);
    for (; p < s.plane; p++) store_one((flowing(x[p]) - middle) * scale + shift, y + p);
}

/* y = w u + b for vectors; work-item (channel, first sample) */
__kernel void batch_norm_forward_vectors(__global flow *y, ulong y_at, __global const flow *x, ulong x_at,
                                         __global const float *w, ulong w_at, __global const float *b,
                                         ulong b_at, __global const float *mean, ulong mean_at,
                                         __global const float *var, ulong var_at, ulong n, batch_norm s) {
    const size_t c = get_global_id(0);
    if (c >= s.c) return;
    const float scale = w[w_at + c] / sqrt(var[var_at + c] + s.eps);
    for (size_t sample = get_global_id(1); sample < n; sample += get_global_size(1)) {
        const size_t i = sample * s.c + c;
        store_one((flowing(x[x_at + i]) - mean[mean_at + c]) * scale + b[b_at + c], y + y_at + i);
    }
}

#endif

/* forward: y = w u + b, so dx = w / sqrt(var + eps) (dy - sums[0] / m - u sums[1] / m); without has_sums the sums count
 * as 0 and are not read */
typedef struct factors {
    float scale, of_dy, of_x, middle;
} factors;

static factors factors_of(__global const float *w, __global const float *mean, __global const float *var,
                          __global const float *sums, int has_sums, float m, batch_norm s, size_t c) {
    const float deviation = sqrt(var[c] + s.eps);
    const factors f = {w[c] / deviation, has_sums ? sums[c] / m : 0,
                       has_sums ? sums[s.c + c] / m / deviation : 0, mean[c]};
    return f;
}

__kernel GS_OF_VECTORS void batch_norm_backward(__global flow *dx, ulong dx_at, __global const flow *dy,
                                                ulong dy_at, __global const stored *x, ulong x_at,
                                                __global const float *w, ulong w_at,
                                                __global const float *mean, ulong mean_at,
                                                __global const float *var, ulong var_at,
                                                __global const float *sums, ulong sums_at, int has_sums,
                                                float m, ulong planes, batch_norm s) {
    const size_t plane = GS_PLANE;
    if (plane >= planes) return;
    const factors f =
        factors_of(w + w_at, mean + mean_at, var + var_at, sums + sums_at, has_sums, m, s, plane % s.c);
    dx += dx_at + plane * s.plane;
    dy += dy_at + plane * s.plane;
    x += x_at + plane * s.plane;
    int p = GS_LANE * GS_VECTOR;
    for (; p + GS_VECTOR <= s.plane; p += GS_LANES * GS_VECTOR)
        store_flow(f.scale * (load_flow(dy + p) - f.of_dy - (load_stored(x + p) - f.middle) * f.of_x),
                   dx + p);
    for (; p < s.plane; p++)
        store_one(f.scale * (flowing(dy[p]) - f.of_dy - (number(x[p]) - f.middle) * f.of_x), dx + p);
}

__kernel void batch_norm_backward_vectors(__global flow *dx, ulong dx_at, __global const flow *dy,
                                          ulong dy_at, __global const stored *x, ulong x_at,
                                          __global const float *w, ulong w_at, __global const float *mean,
                                          ulong mean_at, __global const float *var, ulong var_at,
                                          __global const float *sums, ulong sums_at, int has_sums, float m,
                                          ulong n, batch_norm s) {
    const size_t c = get_global_id(0);
    if (c >= s.c) return;
    const factors f = factors_of(w + w_at, mean + mean_at, var + var_at, sums + sums_at, has_sums, m, s, c);
    for (size_t sample = get_global_id(1); sample < n; sample += get_global_size(1)) {
        const size_t i = sample * s.c + c;
        store_one(f.scale * (flowing(dy[dy_at + i]) - f.of_dy - (number(x[x_at + i]) - f.middle) * f.of_x),
                  dx + dx_at + i);
    }
}
