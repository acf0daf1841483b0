/* Layers one after the other: y = f_k(... f_2(f_1(x))).
 *
 * Element-wise layers can work in place, which saves memory and the time to move it. Layer i may write its y
 * over its x only if nobody reads that x later: the layer before it must own the buffer and not read it in
 * backward. In the same way it may write its dx over dy only if the layer after it owns that buffer: a dy
 * that came from outside, or was passed on by a view, may belong to a residual block, whose other branch
 * needs it too.
 *
 *     conv    y: own          dx: own
 *     relu    y: conv's       dx: max_pool's
 *     max_pool y: own         dx: own
 *
 * Where the backend can, a linear or a convolution does the relu after it too: y is written once and not read
 * again, and backward needs no pass over dy of its own. And where it can, the convolution also does the max_pool
 * after that relu: then only what is left by the pooling has buffers,
 *
 *     conv    y: max_pool's   dx: own
 *     relu    y: max_pool's   dx: dy
 *     max_pool y: own         dx: dy
 *
 * and conv's backward reads max_pool's y, so that the layer after it may not write over that.
 */
#include <stdio.h>
#include "layer/make.h"

static void plan_places(gs_layer *l) {
    for (int i = 0; i < l->children; i++) {
        gs_layer *c = l->child[i];
        if (c->ops->buffers != GS_ELEMENT_WISE) continue;
        c->y_over_x = i > 0 && l->child[i - 1]->ops->buffers == GS_OWN;
        c->dx_over_dy = i + 1 < l->children && l->child[i + 1]->ops->buffers == GS_OWN;
    }
}

static gs_status sequential_plan(gs_layer *l, gs_shape in) {
    bool needs_dx = l->needs_dx;
    l->out = in;
    for (int i = 0; i < l->children; i++) {
        char label[16];
        snprintf(label, sizeof label, "%d", i);
        GS_TRY(gs_layer_plan_child(l, i, label, l->out, needs_dx));
        l->out = l->child[i]->out;
        needs_dx = needs_dx || gs_layer_learns(l->child[i]);
    }
    plan_places(l);
    return GS_OK;
}

/* Child i is fused with the relu after it: the pooling too? */
static void fuse_max_pool2d(gs_layer *l, int i) {
    gs_layer *c = l->child[i], *pool = i + 2 < l->children ? l->child[i + 2] : NULL;
    if (!pool || !gs_layer_is_max_pool2d(pool)) return;
    if (!c->ops->fuses_max_pool2d || !c->ops->fuses_max_pool2d(l->device, pool)) return;
    c->pool = pool;
    pool->fused = pool->dx_over_dy = true;
    if (i + 3 < l->children) l->child[i + 3]->y_over_x = false;
}

/* Children are bound after this, and so get the buffers that they then need. */
static gs_status sequential_bind(gs_layer *l, size_t max_batch) {
    (void)max_batch;
    for (int i = 0; i + 1 < l->children; i++) {
        const gs_layer_ops *ops = l->child[i]->ops;
        bool fused = gs_layer_is_relu(l->child[i + 1]) && ops->fuses_relu && ops->fuses_relu(l->device->ops);
        if (!fused) continue;
        l->child[i]->fused = l->child[i + 1]->fused = true;
        fuse_max_pool2d(l, i);
    }
    return GS_OK;
}

static gs_status sequential_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    *y = x;
    for (int i = 0; i < l->children; i++) GS_TRY(gs_layer_forward(l->child[i], pass, *y, y));
    return GS_OK;
}

/* The chain rule: dx = f_1'(... f_k'(dy)), from the last layer to the first. It ends early at a layer that
 * needs no dx: nothing before it learns. The outermost sequence tells how far it is; inside of a residual block
 * the order of the branches is not that of their parameters. */
static gs_status sequential_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    *dx = dy;
    for (int i = l->children - 1; i >= 0; i--) {
        GS_TRY(gs_layer_backward(l->child[i], pass, *dx, dx));
        if (pass->final && !l->name[0]) GS_TRY(pass->final(pass->final_context, l->child[i]->weight.at));
        if (!l->child[i]->needs_dx) break;
    }
    if (!l->needs_dx) *dx = GS_NONE;
    return GS_OK;
}

static void sequential_describe(const gs_layer *l, char *text, size_t size) {
    (void)l;
    snprintf(text, size, "sequential");
}

static const gs_layer_ops sequential_ops = {
    .name = "sequential",
    .buffers = GS_VIEW,
    .plan = sequential_plan,
    .bind = sequential_bind,
    .forward = sequential_forward,
    .backward = sequential_backward,
    .describe = sequential_describe,
};

gs_layer *gs_sequential(int count, gs_layer *const *layers) {
    bool whole = true;
    for (int i = 0; i < count; i++) whole = whole && layers[i];
    gs_layer *l = whole ? gs_layer_new(&sequential_ops, sizeof(gs_layer), count) : NULL;
    for (int i = 0; i < count; i++) {
        if (l)
            l->child[i] = layers[i];
        else
            gs_layer_free(layers[i]);
    }
    return l;
}
