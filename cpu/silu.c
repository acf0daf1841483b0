#include "cpu/elementwise.h"

/* y = x / (1 + exp(-x)) */
static void forward(float *y, const float *x, const float *none, size_t n) {
    (void)none;
    for (size_t i = 0; i < n; i++) y[i] = x[i] * gs_logistic_of(x[i]).s;
}

/* forward: y = x s(x), s(x) = 1 / (1 + exp(-x)), so dy/dx = s (1 + x (1 - s)) */
static void backward(float *dx, const float *dy, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const gs_logistic l = gs_logistic_of(x[i]);
        dx[i] = dy[i] * (l.s * (1.0f + x[i] * l.rest));
    }
}

GS_LOOP_OF_ONE(silu_forward, forward)
GS_LOOP_OF_TWO(silu_backward, backward, d->precision)
