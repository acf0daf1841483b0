#include "common.clh"

/* For each parameter: g = scale dw + weight_decay w;  v = momentum v + g, or 0 below FLT_MIN;
 * w -= lr (g + momentum v).  Rounds as cpu/nesterov.c does, without FMA (sgd.cl explains why). */
__kernel GS_OF_VECTORS void nesterov_update(__global float *w, ulong w_at, __global float *v, ulong v_at,
                                            __global const float *dw, ulong dw_at, ulong count, float scale,
                                            float lr, float momentum, float weight_decay) {
    w += w_at;
    v += v_at;
    dw += dw_at;
    size_t i = GS_FIRST;
    if (i + GS_VECTOR <= count) {
        vec weight = load(w + i), g = scale * load(dw + i) + weight_decay * weight;
        vec velocity = momentum * load(v + i) + g;
        velocity = fabs(velocity) < FLT_MIN ? (vec)0 : velocity;
        store(velocity, v + i);
        store(weight - lr * (g + momentum * velocity), w + i);
    } else {
        for (; i < count; i++) {
            float g = scale * dw[i] + weight_decay * w[i], velocity = momentum * v[i] + g;
            v[i] = velocity = fabs(velocity) < FLT_MIN ? 0 : velocity;
            w[i] -= lr * (g + momentum * velocity);
        }
    }
}
