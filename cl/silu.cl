#include "elementwise.clh"
#include "functions.clh"

#ifndef FLOATS_FLOW
/* y = x / (1 + exp(-x)) */
static vec silu_of(vec x) {
    return x * gs_logistic_of(x).s;
}
GS_UNARY_OF(silu_forward, silu_of)
#endif

/* forward: y = x s(x), s(x) = 1 / (1 + exp(-x)), so dy/dx = s (1 + x (1 - s)) */
static vec silu_gradient(vec dy, vec x) {
    const gs_logistic l = gs_logistic_of(x);
    return dy * (l.s * (1.0f + x * l.rest));
}
GS_BINARY_OF(silu_backward, silu_gradient)
