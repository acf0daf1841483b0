/* 1 / (1 + exp(-x)), element by element. */
#include "layer/make.h"

static gs_status sigmoid_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    return l->device->ops->sigmoid_forward(l->device, *y, x, gs_layer_numbers(pass, l->in));
}

/* Of y = 1 / (1 + exp(-x)): dx = dy y (1 - y). */
static gs_status sigmoid_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    if (!l->needs_dx) return GS_OK;
    return l->device->ops->sigmoid_backward(l->device, *dx, dy, gs_layer_y(l, l->x),
                                            pass->n * gs_shape_size(l->in));
}

static const gs_layer_ops sigmoid_ops = {
    .name = "sigmoid",
    .buffers = GS_ELEMENT_WISE,
    GS_LAYER_OF_ELEMENTS,
    .forward = sigmoid_forward,
    .backward = sigmoid_backward,
};

gs_layer *gs_sigmoid(void) {
    return gs_layer_new(&sigmoid_ops, sizeof(gs_layer), 0);
}
