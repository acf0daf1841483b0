/* Compares a vector with each row of the embedding's table: y = x table^T, a linear layer without bias whose weight
 * belongs to another layer. A language model can end with this layer: a token then has the same vector as input and as
 * output.
 *
 *     embedding 65 128, ..., tied          x (128) -> y (65)
 *
 * The table is one tensor, counted, updated and saved once. Its gradient has two terms: this layer's backward runs
 * first and writes one, then the embedding's backward adds the other (gs_layer.lent). The gradient is final after the
 * embedding's backward, which is the last of all.
 *
 * Source: Press, Wolf, "Using the output embedding to improve language models" (EACL 2017). */
#include "layer/make.h"

/* The layer of the model whose table can be borrowed. */
static gs_layer *find_lender(gs_layer *l) {
    gs_layer *found = l->ops->tensor == GS_TENSOR_TABLE ? l : NULL;
    for (int i = 0; i < l->children && !found; i++) found = find_lender(l->child[i]);
    return found;
}

static gs_status tied_plan(gs_layer *l, gs_shape in) {
    gs_layer *lender = find_lender(l->root);
    if (!lender || lender->number > l->number)
        return gs_layer_refuse(l, "no embedding comes before it, whose table it could use");
    if (lender->lent)
        return gs_layer_refuse(l, "another tied layer uses the table of layer %s already", lender->name);
    const gs_param *table = &lender->param[0];
    if (in.h != 1 || in.w != 1 || in.c != table->dims[1])
        return gs_layer_refuse(l, "the input is %s; the vectors of layer %s have %d numbers",
                               gs_shape_tuple(in).text, lender->name, table->dims[1]);
    l->borrowed = table;
    l->outputs = lender->outputs;
    lender->lent = true;
    l->out = (gs_shape){table->dims[0], 1, 1, in.t};
    l->flops = gs_shape_tokens(in) * 2.0 * (double)table->count;
    return GS_OK;
}

static const gs_layer_ops tied_ops = {
    .name = "tied",
    .buffers = GS_OWN,
    .storage = GS_EITHER,
    .tensor = GS_TENSOR_TIED,
    .incremental = true,
    .plan = tied_plan,
    .forward = gs_layer_linear_forward,
    .backward = gs_layer_linear_backward,
};

gs_layer *gs_tied(void) {
    return gs_layer_new(&tied_ops, sizeof(gs_layer), 0);
}
