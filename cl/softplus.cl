#include "elementwise.clh"
#include "functions.clh"

#ifndef FLOATS_FLOW
/* y = log(1 + exp(beta x)) / beta */
static vec softplus_of(vec x, float beta) {
    const vec above = x < 0 ? (vec)0 : x;
    return above + gs_log_of_1_and(gs_exp(gs_minus_size(beta * x))) / beta;
}
GS_UNARY_WITH(softplus_forward, softplus_of, beta)
#endif

/* forward: y = log(1 + exp(beta x)) / beta, so dy/dx = 1 / (1 + exp(-beta x)) */
static vec softplus_gradient(vec dy, vec x, float beta) {
    return dy * gs_logistic_of(beta * x).s;
}
GS_BINARY_WITH(softplus_backward, softplus_gradient, beta)
