#include "cpu/plain/plain.h"

#include <math.h>

static const float SQRT_HALF = 0.707106781f, DENSITY_AT_0 = 0.398942280f; /* 1 / sqrt(2 pi) */

/* y = x Phi(x),  Phi(x) = erfc(-x / sqrt(2)) / 2 */
gs_status gs_plain_gelu_forward(gs_device *d, gs_mem y_, gs_mem x_, size_t count) {
    (void)d;
    float *y = gs_plain_at(y_), *x = gs_plain_at(x_);
    for (size_t i = 0; i < count; i++) y[i] = x[i] * (0.5f * erfcf(-x[i] * SQRT_HALF));
    return GS_OK;
}

/* y = x Phi(x), so dx = dy (Phi(x) + x exp(-x^2/2) / sqrt(2 pi)) */
gs_status gs_plain_gelu_backward(gs_device *d, gs_mem dx_, gs_mem dy_, gs_mem x_, size_t count) {
    (void)d;
    float *dx = gs_plain_at(dx_), *dy = gs_plain_at(dy_), *x = gs_plain_at(x_);
    for (size_t i = 0; i < count; i++)
        dx[i] = dy[i] * (0.5f * erfcf(-x[i] * SQRT_HALF) + x[i] * DENSITY_AT_0 * expf(-0.5f * x[i] * x[i]));
    return GS_OK;
}
