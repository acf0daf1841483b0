#include "step.clh"

/* For each parameter: g = scale dw + l2 w;  m = beta1 m + rest1 g;  v = beta2 v + rest2 g g;  below FLT_MIN m and v are
 * 0;  w = keep w - rate (m / (root sqrt(v) + epsilon)).  Rounds as cpu/adam.c does, without FMA (sgd.cl explains why).
 * build.c requests correctly rounded quotients and square roots, where the device offers them. */
#define GS_ADAM(T, weight, first, second, gradient)                                                          \
    T g = s.scale * (gradient) + s.l2 * weight;                                                              \
    first = s.beta1 * first + s.rest1 * g;                                                                   \
    second = s.beta2 * second + s.rest2 * g * g;                                                             \
    first = fabs(first) < FLT_MIN ? (T)0 : first;                                                            \
    second = fabs(second) < FLT_MIN ? (T)0 : second;                                                         \
    weight = s.keep * weight - s.rate * (first / (s.root * sqrt(second) + s.epsilon));

GS_STEP_KERNEL(adam_update, GS_ADAM, 1)
