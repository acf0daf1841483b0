#include "core/functions.h"
#include "cpu/plain/plain.h"

/* y = x Phi(x) */
gs_status gs_plain_gelu_forward(gs_device *d, gs_mem y_, gs_mem x_, size_t count) {
    (void)d;
    float *y = gs_plain_at(y_), *x = gs_plain_at(x_);
    for (size_t i = 0; i < count; i++) y[i] = x[i] * gs_normal_at(x[i]).below;
    return GS_OK;
}

/* y = x Phi(x), so dx = dy (Phi(x) + x phi(x)) */
gs_status gs_plain_gelu_backward(gs_device *d, gs_mem dx_, gs_mem dy_, gs_mem x_, size_t count) {
    (void)d;
    float *dx = gs_plain_at(dx_), *dy = gs_plain_at(dy_), *x = gs_plain_at(x_);
    for (size_t i = 0; i < count; i++)
        dx[i] = dy[i] * (gs_normal_at(x[i]).below + x[i] * gs_normal_at(x[i]).density);
    return GS_OK;
}
