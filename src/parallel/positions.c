/* positions on this rank's tokens of each sequence, which follow the tokens of lower ranks. */
#include "parallel/tensor.h"

static gs_pass after_lower_ranks(const gs_layer *l, const gs_pass *pass) {
    gs_pass own = *pass;
    own.past = (size_t)l->shard->group->rank * (size_t)l->in.t;
    return own;
}

/* All ranks hold the whole table. */
static gs_status plan(gs_layer *l, gs_shape in) {
    const int ranks = l->shard->group->size;
    GS_TRY(l->shard->plain->plan(l, in));
    l->param[0].dims[0] *= ranks;
    l->param[0].count *= (size_t)ranks;
    return GS_OK;
}

static gs_status forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const gs_pass own = after_lower_ranks(l, pass);
    return l->shard->plain->forward(l, &own, x, y);
}

/* Gather the other ranks' rows of dw. */
static gs_status backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    const gs_tensor_group *t = l->shard->group;
    const gs_pass own = after_lower_ranks(l, pass);
    const gs_mem dw = l->param[0].dw;
    GS_TRY(l->shard->plain->backward(l, &own, dy, dx));
    return t->gather(t->context, l->device, dw, gs_at(dw, own.past * (size_t)l->in.c), 1,
                     gs_shape_size(l->in));
}

const gs_layer_ops gs_token_positions = {.plan = plan, .forward = forward, .backward = backward};
