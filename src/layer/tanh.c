/* The hyperbolic tangent, element by element. */
#include "layer/make.h"

static gs_status tanh_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    return l->device->ops->tanh_forward(l->device, *y, x, gs_layer_numbers(pass, l->in));
}

/* Of y = tanh(x): dx = dy (1 - y^2). */
static gs_status tanh_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    if (!l->needs_dx) return GS_OK;
    return l->device->ops->tanh_backward(l->device, *dx, dy, gs_layer_y(l, l->x),
                                         pass->n * gs_shape_size(l->in));
}

static const gs_layer_ops tanh_ops = {
    .name = "tanh",
    .buffers = GS_ELEMENT_WISE,
    GS_LAYER_OF_ELEMENTS,
    .forward = tanh_forward,
    .backward = tanh_backward,
};

gs_layer *gs_tanh(void) {
    return gs_layer_new(&tanh_ops, sizeof(gs_layer), 0);
}
