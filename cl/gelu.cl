#include "exp.clh"
#include "stored.clh"

/* See cpu/gelu.c for the method; the constants are the same. */
typedef struct normal {
    vec below, density;
} normal;

static normal normal_at(vec x) {
    const vec size = fabs(x),
              a = fmin(size, (vec)13.2f); /* if written with ?:, Oclgrind 21.10 gets vectors wrong */
    const vec high = as_vec(as_ivec(a) & (int)0xfffff000);
    const vec e = exp_of_sum(-0.5f * (high * high), -0.5f * ((a - high) * (a + high)));
    const vec t = 1.0f / (1.0f + 0.375f * a);
    const vec p3 = 0.35562336f + t * (-0.13876459f + t * 0.021805819f);
    const vec p2 = -0.061686587f + t * (0.22646806f + t * (-0.43778726f + t * p3));
    const vec p1 = 0.14992328f + t * (0.12492747f + t * (0.1098992f + t * p2));
    const vec inner = e * (t * (0.14959124f + t * p1)), tail = size >= 13.2f ? (vec)0 : inner;
    const vec density = 0.398942280f * e;
    normal at = {as_ivec(x) < 0 ? tail : 1.0f - tail, size >= 13.2f ? (vec)0 : density};
    return at;
}

#ifndef FLOATS_FLOW
/* y = x Phi(x) */
static vec gelu_of(vec x) {
    return x * normal_at(x).below;
}
GS_UNARY_OF(gelu_forward, gelu_of)
#endif

/* forward: y = x Phi(x), so dy/dx = Phi(x) + x phi(x) */
static vec gelu_gradient(vec dy, vec x) {
    const normal at = normal_at(x);
    return dy * (at.below + x * at.density);
}
GS_BINARY_OF(gelu_backward, gelu_gradient)
