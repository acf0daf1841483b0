#include "cpu/plain/plain.h"

#include <float.h>

/* g = scale dw + weight_decay w;  v = momentum v + g, or 0 below FLT_MIN;  w -= lr (g + momentum v) */
gs_status gs_plain_nesterov_update(gs_device *d, gs_mem w_, gs_mem v_, gs_mem dw_, size_t count, float scale,
                                   float lr, float momentum, float weight_decay) {
    (void)d;
    float *w = gs_plain_at(w_), *v = gs_plain_at(v_), *dw = gs_plain_at(dw_);
    for (size_t i = 0; i < count; i++) {
        float g = scale * dw[i] + weight_decay * w[i];
        v[i] = momentum * v[i] + g;
        if (fabsf(v[i]) < FLT_MIN) v[i] = 0;
        w[i] -= lr * (g + momentum * v[i]);
    }
    return GS_OK;
}
