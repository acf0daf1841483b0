/* Attention between the two linear layers of a pair (tensor.h): each rank computes some of the heads, by itself. */
#include "parallel/tensor.h"

/* Plan the whole layer first, so that error messages show the model's numbers. */
static gs_status plan(gs_layer *l, gs_shape in) {
    const int heads = l->outputs, ranks = l->shard->group->size;
    gs_shape whole = in;
    whole.c *= ranks;
    if (heads % ranks != 0)
        return gs_layer_refuse(l, "its %d head%s cannot be divided among %d workers; wanted a multiple of %d",
                               heads, heads > 1 ? "s" : "", ranks, ranks);
    GS_TRY(l->shard->plain->plan(l, whole));
    l->local_outputs = heads / ranks;
    return l->shard->plain->plan(l, in);
}

const gs_layer_ops gs_heads_attention = {.plan = plan};
