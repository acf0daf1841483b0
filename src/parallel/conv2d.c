/* The two layers of a pair of convolutions (tensor.h). */
#include "parallel/tensor.h"

/* dx is a sum over all ranks' output channels. */
static gs_status column_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    gs_mem here = gs_tensor_partial(l, *dx);
    GS_TRY(l->shard->plain->backward(l, pass, dy, &here));
    return l->needs_dx ? gs_tensor_sum_to(l, pass, l->in, here, GS_NONE, *dx) : GS_OK;
}

/* y is a sum over all ranks' input channels. Only rank 0 adds the bias. */
static gs_status row_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    gs_mem here = gs_tensor_partial(l, *y), *b = &l->param[1].w;
    const gs_mem bias = *b;
    if (l->shard->group->rank > 0) *b = GS_NONE;
    const gs_status status = l->shard->plain->forward(l, pass, x, &here);
    *b = bias;
    GS_TRY(status);
    return gs_tensor_sum_to(l, pass, l->out, here, GS_NONE, *y);
}

const gs_layer_ops gs_column_conv2d = {.backward = column_backward}, gs_row_conv2d = {.forward = row_forward};
