#include "layer/leaves.h"

#include "layer/make.h"
#include "layer/memory/buffer_plan.h"

gs_pass gs_leaf_of(const gs_pass *pass, int k) {
    gs_pass leaf = *pass;
    if (pass->leaves.count < 2) return leaf;
    leaf.leaves.count = 0;
    leaf.from = pass->leaves.at[k];
    leaf.n = pass->leaves.at[k + 1] - leaf.from;
    leaf.first += leaf.from;
    return leaf;
}

typedef struct call {
    gs_layer *l;
    const gs_layer *whole; /* l as it was */
    const gs_pass *pass;
    gs_leaf_call kind;
    gs_mem in, *out;
    gs_leaf_function function;
    const gs_param *first; /* of the tensors whose dw is summed, which lie side by side; NULL: none */
    size_t count;          /* their floats */
    gs_param borrowed;
} call;

static void find_summed(const gs_layer *l, call *c) {
    for (int i = 0; i < l->params && c->kind != GS_LEAF_NO_SUMS; i++) {
        if (l->param[i].state != (c->kind == GS_LEAF_STATE)) continue;
        if (!c->first) c->first = &l->param[i];
        c->count += l->param[i].count;
    }
    if (l->borrowed) c->count = l->borrowed->count;
}

/* ---- memory for the sums ---- */

static gs_status find_largest(gs_layer *l, void *arena) {
    gs_arena *a = arena;
    call state = {.kind = GS_LEAF_STATE}, own = {.kind = GS_LEAF_GRADIENTS};
    find_summed(l, &state);
    find_summed(l, &own);
    const size_t largest = state.count > own.count ? state.count : own.count;
    if (largest > a->leaf_floats) a->leaf_floats = largest;
    if (l->lent) a->lent_floats = l->param[0].count;
    return GS_OK;
}

gs_status gs_layer_make_leaves(gs_layer *root, int leaves) {
    gs_arena *a = root->arena;
    size_t levels = 0;
    a->leaf_floats = GS_LEAVES * GS_STATS;
    GS_TRY(gs_layer_walk(root, find_largest, a));
    while (1 << levels < leaves) levels++;
    GS_TRY(
        gs_alloc(root->device, GS_MEMORY_GRADIENTS, levels * a->leaf_floats * sizeof(float), &a->leaf_sums));
    const size_t lent = (size_t)(leaves - 1) * a->lent_floats * sizeof(float);
    return lent ? gs_alloc(root->device, GS_MEMORY_GRADIENTS, lent, &a->lent_leaves) : GS_OK;
}

/* Where leaf k of a table that two layers use is summed: both layers add to it before the leaves are added. */
static gs_mem lent_leaf(const gs_arena *a, gs_mem dw, int k) {
    return k > 0 ? gs_at(a->lent_leaves, (size_t)(k - 1) * a->lent_floats) : dw;
}

/* ---- a layer ---- */

static gs_mem moved(gs_mem m, size_t numbers) {
    return m.base ? gs_at_number(m, numbers) : m;
}

/* Move the layer to sample `from`, and its dw to `here`. */
static void move(call *c, size_t from, gs_mem here) {
    gs_layer *l = c->l;
    const gs_layer *whole = c->whole;
    const size_t x = from * gs_shape_size(l->in), y = from * gs_shape_size(gs_layer_y_shape(l));
    l->x = moved(whole->x, x);
    l->dx = moved(whole->dx, x);
    l->y = moved(whole->y, y);
    l->epilogue.y = moved(whole->epilogue.y, y);
    l->epilogue.index = moved(whole->epilogue.index, y);
    for (int i = 0; i < l->params && c->first; i++)
        if (l->param[i].state == c->first->state) l->param[i].dw = gs_at(here, l->param[i].at - c->first->at);
    if (!l->borrowed) return;
    c->borrowed = *whole->borrowed;
    c->borrowed.dw = here;
    l->borrowed = &c->borrowed;
}

static gs_status one_leaf(call *c, int k, gs_mem here) {
    gs_layer *l = c->l;
    const gs_pass pass = gs_leaf_of(c->pass, k);
    const bool backward = c->kind == GS_LEAF_GRADIENTS;
    if (pass.n == 0) return here.base ? l->device->ops->fill(l->device, here, 0, c->count) : GS_OK;
    move(c, pass.from, here);
    const gs_mem in = moved(c->in, pass.from * gs_shape_size(backward ? gs_layer_y_shape(l) : l->in));
    gs_mem out = backward ? gs_layer_dx(l, in) : gs_layer_y(l, in);
    GS_TRY(c->function(l, &pass, in, &out));
    if (pass.from == 0) *c->out = out;
    return GS_OK;
}

/* to = the sum of `leaves` leaves from `first` on: of its left half, in `to`, and its right half. */
static gs_status add_up(call *c, int first, int leaves, gs_mem to) {
    const gs_arena *a = c->l->root->arena;
    const int half = leaves / 2, level = leaves / 4; /* 0, 1 or 2 */
    const gs_mem right =
        c->l->lent ? lent_leaf(a, to, first + half) : gs_at(a->leaf_sums, (size_t)level * a->leaf_floats);
    if (leaves == 1) return one_leaf(c, first, to);
    GS_TRY(add_up(c, first, half, to));
    GS_TRY(add_up(c, first + half, half, right));
    return c->l->device->ops->add(c->l->device, to, to, right, c->count);
}

static gs_status each_leaf(call *c) {
    const gs_mem dw = c->l->borrowed ? c->l->borrowed->dw : (gs_mem)GS_NONE;
    for (int k = 0; k < c->pass->leaves.count; k++)
        GS_TRY(one_leaf(c, k, dw.base ? lent_leaf(c->l->root->arena, dw, k) : dw));
    return GS_OK;
}

gs_status gs_layer_leaf_by_leaf(gs_layer *l, const gs_pass *pass, gs_leaf_call kind, gs_mem in, gs_mem *out,
                                gs_leaf_function function) {
    if (pass->leaves.count < 2) return function(l, pass, in, out);
    const gs_layer whole = *l;
    call c = {
        .l = l, .whole = &whole, .pass = pass, .kind = kind, .in = in, .out = out, .function = function};
    find_summed(&whole, &c);
    const gs_status status = c.first ? add_up(&c, 0, pass->leaves.count, c.first->dw) : each_leaf(&c);
    *l = whole;
    return status;
}
