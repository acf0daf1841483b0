#include "layer/sequence.h"

#include <string.h>

#include "layer/make.h"

bool gs_sequence_is_divided(const gs_layer *l) {
    return l->tensor && l->tensor->sequence && l->tensor->size > 1;
}

/* ---- plan ---- */

void gs_sequence_divide(gs_layer *l, const gs_tensor_group *t) {
    if (!t->sequence || t->size < 2) return;
    if (l->role == GS_TENSOR_WHOLE) {
        l->tensor = t;
        l->sharded = true;
    }
    for (int i = 0; i < l->children; i++) gs_sequence_divide(l->child[i], t);
}

gs_status gs_sequence_check(const gs_layer *l) {
    if (!gs_sequence_is_divided(l)) return GS_OK;
    const bool convolution = l->ops->tensor == GS_TENSOR_CONV;
    if (!convolution && (!l->sharded || l->ops->shards || l->ops->tensor == GS_TENSOR_ELEMENTS)) return GS_OK;
    return gs_layer_refuse(
        l,
        "with --sequence each worker of a group has some tokens of each sequence here, and "
        "this layer needs all of them%s",
        convolution ? ""
                    : "; wanted layer_norm, positions, dropout, residual, activations, and "
                      "pairs of linear layers");
}

gs_status gs_sequence_tokens_here(const gs_layer *l, int t, int *here) {
    const int ranks = gs_sequence_is_divided(l) ? l->tensor->size : 1;
    *here = t / ranks;
    if (t % ranks == 0) return GS_OK;
    return gs_layer_refuse(
        l, "with --sequence its %d tokens cannot be divided among %d workers; wanted a multiple of %d", t,
        ranks, ranks);
}

bool gs_sequence_gathers_x(const gs_layer *l) {
    return gs_sequence_is_divided(l) && (l->role == GS_TENSOR_COLUMNS || l->role == GS_TENSOR_OUTPUTS);
}

bool gs_sequence_reduces_y(const gs_layer *l) {
    return gs_sequence_is_divided(l) && (l->role == GS_TENSOR_ROWS || l->role == GS_TENSOR_TABLE_ROWS);
}

int gs_sequence_tokens(const gs_layer *l) {
    return gs_shape_tokens(gs_sequence_gathers_x(l) ? l->out : l->in);
}

gs_status gs_sequence_check_end(const gs_layer *net) {
    const gs_layer *last = net->children > 0 ? net->child[net->children - 1] : net;
    if (!gs_sequence_is_divided(last) || last->role == GS_TENSOR_OUTPUTS) return GS_OK;
    if (gs_layer_vocabulary(net) == 0) return GS_OK; /* no sequences: that is refused elsewhere */
    return gs_layer_refuse(last,
                           "with --sequence each worker of a group would have the model's outputs for some "
                           "tokens of each sequence, and the loss needs all; wanted a last layer tied, or "
                           "linear that does not end a pair of linear layers");
}

/* ---- bind ---- */

typedef struct widest {
    size_t floats;
    bool divided, ordered;
} widest;

/* What a sample has in all of the ranks' tokens of x or y. */
static gs_status find_widest(gs_layer *l, void *context) {
    widest *w = context;
    if (!gs_sequence_is_divided(l) || l->elsewhere) return GS_OK;
    const gs_shape part = gs_sequence_gathers_x(l) ? l->in : l->out;
    const bool whole = gs_sequence_gathers_x(l) || gs_sequence_reduces_y(l) ||
                       l->ops->tensor == GS_TENSOR_TABLE || (l->tensor->leaves > 0 && l->params > 0);
    const size_t floats = gs_shape_size(part) * (size_t)l->tensor->size;
    w->divided = true;
    w->ordered |= l->tensor->leaves > 0;
    if (whole && floats > w->floats) w->floats = floats;
    return GS_OK;
}

gs_status gs_sequence_bind(gs_layer *root, size_t max_batch) {
    widest w = {0};
    GS_TRY(gs_layer_walk(root, find_widest, &w));
    const size_t floats = max_batch * w.floats;
    for (int i = 0; w.divided && i < GS_WHOLES; i++)
        if (i != GS_WHOLE_DX || w.ordered)
            GS_TRY(gs_context(
                gs_alloc(root->device, GS_MEMORY_ACTIVATIONS, floats * sizeof(float), &root->arena->whole[i]),
                "--sequence: all tokens of a layer"));
    return GS_OK;
}

