#include "cpu/elementwise.h"

/* y = log(1 + exp(beta x)) / beta, as max(x, 0) plus a remainder: exp(beta x) alone could overflow */
static void forward(float *y, const float *x, const float *none, size_t n, float beta) {
    (void)none;
    for (size_t i = 0; i < n; i++)
        y[i] = (x[i] < 0.0f ? 0.0f : x[i]) + gs_log_of_1_and(gs_exp(gs_minus_size(beta * x[i]))) / beta;
}

/* forward: y = log(1 + exp(beta x)) / beta, so dy/dx = 1 / (1 + exp(-beta x)) */
static void backward(float *dx, const float *dy, const float *x, size_t n, float beta) {
    for (size_t i = 0; i < n; i++) dx[i] = dy[i] * gs_logistic_of(beta * x[i]).s;
}

gs_status GS_ISA(gs_cpu_softplus_forward)(gs_device *d, gs_mem y, gs_mem x, size_t count, float beta) {
    return gs_cpu_elementwise(d, y, x, GS_NONE, count, (gs_element_work){.with = forward, .number = beta});
}

gs_status GS_ISA(gs_cpu_softplus_backward)(gs_device *d, gs_mem dx, gs_mem dy, gs_mem x, size_t count,
                                           float beta) {
    return gs_cpu_elementwise(d, dx, dy, x, count,
                              (gs_element_work){.with = backward, .number = beta, .rounded = d->precision});
}
