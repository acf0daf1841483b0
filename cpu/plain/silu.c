#include "core/functions.h"
#include "cpu/plain/plain.h"

/* y = x / (1 + exp(-x)) */
gs_status gs_plain_silu_forward(gs_device *d, gs_mem y_, gs_mem x_, size_t count) {
    (void)d;
    float *y = gs_plain_at(y_), *x = gs_plain_at(x_);
    for (size_t i = 0; i < count; i++) y[i] = x[i] * gs_logistic_of(x[i]).s;
    return GS_OK;
}

/* y = x s(x), s(x) = 1 / (1 + exp(-x)), so dx = dy s (1 + x (1 - s)) */
gs_status gs_plain_silu_backward(gs_device *d, gs_mem dx_, gs_mem dy_, gs_mem x_, size_t count) {
    (void)d;
    float *dx = gs_plain_at(dx_), *dy = gs_plain_at(dy_), *x = gs_plain_at(x_);
    for (size_t i = 0; i < count; i++) {
        const gs_logistic l = gs_logistic_of(x[i]);
        dx[i] = dy[i] * (l.s * (1 + x[i] * l.rest));
    }
    return GS_OK;
}