/* ---- use ---- */

gs_status gs_sequence_gather(const gs_layer *l, const gs_pass *pass, gs_shape shape, gs_mem part,
                             gs_mem whole) {
    const gs_tensor_group *t = l->tensor;
    return pass->n > 0 ? t->gather(t->context, l->device, whole, part, pass->n, gs_shape_size(shape)) : GS_OK;
}

gs_status gs_sequence_reduce(const gs_layer *l, const gs_pass *pass, gs_shape shape, gs_mem whole,
                             gs_mem part) {
    const gs_tensor_group *t = l->tensor;
    return pass->n > 0 ? t->reduce(t->context, l->device, part, whole, pass->n, gs_shape_size(shape)) : GS_OK;
}

/* part = this rank's tokens of whole. */
static gs_status take(const gs_layer *l, const gs_pass *pass, gs_shape shape, gs_mem whole, gs_mem part) {
    const size_t each = gs_shape_size(shape), ranks = (size_t)l->tensor->size, rank = (size_t)l->tensor->rank;
    for (size_t i = 0; i < pass->n; i++)
        GS_TRY(l->device->ops->copy(l->device, gs_at(part, i * each), gs_at(whole, (i * ranks + rank) * each),
                                    each));
    return GS_OK;
}

/* ---- layer_norm ---- */

size_t gs_sequence_norm_sums(const gs_layer *l, size_t max_batch) {
    if (!l->sharded) return 0;
    if (!l->tensor->leaves) return 2 * (size_t)l->in.c;
    return 2 * max_batch * (size_t)(gs_shape_tokens(l->in) * l->tensor->size);
}

/* The sums over this rank's tokens, then over the group's ranks, into what there may be of earlier passes. */
static gs_status backward_of_own(gs_layer *l, const gs_pass *pass, gs_mem dy, const gs_sequence_norm *n) {
    const gs_backend *ops = l->device->ops;
    const size_t c = (size_t)l->in.c;
    const gs_mem dw = n->sums, db = gs_at(n->sums, c), to[] = {n->dw, n->db};
    GS_TRY(ops->layer_norm_backward(l->device, l->dx, dw, db, dy, n->x, n->w, n->mean, n->rstd,
                                    gs_layer_tokens(l, pass), l->in.c, false));
    GS_TRY(l->tensor->sum(l->tensor->context, l->device, n->sums, 2 * c));
    for (int i = 0; i < 2; i++) {
        const gs_mem sum = gs_at(n->sums, (size_t)i * c);
        GS_TRY(pass->fresh ? ops->copy(l->device, to[i], sum, c) : ops->add(l->device, to[i], to[i], sum, c));
    }
    return GS_OK;
}

/* All ranks compute backward of all tokens, in the order in which one worker would. */
static gs_status backward_of_all(gs_layer *l, const gs_pass *pass, gs_mem dy, const gs_sequence_norm *n) {
    const gs_mem x = gs_sequence_whole(l, GS_WHOLE_X), all_dy = gs_sequence_whole(l, GS_WHOLE_DY),
                 dx = l->needs_dx ? gs_sequence_whole(l, GS_WHOLE_DX) : (gs_mem)GS_NONE;
    const size_t tokens = gs_layer_tokens(l, pass) * (size_t)l->tensor->size;
    const gs_shape one = {1, 1, 1, l->in.t};
    const gs_mem mean = n->sums, rstd = gs_at(n->sums, tokens);
    GS_TRY(gs_sequence_gather(l, pass, l->in, n->x, x));
    GS_TRY(gs_sequence_gather(l, pass, l->in, dy, all_dy));
    GS_TRY(gs_sequence_gather(l, pass, one, n->mean, mean));
    GS_TRY(gs_sequence_gather(l, pass, one, n->rstd, rstd));
    GS_TRY(l->device->ops->layer_norm_backward(l->device, dx, n->dw, n->db, all_dy, x, n->w, mean, rstd,
                                               tokens, l->in.c, !pass->fresh));
    return l->needs_dx ? take(l, pass, l->in, dx, l->dx) : GS_OK;
}

gs_status gs_sequence_norm_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, const gs_sequence_norm *n) {
    return l->tensor->leaves ? backward_of_all(l, pass, dy, n) : backward_of_own(l, pass, dy, n);
}
