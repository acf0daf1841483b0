#include "cpu/elementwise.h"
#include "cpu/exp.h"

/* (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)), which keeps full precision where u is very negative; and the slope d(2u)/dx.
 * An x beyond +-30, where the former is 1 or 0, counts as +-30, because its square could overflow. Errors are a few
 * ulp, plus up to 3 for each unit of 2u on the negative side (tests/operators/test_activations.c). */
typedef struct gate {
    gs_logistic at;
    float near, slope; /* near: x, limited to +-30 */
} gate;

static inline gate gate_of(float x) {
    const gs_bits given = {x}, end = {30.0f};
    const uint32_t sign = given.u & (uint32_t)GS_SIGN;
    gs_bits near = {.u = given.u & ~(uint32_t)GS_SIGN};
    near.u = gs_choose(near.u - end.u <= GS_INFINITY - end.u, end.u, near.u) | sign;
    const float square = near.f * near.f;
    return (gate){gs_logistic_of(near.f * (1.59576912f + 0.0713548163f * square)), near.f,
                  1.59576912f + 0.214064449f * square};
}

/* y = x (1 + tanh(u)) / 2,  u = sqrt(2/pi) (x + 0.044715 x^3) */
static void forward(float *y, const float *x, const float *none, size_t n) {
    (void)none;
    for (size_t i = 0; i < n; i++) y[i] = x[i] * gate_of(x[i]).at.s;
}

/* forward: y = x s, s = 1 / (1 + exp(-2u)), so dy/dx = s + x s (1 - s) d(2u)/dx */
static void backward(float *dx, const float *dy, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const gate g = gate_of(x[i]);
        dx[i] = dy[i] * (g.at.s * (1.0f + g.near * (g.at.rest * g.slope)));
    }
}

GS_LOOP_OF_ONE(gelu_tanh_forward, forward)
GS_LOOP_OF_TWO(gelu_tanh_backward, backward, gs_cpu_elementwise_rounded)
