/* Element-wise layers: each element of y depends on one element of x, through an operator of backend.h. Layers whose
 * backward reads y may work in place; the others need x and therefore a separate y.
 *
 *     relu      max(x, 0): negative elements become 0               dx = dy where y > 0, else 0
 *     tanh      the hyperbolic tangent                              dx = dy (1 - y^2)
 *     sigmoid   1 / (1 + exp(-x))                                   dx = dy y (1 - y)
 *     silu      x s, s = 1 / (1 + exp(-x)), also known as swish     dx = dy s (1 + x (1 - s))
 *     softplus  log(1 + exp(beta x)) / beta: relu, but smooth       dx = dy / (1 + exp(-beta x))
 *     gelu      x Phi(x): x times the probability that a            dx = dy (Phi(x) + x phi(x));
 *               standard normal variable is below x                     with tanh: see backend.h
 *
 * Sources: Elfwing, Uchibe, Doya, "Sigmoid-weighted linear units for neural network function approximation in
 * reinforcement learning" (Neural Networks 107, 2018), for silu; Hendrycks, Gimpel, "Gaussian error linear units
 * (GELUs)" (arXiv 1606.08415, 2016), for gelu, also in its form with tanh; Dugas, Bengio, Belisle, Nadeau, Garcia,
 * "Incorporating second-order functional knowledge for better option pricing" (NIPS 2000), for softplus. */
#include <stdio.h>
#include "layer/make.h"

/* A layer whose operators take a number. */
typedef struct with_number {
    gs_layer base;
    float number;
} with_number;

static gs_status plan_with(gs_layer *l, gs_shape in) {
    const float number = ((const with_number *)l)->number;
    if (!(number >= 1e-4f && number <= 100))
        return gs_layer_refuse(l, "the number is %g; wanted 0.0001 to 100", (double)number);
    return gs_layer_plan_element_wise(l, in);
}

static void describe_with(const gs_layer *l, char *text, size_t size) {
    snprintf(text, size, "%s %g", l->ops->name, (double)((const with_number *)l)->number);
}

static gs_layer *make_with(const gs_layer_ops *ops, float number) {
    with_number *me = (with_number *)gs_layer_new(ops, sizeof *me, 0);
    if (me) me->number = number;
    return me ? &me->base : NULL;
}

/* Defines forward and backward, which call one operator each. Backward reads y or x, whichever BUFFERS keeps. The
 * remaining macro arguments are appended to the operators' arguments. */
#define KEPT_ELEMENT_WISE gs_layer_y(l, l->x)
#define KEPT_READS_X l->x
#define FUNCTIONS(OPERATOR, BUFFERS, ...)                                                                    \
    static gs_status OPERATOR##_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {             \
        return l->device->ops->OPERATOR##_forward(l->device, *y, x,                                          \
                                                  gs_layer_numbers(pass, l->in) __VA_ARGS__);                \
    }                                                                                                        \
    static gs_status OPERATOR##_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {          \
        if (!l->needs_dx) return GS_OK;                                                                      \
        return l->device->ops->OPERATOR##_backward(l->device, *dx, dy, KEPT_##BUFFERS,                       \
                                                   pass->n * gs_shape_size(l->in) __VA_ARGS__);              \
    }
#define OPS(NAME, OPERATOR, BUFFERS)                                                                         \
    .name = NAME, .buffers = GS_##BUFFERS, .storage = GS_ALIKE, .tensor = GS_TENSOR_ELEMENTS,                \
    .incremental = true, .extra_reads = 1, .forward = OPERATOR##_forward, .backward = OPERATOR##_backward

/* Defines gs_OPERATOR, the layer's constructor; further members of its ops follow BUFFERS. */
#define ACTIVATION(NAME, OPERATOR, BUFFERS, ...)                                                             \
    FUNCTIONS(OPERATOR, BUFFERS, )                                                                           \
    gs_layer *gs_##OPERATOR(void) {                                                                          \
        static const gs_layer_ops ops = {OPS(NAME, OPERATOR, BUFFERS), .plan = gs_layer_plan_element_wise,   \
                                         __VA_ARGS__};                                                       \
        return gs_layer_new(&ops, sizeof(gs_layer), 0);                                                      \
    }
#define ACTIVATION_WITH_NUMBER(NAME, OPERATOR, BUFFERS)                                                      \
    FUNCTIONS(OPERATOR, BUFFERS, , ((const with_number *)l)->number)                                         \
    gs_layer *gs_##OPERATOR(float number) {                                                                  \
        static const gs_layer_ops ops = {OPS(NAME, OPERATOR, BUFFERS), .plan = plan_with,                    \
                                         .describe = describe_with};                                         \
        return make_with(&ops, number);                                                                      \
    }

/* An epilogue has at most one relu, which comes before any pooling. */
static bool relu_join(const gs_layer *l, gs_epilogue *then) {
    (void)l;
    if (then->relu || then->pool) return false;
    then->relu = true;
    return true;
}

static void gelu_tanh_describe(const gs_layer *l, char *text, size_t size) {
    snprintf(text, size, "%s tanh", l->ops->name);
}

ACTIVATION("relu", relu, ELEMENT_WISE, .fuse_into = relu_join)
ACTIVATION("tanh", tanh, ELEMENT_WISE, )
ACTIVATION("sigmoid", sigmoid, ELEMENT_WISE, )
ACTIVATION("silu", silu, READS_X, )
ACTIVATION("gelu", gelu, READS_X, )
ACTIVATION("gelu", gelu_tanh, READS_X, .describe = gelu_tanh_describe)
ACTIVATION_WITH_NUMBER("softplus", softplus, READS_X)
