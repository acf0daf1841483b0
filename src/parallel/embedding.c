/* An embedding divided among ranks: each holds some of the rows, looks up some of the tokens, or both. */
#include "parallel/sequence.h"

static gs_status plan(gs_layer *l, gs_shape in) {
    const int ranks = gs_sequence_is_divided(l) ? l->shard->group->size : 1;
    GS_TRY(l->shard->plain->plan(l, in));
    if (l->out.t % ranks != 0)
        return gs_layer_refuse(
            l, "with --sequence its %d tokens cannot be divided among %d workers; wanted a multiple of %d",
            l->out.t, ranks, ranks);
    l->out.t /= ranks;
    return GS_OK;
}

/* Each rank looks up its own rows, and the group sums the ranks' vectors. */
static gs_status row_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    gs_mem here = gs_tensor_partial(l, *y);
    GS_TRY(l->shard->plain->forward(l, pass, x, &here));
    return gs_tensor_sum_to(l, pass, l->out, here, GS_NONE, *y);
}

/* All ranks hold the whole table; each looks up only its own tokens of each sequence. */
static gs_status token_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const size_t each = (size_t)l->out.t, all = gs_shape_size(l->in),
                 own = each * (size_t)l->shard->group->rank;
    gs_pass one = *pass;
    one.n = 1;
    one.tokens = each;
    for (size_t i = 0; i < pass->n; i++) {
        gs_mem to = gs_at(*y, i * gs_shape_size(l->out));
        GS_TRY(l->shard->plain->forward(l, &one, gs_at(x, i * all + own), &to));
    }
    return GS_OK;
}

static gs_status backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    GS_TRY(gs_sequence_gather_dy(l, pass, &dy));
    return l->shard->plain->backward(l, pass, dy, dx);
}

const gs_layer_ops gs_row_embedding = {.plan = plan, .forward = row_forward, .backward = backward},
                   gs_token_embedding = {.plan = plan, .forward = token_forward, .backward = backward};
