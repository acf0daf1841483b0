#include "cpu/plain/plain.h"

#include <float.h>
#include <math.h>

/* g = scale dw;  c = beta1 m + rest1 g;  m = beta2 m + rest2 g, or 0 below FLT_MIN;  w = keep w - rate sign(c) */
gs_status gs_plain_lion_update(gs_device *d, gs_mem w_, gs_mem m_, gs_mem v_, gs_mem dw_, size_t count,
                               gs_adam_step s) {
    (void)d, (void)v_;
    float *w = gs_plain_at(w_), *m = gs_plain_at(m_), *dw = gs_plain_at(dw_);
    for (size_t i = 0; i < count; i++) {
        float g = s.scale * dw[i], c = s.beta1 * m[i] + s.rest1 * g;
        m[i] = s.beta2 * m[i] + s.rest2 * g;
        if (fabsf(m[i]) < FLT_MIN) m[i] = 0;
        w[i] = s.keep * w[i] - (c > 0 ? s.rate : c < 0 ? -s.rate : c); /* a NaN stays a NaN */
    }
    return GS_OK;
}
