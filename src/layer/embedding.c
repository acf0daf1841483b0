/* A vector for each token number: y = weight[x], one row of a table that is learned.
 *
 *     x   2 0 2          weight   0  a a a         y   c c c
 *                                 1  b b b             a a a
 *                                 2  c c c             c c c
 *
 * A sample is a row of numbers, or a sequence of tokens with one number each; y is a sequence. A number is a float that
 * holds a whole number from 0 to rows - 1; train/sets.c checks that before a run begins. It has no gradient, so the
 * layer comes first in a model.
 *
 * Initial values are uniform in (-k, k), k = 1 / sqrt(width): vectors of about the same length for any width. (PyTorch
 * draws from the normal distribution with deviation 1: `embedding V D std 1`.)
 *
 * The layer `tied` may use the table too, to turn vectors back into a number for each token (tied.c).
 *
 * Source: Bengio, Ducharme, Vincent, Jauvin, "A neural probabilistic language model" (JMLR 2003).
 */
#include <math.h>
#include <stdio.h>
#include "layer/make.h"
#include "layer/sequence.h"
#include "layer/tensor.h"

enum { MOST = 1 << 24 /* up to here a float holds every whole number */ };

typedef struct embedding {
    gs_layer base;
    int rows, width;
    int first, here; /* planned: the rows that this worker has, where a group divides them (tensor.h) */
} embedding;

/* Layers are numbered depth first: only those that hold it come before the first one. */
static bool is_first(const gs_layer *l) {
    int holders = l->name[0] ? 1 : 0;
    for (const char *c = l->name; *c; c++) holders += *c == '.';
    return l->number == holders;
}

static gs_status rows_here(embedding *me) {
    const gs_tensor_group *t = me->base.tensor;
    const gs_share share = gs_tensor_share(t, me->rows);
    me->first = gs_share_first(&share);
    me->here = gs_share_count(&share);
    if (me->rows >= t->size) return GS_OK;
    return gs_layer_refuse(&me->base, "its %d vectors cannot be divided among %d workers; wanted at least %d",
                           me->rows, t->size, t->size);
}

static gs_status embedding_plan(gs_layer *l, gs_shape in) {
    embedding *me = (embedding *)l;
    const int tokens = gs_shape_tokens(in);
    if (me->rows < 1 || me->rows > MOST)
        return gs_layer_refuse(l, "the number of vectors is %d; wanted 1 to %d", me->rows, MOST);
    if (me->width < 1)
        return gs_layer_refuse(l, "the width of the vectors is %d; it must be at least 1", me->width);
    if (in.h != 1 || in.w != 1 || (in.c != 1 && tokens != 1))
        return gs_layer_refuse(
            l, "the input is %s, embedding needs a row of token numbers, such as (20,1,1) or (20,1,1,1)",
            gs_shape_tuple(in).text);
    if (!is_first(l))
        return gs_layer_refuse(
            l, "another layer comes before it, but only data hold token numbers: put it first");
    int tokens_here;
    GS_TRY(gs_sequence_tokens_here(l, in.c * tokens, &tokens_here));
    l->out = (gs_shape){me->width, 1, 1, tokens_here};
    me->first = 0;
    me->here = me->rows;
    if (l->role == GS_TENSOR_TABLE_ROWS) GS_TRY(rows_here(me));
    return gs_layer_parameter(l, "weight", 2, (int[]){me->here, me->width}, me->width);
}

/* The vectors of n numbers. Where a rank has none it gives -0, which changes no number in a sum, not even -0. */
static gs_status look_up(const gs_layer *l, gs_mem y, gs_mem x, size_t n) {
    const embedding *me = (const embedding *)l;
    return l->device->ops->embedding_forward(l->device, y, x, l->param[0].w, n, me->here, me->width,
                                             me->first, me->here == me->rows ? NAN : -0.0f);
}

/* y has this rank's tokens of each sequence alone: of a table that all ranks have, it looks up no others. */
static gs_status forward_of_part(gs_layer *l, const gs_pass *pass, gs_mem x) {
    const size_t each = (size_t)l->out.t, all = gs_shape_size(l->in), own = each * (size_t)l->tensor->rank;
    if (l->role == GS_TENSOR_TABLE_ROWS) {
        const gs_mem whole = gs_sequence_whole(l, GS_WHOLE_DY);
        GS_TRY(look_up(l, whole, x, pass->n * all));
        return gs_sequence_reduce(l, pass, l->out, whole, l->y);
    }
    for (size_t i = 0; i < pass->n; i++)
        GS_TRY(look_up(l, gs_at(l->y, i * gs_shape_size(l->out)), gs_at(x, i * all + own), each));
    return GS_OK;
}

/* A group adds up the vectors. */
static gs_status embedding_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const embedding *me = (const embedding *)l;
    const size_t n = pass->n * (pass->tokens ? pass->tokens : gs_shape_size(l->in));
    const bool whole = me->here == me->rows;
    const gs_mem here = whole ? l->y : gs_tensor_unsummed(l, l->y);
    *y = l->y;
    if (gs_sequence_is_divided(l)) return forward_of_part(l, pass, x);
    GS_TRY(look_up(l, here, x, n));
    return whole ? GS_OK : gs_tensor_sum_to(l, here, l->y, n * (size_t)me->width);
}

/* Of y = w[x]: dw[r] = the sum of dy over the tokens x = r. Between two whole numbers there is nothing: dx is 0, if
 * somebody asks for it. */
static gs_status embedding_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    const embedding *me = (const embedding *)l;
    const size_t count = pass->n * gs_shape_size(l->in);
    *dx = l->dx;
    if (l->needs_dx) GS_TRY(l->device->ops->fill(l->device, l->dx, 0, count));
    if (gs_sequence_is_divided(l)) {
        const gs_mem whole = gs_sequence_whole(l, GS_WHOLE_DY);
        GS_TRY(gs_sequence_gather(l, pass, l->out, dy, whole));
        dy = whole;
    }
    return l->device->ops->embedding_backward(l->device, l->param[0].dw, dy, l->x, count, me->here, me->width,
                                              me->first, !pass->fresh || l->lent);
}

static void embedding_describe(const gs_layer *l, char *text, size_t size) {
    const embedding *me = (const embedding *)l;
    snprintf(text, size, "embedding %d %d", me->rows, me->width);
}

static int embedding_vocabulary(const gs_layer *l) {
    return ((const embedding *)l)->rows;
}

static const gs_layer_ops embedding_ops = {
    .name = "embedding",
    .buffers = GS_OWN,
    .storage = GS_EITHER,
    .in_parts = true,
    .shards = true,
    .plan = embedding_plan,
    .forward = embedding_forward,
    .backward = embedding_backward,
    .vocabulary = embedding_vocabulary,
    .lends = true,
    .tensor = GS_TENSOR_TABLE,
    .describe = embedding_describe,
};

gs_layer *gs_embedding(int rows, int width) {
    embedding *me = (embedding *)gs_layer_new(&embedding_ops, sizeof(embedding), 0);
    if (!me) return NULL;
    me->rows = me->base.outputs = rows;
    me->width = width;
    return &me->base;
}
