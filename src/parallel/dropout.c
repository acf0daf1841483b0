/* dropout on this rank's tokens of each sequence. In the whole batch, other ranks' tokens lie between these. */
#include "parallel/tensor.h"

typedef gs_status (*pass_fn)(gs_layer *, const gs_pass *, gs_mem in, gs_mem *out);

/* Treat this rank's tokens of each sequence as one sample. */
static gs_status each_sample(gs_layer *l, pass_fn plain, const gs_pass *pass, gs_mem in, gs_mem out) {
    const gs_tensor_group *t = l->shard->group;
    const size_t each = gs_shape_size(l->in);
    gs_pass one = *pass;
    one.n = 1;
    for (size_t i = 0; i < pass->n; i++) {
        gs_mem to = gs_at(out, i * each);
        one.first = (pass->first + i) * (size_t)t->size + (size_t)t->rank;
        GS_TRY(plain(l, &one, gs_at(in, i * each), &to));
    }
    return GS_OK;
}

static gs_status forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    if (pass->training) return each_sample(l, l->shard->plain->forward, pass, x, *y);
    return l->shard->plain->forward(l, pass, x, y);
}

static gs_status backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    if (pass->training && l->needs_dx) return each_sample(l, l->shard->plain->backward, pass, dy, *dx);
    return l->shard->plain->backward(l, pass, dy, dx);
}

const gs_layer_ops gs_token_dropout = {.forward = forward, .backward = backward};
