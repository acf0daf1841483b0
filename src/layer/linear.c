/* Every output is a weighted sum of all inputs: y = x w^T + b. */
#include <stdio.h>
#include "layer/leaves.h"
#include "layer/make.h"

static gs_status linear_plan(gs_layer *l, gs_shape in) {
    const int out = l->local_outputs;
    if (out < 1) return gs_layer_refuse(l, "the number of outputs is %d; it must be at least 1", out);
    GS_TRY(gs_layer_check_vectors(l, in, "linear needs a flat vector: put flatten before it"));
    l->out = (gs_shape){out, 1, 1, in.t};
    l->flops = gs_shape_tokens(in) * (2.0 * in.c * out + (l->bias ? out : 0));
    GS_TRY(gs_layer_parameter(l, "weight", 2, (int[]){out, in.c}, in.c));
    return l->bias ? gs_layer_parameter(l, "bias", 1, (int[]){out}, in.c) : GS_OK;
}

gs_status gs_layer_linear_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const gs_param *w = gs_layer_weight(l), *b = &l->param[1];
    return l->device->ops->linear_forward(l->device, *y, x, w->w, b->w, gs_layer_tokens(l, pass), l->in.c,
                                          l->out.c, &l->epilogue);
}

/* y = x w^T + b; dx = dy w, dw = dy^T x, db = the sum of dy over the samples. */
gs_status gs_layer_linear_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    const gs_param *w = gs_layer_weight(l), *b = &l->param[1];
    gs_epilogue then = l->epilogue;
    then.leaves = gs_leaves_in(pass);
    return l->device->ops->linear_backward(l->device, *dx, w->dw, b->dw, dy, l->x, w->w,
                                           gs_layer_tokens(l, pass), l->in.c, l->out.c, !pass->fresh, &then);
}

static void linear_describe(const gs_layer *l, char *text, size_t size) {
    snprintf(text, size, "linear %d%s", l->outputs, l->bias ? "" : " no_bias");
}

static const gs_layer_ops linear_ops = {
    .name = "linear",
    .plan = linear_plan,
    .forward = gs_layer_linear_forward,
    .backward = gs_layer_linear_backward,
    .describe = linear_describe,
    .buffers = GS_OWN,
    .storage = GS_EITHER,
    .tensor = GS_TENSOR_LINEAR,
    .incremental = true,
    .fuses = true,
    .sums_leaves = true,
};

gs_layer *gs_linear(int out, bool bias) {
    gs_layer *l = gs_layer_with_outputs(&linear_ops, sizeof *l, out);
    if (l) l->bias = bias;
    return l;
}
