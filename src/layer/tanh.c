/* The hyperbolic tangent, element by element. */
#include <stdio.h>
#include "layer/make.h"

static gs_status tanh_plan(gs_layer *l, gs_shape in) {
    l->out = in;
    l->flops = (double)gs_shape_size(in);
    return GS_OK;
}

static gs_status tanh_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    *y = gs_layer_y(l, x);
    l->x = x;
    return l->device->ops->tanh_forward(l->device, *y, x, pass->n * gs_shape_size(l->in));
}

/* Of y = tanh(x): dx = dy (1 - y^2). */
static gs_status tanh_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    *dx = gs_layer_dx(l, dy);
    if (!l->needs_dx) return GS_OK;
    return l->device->ops->tanh_backward(l->device, *dx, dy, gs_layer_y(l, l->x),
                                         pass->n * gs_shape_size(l->in));
}

static void tanh_describe(const gs_layer *l, char *text, size_t size) {
    (void)l;
    snprintf(text, size, "tanh");
}

static const gs_layer_ops tanh_ops = {
    .name = "tanh",
    .buffers = GS_ELEMENT_WISE,
    .plan = tanh_plan,
    .forward = tanh_forward,
    .backward = tanh_backward,
    .describe = tanh_describe,
};

gs_layer *gs_tanh(void) {
    return gs_layer_new(&tanh_ops, sizeof(gs_layer), 0);
}
