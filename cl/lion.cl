#include "common.clh"

/* For each parameter: g = scale dw;  c = beta1 m + rest1 g;  m = beta2 m + rest2 g, or 0 below FLT_MIN;
 * w = keep w - rate sign(c).  Rounds as cpu/lion.c does, without FMA (sgd.cl explains why). */
#define GS_LION(T, weight, gradient, moment)                                                                 \
    T g = s.scale * (gradient), c = s.beta1 * moment + s.rest1 * g;                                          \
    moment = s.beta2 * moment + s.rest2 * g;                                                                 \
    moment = fabs(moment) < FLT_MIN ? (T)0 : moment;                                                         \
    c = c > 0 ? (T)s.rate : c < 0 ? (T)(-s.rate) : c;                                                        \
    weight = s.keep * weight - c;

__kernel GS_OF_VECTORS void lion_update(__global float *w, ulong w_at, __global float *m, ulong m_at,
                                        __global const float *v, ulong v_at, __global const float *dw,
                                        ulong dw_at, ulong count, adam_step s) {
    w += w_at;
    m += m_at;
    dw += dw_at;
    size_t i = GS_FIRST;
    if (i + GS_VECTOR <= count) {
        vec weight = load(w + i), moment = load(m + i);
        GS_LION(vec, weight, load(dw + i), moment)
        store(moment, m + i);
        store(weight, w + i);
    } else {
        for (; i < count; i++) {
            GS_LION(float, w[i], dw[i], m[i])
        }
    }
}
