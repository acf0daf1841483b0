#include "cpu/elementwise.h"

/* y = max(x, 0); a NaN stays a NaN, so that a diverged run is noticed */
static void forward(float *y, const float *x, const float *none, size_t n) {
    (void)none;
    for (size_t i = 0; i < n; i++) y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

/* forward: y = max(x, 0), so dy passes where y > 0 */
static void backward(float *dx, const float *dy, const float *y, size_t n) {
    for (size_t i = 0; i < n; i++) dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}

GS_LOOP_OF_ONE(relu_forward, forward)
GS_LOOP_OF_TWO(relu_backward, backward, GS_PRECISION_F32)
