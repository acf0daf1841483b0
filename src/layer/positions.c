/* Adds to each token a learned vector for its position in the sequence: y = x + weight.
 *
 * Without it, attention would not know the order of its tokens. The table is as long as the sequences; its initial
 * values are drawn like an embedding's. From a file with a longer table, the first vectors are loaded.
 *
 * Source: Gehring, Auli, Grangier, Yarats, Dauphin, "Convolutional sequence to sequence learning" (ICML 2017). */
#include "layer/make.h"

static gs_status positions_plan(gs_layer *l, gs_shape in) {
    GS_TRY(gs_layer_check_vectors(l, in, "positions needs a sequence of vectors"));
    GS_TRY(gs_layer_plan_element_wise(l, in));
    GS_TRY(gs_layer_parameter(l, "weight", 2, (int[]){gs_shape_tokens(in), in.c}, in.c));
    l->param[0].longer = true;
    return GS_OK;
}

static gs_status positions_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const size_t width = (size_t)l->in.c, tokens = gs_layer_tokens(l, pass) / (pass->n ? pass->n : 1);
    return l->device->ops->positions_forward(l->device, *y, x, gs_at(l->param[0].w, pass->past * width),
                                             pass->n, tokens * width);
}

/* y = x + w; dx = dy, passed on; dw = the sum of dy over the samples. (In training, `past` is 0.) */
static gs_status positions_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    *dx = l->needs_dx ? dy : GS_NONE;
    const gs_mem dw = gs_at(l->param[0].dw, pass->past * (size_t)l->in.c);
    return l->device->ops->positions_backward(l->device, dw, dy, pass->n, gs_shape_size(l->in), !pass->fresh);
}

static const gs_layer_ops positions_ops = {
    .name = "positions",
    .buffers = GS_ELEMENT_WISE,
    .storage = GS_ALIKE,
    .incremental = true,
    .tensor = GS_TENSOR_PLACES,
    .plan = positions_plan,
    .forward = positions_forward,
    .backward = positions_backward,
};

gs_layer *gs_positions(void) {
    return gs_layer_new(&positions_ops, sizeof(gs_layer), 0);
}
