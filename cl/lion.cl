#include "step.clh"

/* For each parameter: g = scale dw;  c = beta1 m + rest1 g;  m = beta2 m + rest2 g, or 0 below FLT_MIN;
 * w = keep w - rate sign(c).  Rounds as cpu/lion.c does, without FMA (sgd.cl explains why). */
#define GS_LION(T, weight, moment, second, gradient)                                                         \
    T g = s.scale * (gradient), c = s.beta1 * moment + s.rest1 * g;                                          \
    moment = s.beta2 * moment + s.rest2 * g;                                                                 \
    moment = fabs(moment) < FLT_MIN ? (T)0 : moment;                                                         \
    c = c > 0 ? (T)s.rate : c < 0 ? (T)(-s.rate) : c;                                                        \
    weight = s.keep * weight - c;

GS_STEP_KERNEL(lion_update, GS_LION, 0)
