#include "cpu/plain/plain.h"

#include <float.h>

static float or_zero(float x) {
    return fabsf(x) < FLT_MIN ? 0 : x;
}

/* m = beta1 m + rest1 g;  v = beta2 v + rest2 g g;  0 below FLT_MIN;  step = rate (m / (root sqrt(v) + epsilon)) */
static float step_of(float *m, float *v, float g, gs_adam_step s) {
    *m = or_zero(s.beta1 * *m + s.rest1 * g);
    *v = or_zero(s.beta2 * *v + s.rest2 * g * g);
    return s.rate * (*m / (s.root * sqrtf(*v) + s.epsilon));
}

/* w = keep w - the step of g = scale dw + l2 w */
gs_status gs_plain_adam_update(gs_device *d, gs_mem w_, gs_mem m_, gs_mem v_, gs_mem dw_, size_t count,
                               gs_adam_step s) {
    (void)d;
    float *w = gs_plain_at(w_), *m = gs_plain_at(m_), *v = gs_plain_at(v_), *dw = gs_plain_at(dw_);
    for (size_t i = 0; i < count; i++)
        w[i] = s.keep * w[i] - step_of(&m[i], &v[i], s.scale * dw[i] + s.l2 * w[i], s);
    return GS_OK;
}

/* dw = the step of g = scale dw, + l2 w */
gs_status gs_plain_lamb_direction(gs_device *d, gs_mem dw_, gs_mem m_, gs_mem v_, gs_mem w_, size_t count,
                                  gs_adam_step s) {
    (void)d;
    float *w = gs_plain_at(w_), *m = gs_plain_at(m_), *v = gs_plain_at(v_), *dw = gs_plain_at(dw_);
    for (size_t i = 0; i < count; i++) dw[i] = step_of(&m[i], &v[i], s.scale * dw[i], s) + s.l2 * w[i];
    return GS_OK;
}

/* g = scale dw;  c = beta1 m + rest1 g;  m = beta2 m + rest2 g, or 0 below FLT_MIN;  w = keep w - rate sign(c) */
gs_status gs_plain_lion_update(gs_device *d, gs_mem w_, gs_mem m_, gs_mem v_, gs_mem dw_, size_t count,
                               gs_adam_step s) {
    (void)d, (void)v_;
    float *w = gs_plain_at(w_), *m = gs_plain_at(m_), *dw = gs_plain_at(dw_);
    for (size_t i = 0; i < count; i++) {
        float g = s.scale * dw[i], c = s.beta1 * m[i] + s.rest1 * g;
        m[i] = or_zero(s.beta2 * m[i] + s.rest2 * g);
        w[i] = s.keep * w[i] - (c > 0 ? s.rate : c < 0 ? -s.rate : c); /* a NaN stays a NaN */
    }
    return GS_OK;
}
