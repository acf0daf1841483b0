#include "cpu/elementwise.h"

#include <math.h>

/* y = 1 / (1 + exp(-x)); for a very negative x exp gives infinity, and 1 / infinity is the right 0 */
static void forward(float *y, const float *x, const float *none, size_t n) {
    (void)none;
    for (size_t i = 0; i < n; i++) y[i] = 1.0f / (1.0f + expf(-x[i]));
}

/* forward: y = 1 / (1 + exp(-x)), so dy/dx = y (1 - y) */
static void backward(float *dx, const float *dy, const float *y, size_t n) {
    for (size_t i = 0; i < n; i++) dx[i] = dy[i] * y[i] * (1.0f - y[i]);
}

gs_status GS_ISA(gs_cpu_sigmoid_forward)(gs_device *d, gs_mem y, gs_mem x, size_t count) {
    return gs_cpu_elementwise(d, y, x, GS_NONE, count, forward);
}

gs_status GS_ISA(gs_cpu_sigmoid_backward)(gs_device *d, gs_mem dx, gs_mem dy, gs_mem y, size_t count) {
    return gs_cpu_elementwise(d, dx, dy, y, count, backward);
}
