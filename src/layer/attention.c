/* Each token computes a mean of the tokens' values, weighted by how well its query matches their keys.
 *
 *     x = (q, k, v) of each token         p_ij = softmax over j of q_i k_j / sqrt(d)        y_i = sum_j p_ij v_j
 *
 * x comes from a linear layer, three times as wide as y: first all of q, then k, then v. Each is cut into `heads` heads
 * of d numbers, which attend separately. Causal: token i sees only tokens j <= i, so that the next token can be learned
 * at all positions at once. A transformer block is:
 *
 *     residual (layer_norm, linear 192, attention 4 causal, linear 64),
 *     residual (layer_norm, linear 256, gelu, linear 64)
 *
 * Source: Vaswani et al., "Attention is all you need" (NeurIPS 2017). The computation is explained in
 * cpu/attention.c. */
#include <stdio.h>
#include "layer/make.h"

typedef struct attention {
    gs_layer base;
    bool causal;
    gs_attention_sizes sizes;
    gs_mem softmax; /* for each sample and head: the softmax data that backward needs (backend.h) */
    gs_mem keys,
        values; /* of earlier tokens, for passes over parts of sequences; GS_NONE until gs_model_cache */
} attention;

static gs_status attention_plan(gs_layer *l, gs_shape in) {
    attention *me = (attention *)l;
    const int width = in.c / 3, length = gs_shape_tokens(in), heads = l->local_outputs;
    if (heads < 1) return gs_layer_refuse(l, "the number of heads is %d; it must be at least 1", heads);
    GS_TRY(gs_layer_check_vectors(l, in, "attention needs a sequence of vectors"));
    if (in.c % 3 != 0 || width % heads != 0)
        return gs_layer_refuse(
            l,
            "its tokens have %d numbers; they are q, k and v, each divided among %d head%s: "
            "wanted a multiple of %d",
            in.c, heads, heads > 1 ? "s" : "", 3 * heads);
    me->sizes = (gs_attention_sizes){length, width, heads, me->causal};
    l->out = (gs_shape){width, 1, 1, in.t};
    /* q k and p v take 2 length^2 width operations each; the softmax, with its scaling, about 6 per element */
    const double pairs = (me->causal ? 0.5 * (length + 1.0) : length) * length;
    l->flops = pairs * (4.0 * width + 6.0 * heads);
    return GS_OK;
}

static gs_status attention_bind(gs_layer *l, size_t max_batch) {
    attention *me = (attention *)l;
    return gs_layer_alloc(l, max_batch, (gs_shape){2 * me->sizes.heads, 1, 1, me->sizes.length},
                          &me->softmax);
}

static void attention_unbind(gs_layer *l) {
    const attention *me = (const attention *)l;
    l->device->ops->free(l->device, me->softmax);
    l->device->ops->free(l->device, me->keys);
    l->device->ops->free(l->device, me->values);
}

static gs_status attention_cache(gs_layer *l, size_t max_batch) {
    attention *me = (attention *)l;
    if (!me->causal && me->sizes.length > 1)
        return gs_layer_refuse(l,
                               "it cannot take the tokens of a sequence one at a time: each of "
                               "them attends to those that come later too: wanted attention %d causal",
                               l->outputs);
    if (!me->keys.base) GS_TRY(gs_layer_alloc(l, max_batch, l->out, &me->keys));
    return me->values.base ? GS_OK : gs_layer_alloc(l, max_batch, l->out, &me->values);
}

static gs_status attention_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const attention *me = (const attention *)l;
    if (pass->tokens) {
        if (!me->values.base) gs_bug("attention: tokens without a cache: gs_model_cache comes first");
        return l->device->ops->attention_cached_forward(l->device, *y, me->keys, me->values, x, pass->n,
                                                        pass->past, pass->tokens, &me->sizes);
    }
    return l->device->ops->attention_forward(l->device, *y, me->softmax, x, pass->n, &me->sizes);
}

/* y_i = sum_j p_ij v_j; dx: attention_backward in backend.h. */
static gs_status attention_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    const attention *me = (const attention *)l;
    if (!l->needs_dx) return GS_OK;
    return l->device->ops->attention_backward(l->device, *dx, dy, l->x, l->y, me->softmax, pass->n,
                                              &me->sizes);
}

static void attention_describe(const gs_layer *l, char *text, size_t size) {
    snprintf(text, size, "attention %d%s", l->outputs, ((const attention *)l)->causal ? " causal" : "");
}

static const gs_layer_ops attention_ops = {
    .name = "attention",
    .buffers = GS_READS_Y,
    .storage = GS_EITHER,
    .tensor = GS_TENSOR_HEADS,
    .extra_reads = 2, /* x and y */
    .plan = attention_plan,
    .bind = attention_bind,
    .cache = attention_cache,
    .forward = attention_forward,
    .backward = attention_backward,
    .unbind = attention_unbind,
    .describe = attention_describe,
};

gs_layer *gs_attention(int heads, bool causal) {
    gs_layer *l = gs_layer_with_outputs(&attention_ops, sizeof(attention), heads);
    if (l) ((attention *)l)->causal = causal;
    return l;
}
