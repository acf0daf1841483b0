/* max(x, 0): what is negative becomes 0. Where the layer before does it along with its own work (sequential.c),
 * nothing is left to do: x holds y, and dy may pass as it is. */
#include <stdio.h>
#include "layer/make.h"

static gs_status relu_plan(gs_layer *l, gs_shape in) {
    l->out = in;
    l->flops = (double)gs_shape_size(in);
    return GS_OK;
}

static gs_status relu_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    *y = gs_layer_y(l, x);
    l->x = x;
    if (l->fused) return GS_OK;
    return l->device->ops->relu_forward(l->device, *y, x, pass->n * gs_shape_size(l->in));
}

/* Of y = max(x, 0): dx = dy where y > 0, else 0. */
static gs_status relu_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    *dx = l->fused ? dy : gs_layer_dx(l, dy);
    if (l->fused) return GS_OK;
    if (!l->needs_dx) return GS_OK;
    return l->device->ops->relu_backward(l->device, *dx, dy, gs_layer_y(l, l->x),
                                         pass->n * gs_shape_size(l->in));
}

static void relu_describe(const gs_layer *l, char *text, size_t size) {
    (void)l;
    snprintf(text, size, "relu");
}

static const gs_layer_ops relu_ops = {
    .name = "relu",
    .buffers = GS_ELEMENT_WISE,
    .plan = relu_plan,
    .forward = relu_forward,
    .backward = relu_backward,
    .describe = relu_describe,
};

bool gs_layer_is_relu(const gs_layer *l) {
    return l->ops == &relu_ops;
}

gs_layer *gs_relu(void) {
    return gs_layer_new(&relu_ops, sizeof(gs_layer), 0);
}
