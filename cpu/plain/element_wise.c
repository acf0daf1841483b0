#include "core/functions.h"
#include "cpu/plain/plain.h"

/* The element-wise operators except relu (relu.c), by their formulas for one element: y of x; dx of dy, and of x or y.
 * The last argument is for operators with a number (BETA). */
#define FORWARD(name, formula, ...)                                                                          \
    gs_status gs_plain_##name##_forward(gs_device *d, gs_mem y_, gs_mem x_, size_t count __VA_ARGS__) {      \
        (void)d;                                                                                             \
        for (size_t i = 0; i < count; i++) {                                                                 \
            const float x = ((float *)gs_plain_at(x_))[i];                                                   \
            ((float *)gs_plain_at(y_))[i] = formula;                                                         \
        }                                                                                                    \
        return GS_OK;                                                                                        \
    }
#define BACKWARD(name, of, formula, ...)                                                                     \
    gs_status gs_plain_##name##_backward(gs_device *d, gs_mem dx_, gs_mem dy_, gs_mem of##_,                 \
                                         size_t count __VA_ARGS__) {                                         \
        (void)d;                                                                                             \
        for (size_t i = 0; i < count; i++) {                                                                 \
            const float dy = ((float *)gs_plain_at(dy_))[i], of = ((float *)gs_plain_at(of##_))[i];          \
            ((float *)gs_plain_at(dx_))[i] = formula;                                                        \
        }                                                                                                    \
        return GS_OK;                                                                                        \
    }

/* y = tanh(x), so dx = dy (1 - y^2) */
FORWARD(tanh, gs_tanh_of(x), )
BACKWARD(tanh, y, dy *(1 - y * y), )

/* y = 1 / (1 + exp(-x)), so dx = dy y (1 - y) */
FORWARD(sigmoid, 1 / (1 + gs_exp(-x)), )
BACKWARD(sigmoid, y, dy *y *(1 - y), )

/* y = x Phi(x), so dx = dy (Phi(x) + x phi(x)) */
FORWARD(gelu, x *gs_normal_at(x).below, )
BACKWARD(gelu, x, dy *(gs_normal_at(x).below + x * gs_normal_at(x).density), )

/* y = x s, s = (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3), so
 * dx = dy s (1 + x (1 - s) d(2u)/dx) */
static float gelu_tanh_slope(gs_gate g) {
    return g.at.s * (1 + g.near * (g.at.rest * g.slope));
}
FORWARD(gelu_tanh, x *gs_gate_of(x).at.s, )
BACKWARD(gelu_tanh, x, dy *gelu_tanh_slope(gs_gate_of(x)), )

/* y = x s, s = 1 / (1 + exp(-x)), so dx = dy s (1 + x (1 - s)) */
FORWARD(silu, x *gs_logistic_of(x).s, )
BACKWARD(silu, x, dy *(gs_logistic_of(x).s *(1 + x * gs_logistic_of(x).rest)), )

/* y = log(1 + exp(beta x)) / beta, as max(x, 0) plus a remainder, since exp(beta x) alone could overflow; so
 * dx = dy / (1 + exp(-beta x)) */
FORWARD(softplus, (x < 0 ? 0 : x) + gs_log_of_1_and(gs_exp(gs_minus_size(beta * x))) / beta, , float beta)
BACKWARD(softplus, x, dy *gs_logistic_of(beta *x).s, , float beta)
