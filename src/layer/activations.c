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

/* forward and backward of a layer by its operators; backward reads KEPT. */
#define ACTIVATION(NAME, KEPT)                                                                               \
    static gs_status NAME##_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {                 \
        return l->device->ops->NAME##_forward(l->device, *y, x, gs_layer_numbers(pass, l->in));              \
    }                                                                                                        \
    static gs_status NAME##_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {              \
        if (!l->needs_dx) return GS_OK;                                                                      \
        return l->device->ops->NAME##_backward(l->device, *dx, dy, KEPT, pass->n * gs_shape_size(l->in));    \
    }

ACTIVATION(relu, gs_layer_y(l, l->x))
ACTIVATION(tanh, gs_layer_y(l, l->x))
ACTIVATION(sigmoid, gs_layer_y(l, l->x))
ACTIVATION(silu, l->x)
ACTIVATION(gelu, l->x)
ACTIVATION(gelu_tanh, l->x)

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

#define OPS(NAME) GS_LAYER_OF_ELEMENTS, .forward = NAME##_forward, .backward = NAME##_backward

static const gs_layer_ops relu_ops = {OPS(relu), .name = "relu", .buffers = GS_ELEMENT_WISE,
                                      .fuse_into = relu_join},
                          tanh_ops = {OPS(tanh), .name = "tanh", .buffers = GS_ELEMENT_WISE},
                          sigmoid_ops = {OPS(sigmoid), .name = "sigmoid", .buffers = GS_ELEMENT_WISE},
                          silu_ops = {OPS(silu), .name = "silu", .buffers = GS_READS_X},
                          gelu_ops = {OPS(gelu), .name = "gelu", .buffers = GS_READS_X},
                          gelu_tanh_ops = {OPS(gelu_tanh), .name = "gelu", .buffers = GS_READS_X,
                                           .describe = gelu_tanh_describe};

static gs_layer *make(const gs_layer_ops *ops) {
    return gs_layer_new(ops, sizeof(gs_layer), 0);
}

gs_layer *gs_relu(void) {
    return make(&relu_ops);
}

gs_layer *gs_tanh(void) {
    return make(&tanh_ops);
}

gs_layer *gs_sigmoid(void) {
    return make(&sigmoid_ops);
}

gs_layer *gs_silu(void) {
    return make(&silu_ops);
}

gs_layer *gs_gelu(bool with_tanh) {
    return make(with_tanh ? &gelu_tanh_ops : &gelu_ops);
}
