#include "cpu/elementwise.h"
#include "cpu/exp.h"

/* log(1 + e), 0 <= e <= 1, within 2 ulp and bitwise identical to cl/softplus.cl: twice the inverse hyperbolic tangent
 * of s = e / (2 + e), s + s^3 / 3 + s^5 / 5 + ..., where s is at most 1/3. */
static inline float log_of_1_and(float e) {
    const float s = e / (2.0f + e), t = s * s;
    return 2.0f * (s + s * (t * (0.33333308f + t * (0.20004372f + t * (0.14112575f + t * 0.13429444f)))));
}

/* y = log(1 + exp(beta x)) / beta, as max(x, 0) plus a remainder: exp(beta x) alone could overflow */
static void forward(float *y, const float *x, const float *none, size_t n, float beta) {
    (void)none;
    for (size_t i = 0; i < n; i++) {
        const gs_bits scaled = {beta * x[i]}, minus_size = {.u = scaled.u | (uint32_t)GS_SIGN};
        y[i] = (x[i] < 0.0f ? 0.0f : x[i]) + log_of_1_and(gs_exp(minus_size.f)) / beta;
    }
}

/* forward: y = log(1 + exp(beta x)) / beta, so dy/dx = 1 / (1 + exp(-beta x)) */
static void backward(float *dx, const float *dy, const float *x, size_t n, float beta) {
    for (size_t i = 0; i < n; i++) dx[i] = dy[i] * gs_logistic_of(beta * x[i]).s;
}

gs_status GS_ISA(gs_cpu_softplus_forward)(gs_device *d, gs_mem y, gs_mem x, size_t count, float beta) {
    return gs_cpu_elementwise_of(d, y, x, GS_NONE, count, (gs_element_work){.with = forward, .number = beta});
}

gs_status GS_ISA(gs_cpu_softplus_backward)(gs_device *d, gs_mem dx, gs_mem dy, gs_mem x, size_t count,
                                           float beta) {
    return gs_cpu_elementwise_of(
        d, dx, dy, x, count, (gs_element_work){.with = backward, .number = beta, .rounded = d->precision});
}
