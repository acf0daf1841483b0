/* Element-wise layers: each element of y depends on one element of x, through an operator of
 * GS_ELEMENT_WISE_ROWS in backend.h, where the formulas are. Layers whose backward reads y may work in place; the
 * others need x and therefore a separate y.
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

/* Defines forward and backward, which call one operator each. Backward reads y or x. The remaining macro arguments are
 * appended to the operators' arguments. */
#define KEPT_y gs_layer_y(l, l->x)
#define KEPT_x l->x
#define BUFFERS_y GS_ELEMENT_WISE
#define BUFFERS_x GS_READS_X
#define FUNCTIONS(OPERATOR, READS, ...)                                                                      \
    static gs_status OPERATOR##_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {             \
        return l->device->ops->OPERATOR##_forward(l->device, *y, x,                                          \
                                                  gs_layer_numbers(pass, l->in) __VA_ARGS__);                \
    }                                                                                                        \
    static gs_status OPERATOR##_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {          \
        if (!l->needs_dx) return GS_OK;                                                                      \
        return l->device->ops->OPERATOR##_backward(l->device, *dx, dy, KEPT_##READS,                         \
                                                   pass->n * gs_shape_size(l->in) __VA_ARGS__);              \
    }
#define OPS(NAME, OPERATOR, READS)                                                                           \
    .name = NAME, .buffers = BUFFERS_##READS, .storage = GS_ALIKE, .tensor = GS_TENSOR_ELEMENTS,             \
    .incremental = true, .extra_reads = 1, .forward = OPERATOR##_forward, .backward = OPERATOR##_backward

/* Defines gs_OPERATOR, the layer's constructor; further members of its ops follow READS. */
#define ACTIVATION(NAME, OPERATOR, READS, ...)                                                               \
    FUNCTIONS(OPERATOR, READS, )                                                                             \
    gs_layer *gs_##OPERATOR(void) {                                                                          \
        static const gs_layer_ops ops = {OPS(NAME, OPERATOR, READS), .plan = gs_layer_plan_element_wise,     \
                                         __VA_ARGS__};                                                       \
        return gs_layer_new(&ops, sizeof(gs_layer), 0);                                                      \
    }
#define ROW(of, OPERATOR, forward, backward, READS, what) ACTIVATION(#OPERATOR, OPERATOR, READS, )
#define ROW_WITH(of, OPERATOR, forward, backward, READS, ...)                                                \
    FUNCTIONS(OPERATOR, READS, , ((const with_number *)l)->number)                                           \
    gs_layer *gs_##OPERATOR(float number) {                                                                  \
        static const gs_layer_ops ops = {OPS(#OPERATOR, OPERATOR, READS), .plan = plan_with,                 \
                                         .describe = describe_with};                                         \
        return make_with(&ops, number);                                                                      \
    }
GS_ELEMENT_WISE_ROWS(ROW, ROW_WITH, GS_NO_LAYER, )

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

ACTIVATION("relu", relu, y, .fuse_into = relu_join)
ACTIVATION("gelu", gelu, x, )
ACTIVATION("gelu", gelu_tanh, x, .describe = gelu_tanh_describe)
