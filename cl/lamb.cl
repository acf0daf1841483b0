#include "step.clh"

/* For each parameter: g = scale dw;  m = beta1 m + rest1 g;  v = beta2 v + rest2 g g;  below FLT_MIN m and v are 0;
 * dw = rate (m / (root sqrt(v) + epsilon)) + l2 w.  Rounds as cpu/lamb.c does, without FMA (sgd.cl explains why). */
#define GS_LAMB(T, gradient, first, second, weight)                                                          \
    T g = s.scale * gradient;                                                                                \
    first = s.beta1 * first + s.rest1 * g;                                                                   \
    second = s.beta2 * second + s.rest2 * g * g;                                                             \
    first = fabs(first) < FLT_MIN ? (T)0 : first;                                                            \
    second = fabs(second) < FLT_MIN ? (T)0 : second;                                                         \
    gradient = s.rate * (first / (s.root * sqrt(second) + s.epsilon)) + s.l2 * (weight);

GS_STEP_KERNEL(lamb_direction, GS_LAMB, 1)
