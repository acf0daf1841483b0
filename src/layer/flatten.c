/* (c, h, w) of all tokens becomes one vector: only the shape changes, the data stay in place. */
#include "layer/make.h"

static gs_status flatten_plan(gs_layer *l, gs_shape in) {
    l->out = (gs_shape){(int)gs_shape_size(in), 1, 1, 0};
    return GS_OK;
}

static gs_status flatten_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    (void)l, (void)pass;
    *y = x;
    return GS_OK;
}

/* y = x; dx = dy. */
static gs_status flatten_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    (void)pass;
    *dx = l->needs_dx ? dy : GS_NONE;
    return GS_OK;
}

static const gs_layer_ops flatten_ops = {
    .name = "flatten",
    .buffers = GS_VIEW,
    .storage = GS_ALIKE,
    .plan = flatten_plan,
    .forward = flatten_forward,
    .backward = flatten_backward,
};

gs_layer *gs_flatten(void) {
    return gs_layer_new(&flatten_ops, sizeof(gs_layer), 0);
}
