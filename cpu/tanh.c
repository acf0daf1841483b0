#include "cpu/elementwise.h"

#include <math.h>

/* y = tanh(x) */
static void forward(float *y, const float *x, const float *none, size_t n) {
    (void)none;
    for (size_t i = 0; i < n; i++) y[i] = tanhf(x[i]);
}

/* forward: y = tanh(x), so dy/dx = 1 - y^2 */
static void backward(float *dx, const float *dy, const float *y, size_t n) {
    for (size_t i = 0; i < n; i++) dx[i] = dy[i] * (1.0f - y[i] * y[i]);
}

gs_status GS_ISA(tanh_forward)(gs_device *d, gs_mem y, gs_mem x, size_t count) {
    return gs_cpu_elementwise(d, y, x, GS_NONE, count, forward);
}

gs_status GS_ISA(tanh_backward)(gs_device *d, gs_mem dx, gs_mem dy, gs_mem y, size_t count) {
    return gs_cpu_elementwise(d, dx, dy, y, count, backward);
}
