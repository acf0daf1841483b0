#include "common.clh"
#include "largest.clh"

/* loss = (1/k) sum_j (x[j] - t[j])^2, correct = the largest x and the largest t are at the same j; one work-item per
 * sample. part: n losses, then n flags, 1 (correct) or 0. */
__kernel void mean_squared_error_forward(__global float *part, ulong part_at, __global const float *x,
                                         ulong x_at, __global const float *t, ulong t_at, ulong n, int k) {
    size_t i = get_global_id(0);
    if (i >= n) return;
    part += part_at;
    x += x_at + i * k;
    t += t_at + i * k;
    float sum = 0;
    for (int j = 0; j < k; j++) sum += (x[j] - t[j]) * (x[j] - t[j]);
    part[i] = sum / k;
    part[n + i] = largest_of(x, k) == largest_of(t, k) ? 1.0f : 0.0f;
}

/* forward: loss = sum over samples of (1/k) sum_j (x[j] - t[j])^2, so dloss/dx = (2/k) (x - t) */
__kernel void mean_squared_error_backward(__global float *dx, ulong dx_at, __global const float *x,
                                          ulong x_at, __global const float *t, ulong t_at, ulong count,
                                          float scale) {
    size_t i = get_global_id(0);
    if (i < count) dx[dx_at + i] = scale * (x[x_at + i] - t[t_at + i]);
}
