#include "common.clh"

/* For each parameter: g = scale dw + weight_decay w; v = momentum v + g; w -= lr v. A v below FLT_MIN becomes 0,
 * because CPUs are slow on such numbers (see cpu/sgd.c). Each array is read once and written once: memory bandwidth
 * limits the update. Without momentum v is not touched. All workers repeat the update, so every device must give the
 * same bits: each product and each sum is rounded separately, in the order of cpu/sgd.c. If a compiler contracted two
 * of them into an FMA, a cl worker would drift away from a cpu worker. */
__kernel GS_OF_VECTORS void sgd_update(__global float *w, ulong w_at, __global float *v, ulong v_at,
                                       __global const float *dw, ulong dw_at, ulong count, float scale,
                                       float lr, float momentum, float weight_decay) {
    w += w_at;
    v += v_at;
    dw += dw_at;
    size_t i = GS_FIRST;
    if (i + GS_VECTOR <= count) {
        vec weight = load(w + i), g = scale * load(dw + i) + weight_decay * weight;
        if (momentum != 0) {
            g += momentum * load(v + i);
            g = fabs(g) < FLT_MIN ? (vec)0 : g;
            store(g, v + i);
        }
        store(weight - lr * g, w + i);
    } else {
        for (; i < count; i++) {
            float g = scale * dw[i] + weight_decay * w[i];
            if (momentum != 0) {
                g += momentum * v[i];
                v[i] = g = fabs(g) < FLT_MIN ? 0 : g;
            }
            w[i] -= lr * g;
        }
    }
}
