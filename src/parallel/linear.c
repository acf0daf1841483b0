/* The two layers of a pair of linear layers (tensor.h), and the model's last layer, linear or tied. */
#include "layer/leaves.h"
#include "parallel/sequence.h"

/* This rank's number of leaves in a sum that the group divides. */
static int own_leaves(const gs_layer *l) {
    return l->shard->group->leaves / l->shard->group->size;
}

/* ---- some outputs on each rank: no sum in forward ---- */

/* If sequences are divided, replace *x by all ranks' tokens (valid until the next gather). *n: tokens to multiply. */
static gs_status gather_x(const gs_layer *l, const gs_pass *pass, gs_mem *x, size_t *n) {
    const gs_mem part = *x;
    *n = gs_layer_tokens(l, pass);
    if (!gs_sequence_is_divided(l)) return GS_OK;
    *n = pass->n * (size_t)gs_shape_tokens(l->out);
    *x = gs_sequence_whole(l, GS_WHOLE_X);
    return gs_sequence_gather(l, pass, l->in, part, *x);
}

static gs_status column_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const gs_backend *ops = l->device->ops;
    const gs_param *w = gs_layer_weight(l), *b = &l->param[1];
    size_t n;
    GS_TRY(gather_x(l, pass, &x, &n));
    return ops->linear_forward(l->device, *y, x, w->w, b->w, n, l->in.c, l->out.c, &l->epilogue);
}

/* y = x w^T + b; dw = dy^T x and db = sum of dy need no sum over ranks; dx = dy w, summed over all ranks' outputs. */
static gs_status column_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    const gs_backend *ops = l->device->ops;
    const gs_layer_shard *p = l->shard;
    const gs_param *w = gs_layer_weight(l), *b = &l->param[1];
    const gs_mem sums = gs_tensor_partial(l, *dx);
    const bool words = p->role == GS_TENSOR_OUTPUTS;
    const gs_share share = gs_tensor_share(p->group, words ? l->outputs : 0);
    gs_mem x = l->x;
    size_t n;
    GS_TRY(gather_x(l, pass, &x, &n));
    const gs_epilogue then = {.leaves = gs_leaves_in(pass)};
    gs_mem dw = w->dw, db = b->dw;
    if (then.leaves) {
        GS_TRY(ops->linear_backward(l->device, GS_NONE, dw, db, dy, x, w->w, n, l->in.c, l->out.c,
                                    !pass->fresh, &then));
        dw = db = (gs_mem)GS_NONE;
    }
    GS_TRY(p->group->leaves
               ? ops->linear_tree_backward(l->device, sums, dw, db, dy, x, w->w, n, l->in.c, l->out.c,
                                           !pass->fresh, own_leaves(l), p->blocks, words ? &share : NULL)
               : ops->linear_backward(l->device, sums, w->dw, b->dw, dy, x, w->w, n, l->in.c, l->out.c,
                                      !pass->fresh, &l->epilogue));
    return l->needs_dx ? gs_tensor_sum_to(l, pass, l->in, sums, GS_NONE, *dx) : GS_OK;
}

const gs_layer_ops gs_column_linear = {.forward = column_forward, .backward = column_backward};

/* ---- some inputs on each rank: no sum in backward ---- */

/* y = the sum of all ranks' x w^T, plus b. */
static gs_status row_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const gs_backend *ops = l->device->ops;
    const gs_param *w = &l->param[0], *b = &l->param[1];
    const size_t n = gs_layer_tokens(l, pass);
    const gs_mem sums = gs_tensor_partial(l, *y);
    GS_TRY(l->shard->group->leaves
               ? ops->linear_tree_forward(l->device, sums, x, w->w, n, l->in.c, l->out.c, own_leaves(l))
               : ops->linear_forward(l->device, sums, x, w->w, GS_NONE, n, l->in.c, l->out.c, NULL));
    return gs_tensor_sum_to(l, pass, l->out, sums, b->w, *y);
}

static gs_status row_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    const gs_backend *ops = l->device->ops;
    const gs_param *w = &l->param[0], *b = &l->param[1];
    const size_t n = gs_layer_tokens(l, pass);
    GS_TRY(gs_sequence_gather_dy(l, pass, &dy));
    const gs_epilogue then = {.leaves = gs_leaves_in(pass)};
    return ops->linear_backward(l->device, *dx, w->dw, b->dw, dy, l->x, w->w, n, l->in.c, l->out.c,
                                !pass->fresh, &then);
}

const gs_layer_ops gs_row_linear = {.forward = row_forward, .backward = row_backward};
