#include "cpu/elementwise.h"

/* y = tanh(x) */
static void forward(float *y, const float *x, const float *none, size_t n) {
    (void)none;
    for (size_t i = 0; i < n; i++) y[i] = gs_tanh_of(x[i]);
}

/* forward: y = tanh(x), so dy/dx = 1 - y^2 */
static void backward(float *dx, const float *dy, const float *y, size_t n) {
    for (size_t i = 0; i < n; i++) dx[i] = dy[i] * (1.0f - y[i] * y[i]);
}

GS_LOOP_OF_ONE(tanh_forward, forward)
GS_LOOP_OF_TWO(tanh_backward, backward, GS_PRECISION_F32)
