#include "cpu/elementwise.h"

/* y = x (1 + tanh(u)) / 2,  u = sqrt(2/pi) (x + 0.044715 x^3) */
static void forward(float *y, const float *x, const float *none, size_t n) {
    (void)none;
    for (size_t i = 0; i < n; i++) y[i] = x[i] * gs_gate_of(x[i]).at.s;
}

/* forward: y = x s, s = 1 / (1 + exp(-2u)), so dy/dx = s + x s (1 - s) d(2u)/dx */
static void backward(float *dx, const float *dy, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const gs_gate g = gs_gate_of(x[i]);
        dx[i] = dy[i] * (g.at.s * (1.0f + g.near * (g.at.rest * g.slope)));
    }
}

GS_LOOP_OF_ONE(gelu_tanh_forward, forward)
GS_LOOP_OF_TWO(gelu_tanh_backward, backward, d->precision)
