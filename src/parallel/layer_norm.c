/* layer_norm on this rank's tokens of each sequence: forward is local, backward sums over all ranks. */
#include "layer/layer_norm.h"
#include "parallel/sequence.h"

/* Allocate the shard's `sums`, for this rank's dw and db or, with `leaves`, for all tokens' mean and rstd. */
static gs_status bind(gs_layer *l, size_t max_batch) {
    const gs_tensor_group *t = l->shard->group;
    const gs_shape all = {2 * t->size, 1, 1, gs_shape_tokens(l->in)}, own = {2 * l->in.c, 1, 1, 0};
    GS_TRY(l->shard->plain->bind(l, max_batch));
    return t->leaves ? gs_layer_alloc(l, max_batch, all, &l->shard->sums)
                     : gs_layer_alloc(l, 1, own, &l->shard->sums);
}

static void unbind(gs_layer *l) {
    l->shard->plain->unbind(l);
    l->device->ops->free(l->device, l->shard->sums);
}

/* part = this rank's tokens from `whole`. */
static gs_status take(const gs_layer *l, const gs_pass *pass, gs_shape shape, gs_mem whole, gs_mem part) {
    const size_t each = gs_shape_size(shape), ranks = (size_t)l->shard->group->size,
                 rank = (size_t)l->shard->group->rank;
    for (size_t i = 0; i < pass->n; i++)
        GS_TRY(l->device->ops->copy(l->device, gs_at(part, i * each), gs_at(whole, (i * ranks + rank) * each),
                                    each));
    return GS_OK;
}

/* Sum over this rank's tokens, then over the group's ranks, and add the result to the sums of earlier passes. */
static gs_status backward_of_own(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    const gs_backend *ops = l->device->ops;
    const gs_tensor_group *t = l->shard->group;
    const gs_norm *me = (const gs_norm *)l;
    const size_t c = (size_t)l->in.c;
    const gs_mem sum[] = {l->shard->sums, gs_at(l->shard->sums, c)};
    GS_TRY(ops->layer_norm_backward(l->device, *dx, sum[GS_NORM_WEIGHT], sum[GS_NORM_BIAS], dy, l->x,
                                    l->param[GS_NORM_WEIGHT].w, me->mean, me->rstd, gs_layer_tokens(l, pass),
                                    l->in.c, false));
    GS_TRY(t->sum(t->context, l->device, l->shard->sums, 2 * c));
    for (int i = 0; i < 2; i++) {
        const gs_mem to = l->param[i].dw;
        GS_TRY(pass->fresh ? ops->copy(l->device, to, sum[i], c) : ops->add(l->device, to, to, sum[i], c));
    }
    return GS_OK;
}

/* Each rank computes backward for all tokens, in the order of a single worker. */
static gs_status backward_of_all(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    const gs_norm *me = (const gs_norm *)l;
    const gs_param *w = &l->param[GS_NORM_WEIGHT], *b = &l->param[GS_NORM_BIAS];
    const gs_mem x = gs_sequence_whole(l, GS_WHOLE_X),
                 all = l->needs_dx ? gs_sequence_whole(l, GS_WHOLE_DX) : (gs_mem)GS_NONE;
    const size_t tokens = gs_layer_tokens(l, pass) * (size_t)l->shard->group->size;
    const gs_shape one = {1, 1, 1, l->in.t};
    const gs_mem mean = l->shard->sums, rstd = gs_at(mean, tokens);
    const size_t from = pass->from * (size_t)gs_shape_tokens(l->in);
    GS_TRY(gs_sequence_gather(l, pass, l->in, l->x, x));
    GS_TRY(gs_sequence_gather_dy(l, pass, &dy));
    GS_TRY(gs_sequence_gather(l, pass, one, gs_at(me->mean, from), mean));
    GS_TRY(gs_sequence_gather(l, pass, one, gs_at(me->rstd, from), rstd));
    GS_TRY(l->device->ops->layer_norm_backward(l->device, all, w->dw, b->dw, dy, x, w->w, mean, rstd, tokens,
                                               l->in.c, !pass->fresh));
    return l->needs_dx ? take(l, pass, l->in, all, *dx) : GS_OK;
}

static gs_status backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    return (l->shard->group->leaves ? backward_of_all : backward_of_own)(l, pass, dy, dx);
}

const gs_layer_ops gs_token_layer_norm = {.bind = bind, .unbind = unbind, .backward = backward};
