/* max(x, 0): what is negative becomes 0. */
#include "layer/make.h"

static gs_status relu_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    return l->device->ops->relu_forward(l->device, *y, x, gs_layer_numbers(pass, l->in));
}

/* Of y = max(x, 0): dx = dy where y > 0, else 0. */
static gs_status relu_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    if (!l->needs_dx) return GS_OK;
    return l->device->ops->relu_backward(l->device, *dx, dy, gs_layer_y(l, l->x),
                                         pass->n * gs_shape_size(l->in));
}

/* An epilogue has one relu, and it comes before a pooling. */
static bool relu_join(const gs_layer *l, gs_epilogue *then) {
    (void)l;
    if (then->relu || then->pool) return false;
    then->relu = true;
    return true;
}

static const gs_layer_ops relu_ops = {
    .name = "relu",
    .buffers = GS_ELEMENT_WISE,
    GS_LAYER_OF_ELEMENTS,
    .forward = relu_forward,
    .backward = relu_backward,
    .join = relu_join,
};

gs_layer *gs_relu(void) {
    return gs_layer_new(&relu_ops, sizeof(gs_layer), 0);
}
