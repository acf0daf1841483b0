/* Element-wise layers: each number of y follows from one of x, by an operator of their own in backend.h. Those whose
 * backward reads y may work in place: the others need x, and so have a y of their own.
 *
 *     relu      max(x, 0): what is negative becomes 0               dx = dy where y > 0, else 0
 *     tanh      the hyperbolic tangent                              dx = dy (1 - y^2)
 *     sigmoid   1 / (1 + exp(-x))                                   dx = dy y (1 - y)
 *     silu      x s, s = 1 / (1 + exp(-x)), also known as swish     dx = dy s (1 + x (1 - s))
 *     gelu      x Phi(x): each number is weighted by how many       dx = dy (Phi(x) + x phi(x));
 *               are smaller, if they are normally distributed           with tanh: see backend.h
 *
 * Sources: Elfwing, Uchibe, Doya, "Sigmoid-weighted linear units for neural network function approximation in
 * reinforcement learning" (Neural Networks 107, 2018), for silu; Hendrycks, Gimpel, "Gaussian error linear units
 * (GELUs)" (arXiv 1606.08415, 2016), for gelu, which has the form with tanh too.
 */
#include <stdio.h>
#include "layer/make.h"

/* gs_NAME: a layer by the operators OPERATOR_forward and OPERATOR_backward, which reads y or x; then more of its ops. */
#define KEPT_ELEMENT_WISE gs_layer_y(l, l->x)
#define KEPT_READS_X l->x
#define ACTIVATION(NAME, OPERATOR, BUFFERS, ...)                                                             \
    static gs_status OPERATOR##_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {             \
        return l->device->ops->OPERATOR##_forward(l->device, *y, x, gs_layer_numbers(pass, l->in));          \
    }                                                                                                        \
    static gs_status OPERATOR##_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {          \
        if (!l->needs_dx) return GS_OK;                                                                      \
        return l->device->ops->OPERATOR##_backward(l->device, *dx, dy, KEPT_##BUFFERS,                       \
                                                   pass->n * gs_shape_size(l->in));                          \
    }                                                                                                        \
    gs_layer *gs_##OPERATOR(void) {                                                                          \
        static const gs_layer_ops ops = {GS_LAYER_OF_ELEMENTS, .name = #NAME, .buffers = GS_##BUFFERS,       \
                                         .forward = OPERATOR##_forward, .backward = OPERATOR##_backward,     \
                                         __VA_ARGS__};                                                       \
        return gs_layer_new(&ops, sizeof(gs_layer), 0);                                                      \
    }

/* An epilogue has one relu, and it comes before a pooling. */
static bool relu_join(const gs_layer *l, gs_epilogue *then) {
    (void)l;
    if (then->relu || then->pool) return false;
    then->relu = true;
    return true;
}

static void gelu_tanh_describe(const gs_layer *l, char *text, size_t size) {
    snprintf(text, size, "%s tanh", l->ops->name);
}

ACTIVATION(relu, relu, ELEMENT_WISE, .fuse_into = relu_join)
ACTIVATION(tanh, tanh, ELEMENT_WISE, )
ACTIVATION(sigmoid, sigmoid, ELEMENT_WISE, )
ACTIVATION(silu, silu, READS_X, )
ACTIVATION(gelu, gelu, READS_X, )
ACTIVATION(gelu, gelu_tanh, READS_X, .describe = gelu_tanh_describe)
