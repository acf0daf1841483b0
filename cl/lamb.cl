#include "common.clh"

/* For each parameter: g = scale dw;  m = beta1 m + rest1 g;  v = beta2 v + rest2 g g;  below FLT_MIN m and v are 0;
 * dw = rate (m / (root sqrt(v) + epsilon)) + l2 w.  Rounds as cpu/lamb.c does, without FMA (sgd.cl explains why). */
#define GS_LAMB(T, weight, gradient, first, second)                                                          \
    T g = s.scale * gradient;                                                                                \
    first = s.beta1 * first + s.rest1 * g;                                                                   \
    second = s.beta2 * second + s.rest2 * g * g;                                                             \
    first = fabs(first) < FLT_MIN ? (T)0 : first;                                                            \
    second = fabs(second) < FLT_MIN ? (T)0 : second;                                                         \
    gradient = s.rate * (first / (s.root * sqrt(second) + s.epsilon)) + s.l2 * (weight);

__kernel GS_OF_VECTORS void lamb_direction(__global float *dw, ulong dw_at, __global float *m, ulong m_at,
                                           __global float *v, ulong v_at, __global const float *w, ulong w_at,
                                           ulong count, adam_step s) {
    dw += dw_at;
    m += m_at;
    v += v_at;
    w += w_at;
    size_t i = GS_FIRST;
    if (i + GS_VECTOR <= count) {
        vec gradient = load(dw + i), first = load(m + i), second = load(v + i);
        GS_LAMB(vec, load(w + i), gradient, first, second)
        store(first, m + i);
        store(second, v + i);
        store(gradient, dw + i);
    } else {
        for (; i < count; i++) {
            GS_LAMB(float, w[i], dw[i], m[i], v[i])
        }
    }
}
