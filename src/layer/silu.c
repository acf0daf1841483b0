/* x / (1 + exp(-x)), element by element, also known as swish.
 *
 * Source: Elfwing, Uchibe, Doya, "Sigmoid-weighted linear units for neural network function approximation in
 * reinforcement learning" (Neural Networks 107, 2018).
 */
#include "layer/make.h"

static gs_status silu_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    return l->device->ops->silu_forward(l->device, *y, x, gs_layer_numbers(pass, l->in));
}

/* Of y = x s, s = 1 / (1 + exp(-x)): dx = dy s (1 + x (1 - s)). */
static gs_status silu_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    if (!l->needs_dx) return GS_OK;
    return l->device->ops->silu_backward(l->device, *dx, dy, l->x, pass->n * gs_shape_size(l->in));
}

static const gs_layer_ops silu_ops = {
    .name = "silu",
    .buffers = GS_READS_X,
    GS_LAYER_OF_ELEMENTS,
    .forward = silu_forward,
    .backward = silu_backward,
};

gs_layer *gs_silu(void) {
    return gs_layer_new(&silu_ops, sizeof(gs_layer), 0);
}
