#include "core/functions.h"
#include "cpu/plain/plain.h"

/* y = tanh(x) */
gs_status gs_plain_tanh_forward(gs_device *d, gs_mem y_, gs_mem x_, size_t count) {
    (void)d;
    float *y = gs_plain_at(y_), *x = gs_plain_at(x_);
    for (size_t i = 0; i < count; i++) y[i] = gs_tanh_of(x[i]);
    return GS_OK;
}

/* y = tanh(x), so dx = dy (1 - y^2) */
gs_status gs_plain_tanh_backward(gs_device *d, gs_mem dx_, gs_mem dy_, gs_mem y_, size_t count) {
    (void)d;
    float *dx = gs_plain_at(dx_), *dy = gs_plain_at(dy_), *y = gs_plain_at(y_);
    for (size_t i = 0; i < count; i++) dx[i] = dy[i] * (1 - y[i] * y[i]);
    return GS_OK;
}
