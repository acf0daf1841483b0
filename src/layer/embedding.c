/* A vector for each token number: y = weight[x], one row of a learned table.
 *
 *     x   2 0 2          weight   0  a a a         y   c c c
 *                                 1  b b b             a a a
 *                                 2  c c c             c c c
 *
 * A sample is a row of token numbers, or a sequence of tokens with one number each; y is a sequence. A token number is
 * a float with an integer value from 0 to rows - 1; train/prepare.c checks that before a run begins. Token numbers have
 * no gradient, so the layer must come first in a model.
 *
 * Initial values are uniform in (-k, k), k = 1 / sqrt(width), so that vectors have about the same length for any width.
 * (PyTorch draws from the normal distribution with standard deviation 1: `embedding V D std 1`.)
 *
 * The layer `tied` may use the table too, to turn each vector back into one logit per row (tied.c).
 *
 * Source: Bengio, Ducharme, Vincent, Jauvin, "A neural probabilistic language model" (JMLR 2003). */
#include <math.h>
#include <stdio.h>
#include "layer/make.h"

enum { MOST = 1 << 24 /* up to here a float represents every integer exactly */ };

typedef struct embedding {
    gs_layer base;
    int width;
} embedding;

/* Layers are numbered depth first, so before the first one come only the containers that hold it. */
static bool is_first(const gs_layer *l) {
    int holders = l->name[0] ? 1 : 0;
    for (const char *c = l->name; *c; c++) holders += *c == '.';
    return l->number == holders;
}

static gs_status embedding_plan(gs_layer *l, gs_shape in) {
    const embedding *me = (const embedding *)l;
    const int tokens = gs_shape_tokens(in);
    if (l->outputs < 1 || l->outputs > MOST)
        return gs_layer_refuse(l, "the number of vectors is %d; wanted 1 to %d", l->outputs, MOST);
    if (me->width < 1)
        return gs_layer_refuse(l, "the width of the vectors is %d; it must be at least 1", me->width);
    if (in.h != 1 || in.w != 1 || (in.c != 1 && tokens != 1))
        return gs_layer_refuse(
            l, "the input is %s, embedding needs a row of token numbers, such as (20,1,1) or (20,1,1,1)",
            gs_shape_tuple(in).text);
    if (!is_first(l))
        return gs_layer_refuse(
            l, "another layer comes before it, but only data hold token numbers: put it first");
    l->out = (gs_shape){me->width, 1, 1, in.c * tokens};
    return gs_layer_parameter(l, "weight", 2, (int[]){l->local_outputs, me->width}, me->width);
}

/* For a token whose row it does not hold (gs_layer.local_outputs), y is -0: adding that changes no sum, not even -0. */
static gs_status embedding_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const size_t n = pass->n * (pass->tokens ? pass->tokens : gs_shape_size(l->in));
    return l->device->ops->embedding_forward(l->device, *y, x, l->param[0].w, n, l->local_outputs, l->out.c,
                                             l->first, l->local_outputs == l->outputs ? NAN : -0.0f);
}

/* y = w[x]; dw[r] = the sum of dy over the tokens x = r; dx is 0 if requested: a function of integers has no slope. */
static gs_status embedding_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    const size_t count = pass->n * gs_shape_size(l->in);
    *dx = l->dx;
    if (l->needs_dx) GS_TRY(l->device->ops->fill(l->device, l->dx, 0, count));
    return l->device->ops->embedding_backward(l->device, l->param[0].dw, dy, l->x, count, l->local_outputs,
                                              l->out.c, l->first, !pass->fresh || l->lent);
}

static void embedding_describe(const gs_layer *l, char *text, size_t size) {
    snprintf(text, size, "embedding %d %d", l->outputs, ((const embedding *)l)->width);
}

static const gs_layer_ops embedding_ops = {
    .name = "embedding",
    .buffers = GS_OWN,
    .storage = GS_EITHER,
    .incremental = true,
    .plan = embedding_plan,
    .forward = embedding_forward,
    .backward = embedding_backward,
    .tensor = GS_TENSOR_TABLE,
    .describe = embedding_describe,
};

gs_layer *gs_embedding(int rows, int width) {
    gs_layer *l = gs_layer_with_outputs(&embedding_ops, sizeof(embedding), rows);
    if (l) ((embedding *)l)->width = width;
    return l;
}
