#include "core/functions.h"
#include "cpu/plain/plain.h"

/* y = 1 / (1 + exp(-x)) */
gs_status gs_plain_sigmoid_forward(gs_device *d, gs_mem y_, gs_mem x_, size_t count) {
    (void)d;
    float *y = gs_plain_at(y_), *x = gs_plain_at(x_);
    for (size_t i = 0; i < count; i++) y[i] = 1 / (1 + gs_exp(-x[i]));
    return GS_OK;
}

/* y = 1 / (1 + exp(-x)), so dx = dy y (1 - y) */
gs_status gs_plain_sigmoid_backward(gs_device *d, gs_mem dx_, gs_mem dy_, gs_mem y_, size_t count) {
    (void)d;
    float *dx = gs_plain_at(dx_), *dy = gs_plain_at(dy_), *y = gs_plain_at(y_);
    for (size_t i = 0; i < count; i++) dx[i] = dy[i] * y[i] * (1 - y[i]);
    return GS_OK;
}
