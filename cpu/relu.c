#include "cpu/elementwise.h"

/* y = max(x, 0); a NaN stays a NaN, so that a diverged run can be seen */
static void forward(float *y, const float *x, const float *none, size_t n) {
    (void)none;
    for (size_t i = 0; i < n; i++) y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

/* forward: y = max(x, 0), so dy passes where y > 0 */
static void backward(float *dx, const float *dy, const float *y, size_t n) {
    for (size_t i = 0; i < n; i++) dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}

gs_status GS_ISA(gs_cpu_relu_forward)(gs_device *d, gs_mem y, gs_mem x, size_t count) {
    return gs_cpu_elementwise(d, y, x, GS_NONE, count, forward);
}

gs_status GS_ISA(gs_cpu_relu_backward)(gs_device *d, gs_mem dx, gs_mem dy, gs_mem y, size_t count) {
    return gs_cpu_elementwise(d, dx, dy, y, count, backward);
}
