#include "cpu/elementwise.h"

/* y = x Phi(x) */
static void forward(float *y, const float *x, const float *none, size_t n) {
    (void)none;
    for (size_t i = 0; i < n; i++) y[i] = x[i] * gs_normal_at(x[i]).below;
}

/* forward: y = x Phi(x), so dy/dx = Phi(x) + x phi(x) */
static void backward(float *dx, const float *dy, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const gs_normal at = gs_normal_at(x[i]);
        dx[i] = dy[i] * (at.below + x[i] * at.density);
    }
}

GS_LOOP_OF_ONE(gelu_forward, forward)
GS_LOOP_OF_TWO(gelu_backward, backward, d->precision)
