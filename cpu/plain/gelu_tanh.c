#include "core/functions.h"
#include "cpu/plain/plain.h"

/* y = x (1 + tanh(u)) / 2,  u = sqrt(2/pi) (x + 0.044715 x^3) */
gs_status gs_plain_gelu_tanh_forward(gs_device *d, gs_mem y_, gs_mem x_, size_t count) {
    (void)d;
    float *y = gs_plain_at(y_), *x = gs_plain_at(x_);
    for (size_t i = 0; i < count; i++) y[i] = x[i] * gs_gate_of(x[i]).at.s;
    return GS_OK;
}

/* y = x s, s = (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)), so dx = dy s (1 + x (1 - s) d(2u)/dx) */
gs_status gs_plain_gelu_tanh_backward(gs_device *d, gs_mem dx_, gs_mem dy_, gs_mem x_, size_t count) {
    (void)d;
    float *dx = gs_plain_at(dx_), *dy = gs_plain_at(dy_), *x = gs_plain_at(x_);
    for (size_t i = 0; i < count; i++) {
        const gs_gate g = gs_gate_of(x[i]);
        dx[i] = dy[i] * (g.at.s * (1 + g.near * (g.at.rest * g.slope)));
    }
    return GS_OK;
}
