#include "cpu/elementwise.h"
#include "cpu/exp.h"

/* Phi(x), the normal distribution function, and its density phi(x) = exp(-x^2/2) / sqrt(2 pi): gelu is x Phi(x). The
 * form (1 + erf(x / sqrt(2))) / 2 would lose all digits below x = -5. So, with a = |x|:
 *
 *     Phi(-a) = exp(-a^2/2) R(a),   R(a) = t P(t),  t = 1 / (1 + 3a/8)      P: of degree 9
 *     Phi(a)  = 1 - Phi(-a)
 *
 * a^2 needs more digits than a float has, so it is split into high^2, which is exact, and (a - high)(a + high). From
 * 13.2 on, Phi(-a) and phi(a) are 0. gelu is within 6 ulp for x >= -8 and within 12 below, and bitwise identical to
 * cl/gelu.cl (tests/operators/test_activations.c). */
typedef struct normal {
    float below, density;
} normal;

static inline normal normal_at(float x) {
    const gs_bits given = {x}, end = {13.2f};
    gs_bits size = {.u = given.u & ~(uint32_t)GS_SIGN}, high;
    const bool far = size.u - end.u <= GS_INFINITY - end.u; /* unsigned, so false for a NaN */
    size.u = gs_choose(far, end.u, size.u);
    const float a = size.f;
    high.u = size.u & 0xfffff000;
    const float e = gs_exp_in_range(-0.5f * (high.f * high.f), -0.5f * ((a - high.f) * (a + high.f))).f;
    const float t = 1.0f / (1.0f + 0.375f * a);
    const float p3 = 0.35562336f + t * (-0.13876459f + t * 0.021805819f);
    const float p2 = -0.061686587f + t * (0.22646806f + t * (-0.43778726f + t * p3));
    const float p1 = 0.14992328f + t * (0.12492747f + t * (0.1098992f + t * p2));
    gs_bits tail = {e * (t * (0.14959124f + t * p1))}, density = {0.398942280f * e}, other, below;
    tail.u = gs_choose(far, 0, tail.u);
    density.u = gs_choose(far, 0, density.u);
    other.f = 1.0f - tail.f;
    below.u = gs_choose(given.u >> 31, tail.u, other.u);
    return (normal){below.f, density.f};
}

/* y = x Phi(x) */
static void forward(float *y, const float *x, const float *none, size_t n) {
    (void)none;
    for (size_t i = 0; i < n; i++) y[i] = x[i] * normal_at(x[i]).below;
}

/* forward: y = x Phi(x), so dy/dx = Phi(x) + x phi(x) */
static void backward(float *dx, const float *dy, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const normal at = normal_at(x[i]);
        dx[i] = dy[i] * (at.below + x[i] * at.density);
    }
}

GS_LOOP_OF_ONE(gelu_forward, forward)
GS_LOOP_OF_TWO(gelu_backward, backward, gs_cpu_elementwise_rounded)
