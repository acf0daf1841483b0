#include "stored.clh"

/* Each work-item handles GS_VECTOR neighbouring k; the last one handles the remainder. */

/* y[i][k] = x[i][k] + w[k]; y may be x; work-item (k, first sample) */
__kernel GS_OF_VECTORS void positions_forward(__global flow *y, ulong y_at, __global const flow *x,
                                              ulong x_at, __global const float *w, ulong w_at, ulong n,
                                              ulong count) {
    const size_t k = GS_FIRST;
    y += y_at;
    x += x_at;
    w += w_at;
    for (size_t i = get_global_id(1); i < n; i += get_global_size(1)) {
        if (k + GS_VECTOR <= count)
            store_flow(load_flow(x + i * count + k) + load(w + k), y + i * count + k);
        else
            for (size_t j = k; j < count; j++) store_one(flowing(x[i * count + j]) + w[j], y + i * count + j);
    }
}

/* forward: y = x + w, so dw[k] = sum_i dy[i][k], in the order of i */
__kernel GS_OF_VECTORS void positions_backward(__global float *dw, ulong dw_at, __global const flow *dy,
                                               ulong dy_at, ulong n, ulong count, int add) {
    const size_t k = GS_FIRST;
    dw += dw_at;
    dy += dy_at;
    if (k + GS_VECTOR <= count) {
        vec sum = 0;
        if (add) sum = load(dw + k);
        for (size_t i = 0; i < n; i++) sum += load_flow(dy + i * count + k);
        store(sum, dw + k);
        return;
    }
    for (size_t j = k; j < count; j++) {
        float sum = add ? dw[j] : 0;
        for (size_t i = 0; i < n; i++) sum += flowing(dy[i * count + j]);
        dw[j] = sum;
    }
}
