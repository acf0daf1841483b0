#include "cpu/elementwise.h"

/* y = 1 / (1 + exp(-x)); for a very negative x exp returns infinity, and 1 / infinity is 0, as it should be */
static void forward(float *y, const float *x, const float *none, size_t n) {
    (void)none;
    for (size_t i = 0; i < n; i++) y[i] = 1.0f / (1.0f + gs_exp(-x[i]));
}

/* forward: y = 1 / (1 + exp(-x)), so dy/dx = y (1 - y) */
static void backward(float *dx, const float *dy, const float *y, size_t n) {
    for (size_t i = 0; i < n; i++) dx[i] = dy[i] * y[i] * (1.0f - y[i]);
}

GS_LOOP_OF_ONE(sigmoid_forward, forward)
GS_LOOP_OF_TWO(sigmoid_backward, backward, GS_PRECISION_F32)
