#include "common.clh"

/* For each parameter: g = scale dw + l2 w;  m = beta1 m + rest1 g;  v = beta2 v + rest2 g g;  below FLT_MIN m and v are
 * 0;  w = keep w - rate (m / (root sqrt(v) + epsilon)).  Rounds as cpu/adam.c does, without FMA (sgd.cl explains why).
 * build.c requests correctly rounded quotients and square roots, where the device offers them. */
#define GS_ADAM(T, weight, gradient, first, second)                                                          \
    T g = s.scale * (gradient) + s.l2 * weight;                                                              \
    first = s.beta1 * first + s.rest1 * g;                                                                   \
    second = s.beta2 * second + s.rest2 * g * g;                                                             \
    first = fabs(first) < FLT_MIN ? (T)0 : first;                                                            \
    second = fabs(second) < FLT_MIN ? (T)0 : second;                                                         \
    weight = s.keep * weight - s.rate * (first / (s.root * sqrt(second) + s.epsilon));

__kernel GS_OF_VECTORS void adam_update(__global float *w, ulong w_at, __global float *m, ulong m_at,
                                        __global float *v, ulong v_at, __global const float *dw, ulong dw_at,
                                        ulong count, adam_step s) {
    w += w_at;
    m += m_at;
    v += v_at;
    dw += dw_at;
    size_t i = GS_FIRST;
    if (i + GS_VECTOR <= count) {
        vec weight = load(w + i), first = load(m + i), second = load(v + i);
        GS_ADAM(vec, weight, load(dw + i), first, second)
        store(first, m + i);
        store(second, v + i);
        store(weight, w + i);
    } else {
        for (; i < count; i++) {
            GS_ADAM(float, w[i], dw[i], m[i], v[i])
        }
    }
}
