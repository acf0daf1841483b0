#include "cpu/plain/plain.h"

/* y = max(x, 0); a NaN stays a NaN */
gs_status gs_plain_relu_forward(gs_device *d, gs_mem y_, gs_mem x_, size_t count) {
    (void)d;
    float *y = gs_plain_at(y_), *x = gs_plain_at(x_);
    for (size_t i = 0; i < count; i++) y[i] = x[i] < 0 ? 0 : x[i];
    return GS_OK;
}

/* y = max(x, 0), so dx = dy where y > 0, else 0 */
gs_status gs_plain_relu_backward(gs_device *d, gs_mem dx_, gs_mem dy_, gs_mem y_, size_t count) {
    (void)d;
    float *dx = gs_plain_at(dx_), *dy = gs_plain_at(dy_), *y = gs_plain_at(y_);
    for (size_t i = 0; i < count; i++) dx[i] = y[i] > 0 ? dy[i] : 0;
    return GS_OK;
}
