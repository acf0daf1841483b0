#include "exp.clh"
#include "stored.clh"

#ifndef FLOATS_FLOW
/* log(1 + e), 0 <= e <= 1; see cpu/softplus.c */
static vec log_of_1_and(vec e) {
    const vec s = e / (2.0f + e), t = s * s;
    return 2.0f * (s + s * (t * (0.33333308f + t * (0.20004372f + t * (0.14112575f + t * 0.13429444f)))));
}

/* y = log(1 + exp(beta x)) / beta */
static vec softplus_of(vec x, float beta) {
    const vec above = x < 0 ? (vec)0 : x;
    return above + log_of_1_and(exp_of(-fabs(beta * x))) / beta;
}
GS_UNARY_WITH(softplus_forward, softplus_of, beta)
#endif

/* forward: y = log(1 + exp(beta x)) / beta, so dy/dx = 1 / (1 + exp(-beta x)) */
static vec softplus_gradient(vec dy, vec x, float beta) {
    return dy * logistic_of(beta * x).s;
}
GS_BINARY_WITH(softplus_backward, softplus_gradient, beta)
