/* 1 / (1 + exp(-x)), element by element. */
#include <stdio.h>
#include "layer/make.h"

static gs_status sigmoid_plan(gs_layer *l, gs_shape in) {
    l->out = in;
    l->flops = (double)gs_shape_size(in);
    return GS_OK;
}

static gs_status sigmoid_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    *y = gs_layer_y(l, x);
    l->x = x;
    return l->device->ops->sigmoid_forward(l->device, *y, x, pass->n * gs_shape_size(l->in));
}

/* Of y = 1 / (1 + exp(-x)): dx = dy y (1 - y). */
static gs_status sigmoid_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    *dx = gs_layer_dx(l, dy);
    if (!l->needs_dx) return GS_OK;
    return l->device->ops->sigmoid_backward(l->device, *dx, dy, gs_layer_y(l, l->x),
                                            pass->n * gs_shape_size(l->in));
}

static void sigmoid_describe(const gs_layer *l, char *text, size_t size) {
    (void)l;
    snprintf(text, size, "sigmoid");
}

static const gs_layer_ops sigmoid_ops = {
    .name = "sigmoid",
    .buffers = GS_ELEMENT_WISE,
    .plan = sigmoid_plan,
    .forward = sigmoid_forward,
    .backward = sigmoid_backward,
    .describe = sigmoid_describe,
};

gs_layer *gs_sigmoid(void) {
    return gs_layer_new(&sigmoid_ops, sizeof(gs_layer), 0);
}
