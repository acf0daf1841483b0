#include "cpu/plain/plain.h"

#include <float.h>
#include <math.h>

/* g = scale dw;  m = beta1 m + rest1 g;  v = beta2 v + rest2 g g;  m, v are 0 below FLT_MIN;
 * dw = rate (m / (root sqrt(v) + epsilon)) + l2 w */
gs_status gs_plain_lamb_direction(gs_device *d, gs_mem dw_, gs_mem m_, gs_mem v_, gs_mem w_, size_t count,
                                  gs_adam_step s) {
    (void)d;
    float *w = gs_plain_at(w_), *m = gs_plain_at(m_), *v = gs_plain_at(v_), *dw = gs_plain_at(dw_);
    for (size_t i = 0; i < count; i++) {
        float g = s.scale * dw[i];
        m[i] = s.beta1 * m[i] + s.rest1 * g;
        v[i] = s.beta2 * v[i] + s.rest2 * g * g;
        if (fabsf(m[i]) < FLT_MIN) m[i] = 0;
        if (fabsf(v[i]) < FLT_MIN) v[i] = 0;
        dw[i] = s.rate * (m[i] / (s.root * sqrtf(v[i]) + s.epsilon)) + s.l2 * w[i];
    }
    return GS_OK;
}
