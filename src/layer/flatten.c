/* (c, h, w) becomes the vector (c h w): the numbers stay where they are, only their shape changes. */
#include <stdio.h>
#include "layer/make.h"

static gs_status flatten_plan(gs_layer *l, gs_shape in) {
    l->out = (gs_shape){(int)gs_shape_size(in), 1, 1};
    return GS_OK;
}

static gs_status flatten_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    (void)l, (void)pass;
    *y = x;
    return GS_OK;
}

/* Of y = x: dx = dy. */
static gs_status flatten_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    (void)pass;
    *dx = l->needs_dx ? dy : GS_NONE;
    return GS_OK;
}

static void flatten_describe(const gs_layer *l, char *text, size_t size) {
    (void)l;
    snprintf(text, size, "flatten");
}

static const gs_layer_ops flatten_ops = {
    .name = "flatten",
    .buffers = GS_VIEW,
    .plan = flatten_plan,
    .forward = flatten_forward,
    .backward = flatten_backward,
    .describe = flatten_describe,
};

gs_layer *gs_flatten(void) {
    return gs_layer_new(&flatten_ops, sizeof(gs_layer), 0);
}
