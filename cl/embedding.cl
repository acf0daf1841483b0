#include "stored.clh"

/* The table row that x names; -1: none (cpu/cpu.h) */
static int row_of(float x, int rows) {
    if (!(x >= 0 && x < (float)rows)) return -1;
    const int row = (int)x;
    return (float)row == x ? row : -1;
}

/* y[i] = w[x[i] - first]; work-item (column, first token) */
__kernel void embedding_forward(__global flow *y, ulong y_at, __global const float *x, ulong x_at,
                                __global const float *w, ulong w_at, ulong n, int rows, int c, int first,
                                float other) {
    const size_t k = get_global_id(0);
    if (k >= c) return;
    for (size_t i = get_global_id(1); i < n; i += get_global_size(1)) {
        const int row = row_of(x[x_at + i] - first, rows);
        store_one(row < 0 ? other : w[w_at + (size_t)row * c + k], y + y_at + i * c + k);
    }
}

/* forward: y[i] = w[x[i] - first], so dw[r] is the sum of dy[i] over the i with x[i] = first + r.
 *
 * Several tokens may name the same row. Atomic additions would run in random order, so each work-item owns some columns
 * of every `slices`-th row, and loops over all tokens in order: reading an element that all work-items read is cheap.
 * Work-item (first column, slice); on a CPU it owns all columns. */
__kernel void embedding_backward(__global float *dw, ulong dw_at, __global const flow *dy, ulong dy_at,
                                 __global const float *x, ulong x_at, ulong n, int rows, int c, int first,
                                 int slices) {
    const int slice = (int)get_global_id(1);
    dw += dw_at;
    dy += dy_at;
    x += x_at;
    for (size_t i = 0; i < n; i++) {
        const int row = row_of(x[i] - first, rows);
        if (row < 0 || rest(row, slices) != slice) continue;
        for (size_t k = get_global_id(0); k < c; k += get_global_size(0))
            dw[(size_t)row * c + k] += flowing(dy[i * c + k]);
    }
}
