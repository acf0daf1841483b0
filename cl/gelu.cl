#include "elementwise.clh"
#include "functions.clh"

#ifndef FLOATS_FLOW
/* y = x Phi(x) */
static vec gelu_of(vec x) {
    return x * gs_normal_at(x).below;
}
GS_UNARY_OF(gelu_forward, gelu_of)
#endif

/* forward: y = x Phi(x), so dy/dx = Phi(x) + x phi(x) */
static vec gelu_gradient(vec dy, vec x) {
    const gs_normal at = gs_normal_at(x);
    return dy * (at.below + x * at.density);
}
GS_BINARY_OF(gelu_backward, gelu_gradient)
