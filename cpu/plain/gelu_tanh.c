#include "cpu/plain/plain.h"

#include <math.h>

static const float SCALE = 0.797884561f, CUBE = 0.044715f; /* SCALE is sqrt(2/pi) */

/* y = x (1 + tanh(u)) / 2,  u = sqrt(2/pi) (x + 0.044715 x^3) */
gs_status gs_plain_gelu_tanh_forward(gs_device *d, gs_mem y_, gs_mem x_, size_t count) {
    (void)d;
    float *y = gs_plain_at(y_), *x = gs_plain_at(x_);
    for (size_t i = 0; i < count; i++)
        y[i] = 0.5f * x[i] * (1 + tanhf(SCALE * (x[i] + CUBE * x[i] * x[i] * x[i])));
    return GS_OK;
}

/* y = x s, s = (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)), so dx = dy (s + 2 x s (1 - s) du/dx) */
gs_status gs_plain_gelu_tanh_backward(gs_device *d, gs_mem dx_, gs_mem dy_, gs_mem x_, size_t count) {
    (void)d;
    float *dx = gs_plain_at(dx_), *dy = gs_plain_at(dy_), *x = gs_plain_at(x_);
    for (size_t i = 0; i < count; i++) {
        float u = SCALE * (x[i] + CUBE * x[i] * x[i] * x[i]);
        float s = 1 / (1 + expf(-2 * u)), rest = 1 / (1 + expf(2 * u)); /* 1 - s */
        float slope = SCALE * (1 + 3 * CUBE * x[i] * x[i]);
        dx[i] = dy[i] * (s + 2 * x[i] * s * rest * slope);
    }
    return GS_OK;
}
