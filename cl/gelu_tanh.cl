#include "elementwise.clh"
#include "functions.clh"

#ifndef FLOATS_FLOW
/* y = x (1 + tanh(u)) / 2,  u = sqrt(2/pi) (x + 0.044715 x^3) */
static vec gelu_tanh_of(vec x) {
    return x * gs_gate_of(x).at.s;
}
GS_UNARY_OF(gelu_tanh_forward, gelu_tanh_of)
#endif

/* forward: y = x s, s = 1 / (1 + exp(-2u)), so dy/dx = s + x s (1 - s) d(2u)/dx */
static vec gelu_tanh_gradient(vec dy, vec x) {
    const gs_gate g = gs_gate_of(x);
    return dy * (g.at.s * (1.0f + g.near * (g.at.rest * g.slope)));
}
GS_BINARY_OF(gelu_tanh_backward, gelu_tanh_gradient)
