#include "exp.clh"
#include "stored.clh"

/* See cpu/gelu_tanh.c for the method; the constants are the same. */
typedef struct gate {
    logistic at;
    vec near, slope;
} gate;

static gate gate_of(vec x) {
    const vec near = fabs(x) >= 30 ? copysign((vec)30, x) : x, square = near * near;
    gate g = {logistic_of(near * (1.59576912f + 0.0713548163f * square)), near,
              1.59576912f + 0.214064449f * square};
    return g;
}

#ifndef FLOATS_FLOW
/* y = x (1 + tanh(u)) / 2,  u = sqrt(2/pi) (x + 0.044715 x^3) */
static vec gelu_tanh_of(vec x) {
    return x * gate_of(x).at.s;
}
GS_UNARY_OF(gelu_tanh_forward, gelu_tanh_of)
#endif

/* forward: y = x s, s = 1 / (1 + exp(-2u)), so dy/dx = s + x s (1 - s) d(2u)/dx */
static vec gelu_tanh_gradient(vec dy, vec x) {
    const gate g = gate_of(x);
    return dy * (g.at.s * (1.0f + g.near * (g.at.rest * g.slope)));
}
GS_BINARY_OF(gelu_tanh_backward, gelu_tanh_gradient)
