/* Layers in order: y = f_k(... f_2(f_1(x))).
 *
 * Element-wise layers can work in place, which saves memory and memory traffic. Layer i may write its y over its x only
 * if that x is not read later: neither by the layer itself (GS_READS_X) nor by the layer before it, which must own the
 * buffer and not read it in backward. It may write its dx over dy only if the layer after it owns that buffer: a dy
 * from outside, or passed on by a view, may belong to a residual block, whose other branch needs it too.
 *
 *     conv       y: own       dx: own
 *     relu       y: conv's    dx: max_pool's
 *     max_pool   y: own       dx: own
 *
 * If the backend supports it, linear and conv2d also do the work of the relu and the max_pool2d after them (gs_epilogue
 * in operands.h). Those layers are then not bound and not called. The y of linear or conv2d is the final result, and
 * its backward reads it, so the layer after them must not overwrite it. On a device with `no_fusion` nothing is fused;
 * the bits are the same, except where a 16-bit y rounds to 0: if fused, dy passes where y was above 0 before rounding.
 *
 * In a pipeline stage, the outermost sequence runs only the stage's layers. */
#include <stdio.h>
#include "layer/memory/offload.h"
#include "layer/make.h"
#include "layer/watch.h"

static void plan_in_place(gs_layer *l) {
    for (int i = 0; i < l->children; i++) {
        gs_layer *c = l->child[i];
        gs_buffers own = c->ops->buffers, before = i > 0 ? l->child[i - 1]->ops->buffers : GS_VIEW;
        if (own != GS_ELEMENT_WISE && own != GS_READS_X) continue;
        c->y_over_x = own == GS_ELEMENT_WISE && (before == GS_OWN || before == GS_READS_X);
        gs_buffers after = i + 1 < l->children ? l->child[i + 1]->ops->buffers : GS_VIEW;
        c->dx_over_dy = after == GS_OWN || after == GS_READS_Y;
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
    plan_in_place(l);
    return GS_OK;
}

/* Fuse the layers after child i into it, as long as its epilogue can express them. */
static void fuse(gs_layer *l, int i) {
    gs_layer *c = l->child[i];
    for (int k = i + 1; c->ops->fuses && !l->device->no_fusion && k < l->children; k++) {
        gs_layer *next = l->child[k];
        gs_epilogue more = c->epilogue;
        if (next->other_stage || !next->ops->fuse_into || !next->ops->fuse_into(next, &more) ||
            !l->device->ops->fuses(l->device, &more))
            return;
        c->epilogue = more;
        next->fused = true;
        if (k + 1 < l->children) l->child[k + 1]->y_over_x = false;
    }
}

/* Children are bound after this and then get the buffers they need. */
static gs_status sequential_bind(gs_layer *l, size_t max_batch) {
    (void)max_batch;
    for (int i = 0; i < l->children; i++)
        if (!l->child[i]->other_stage) fuse(l, i);
    return GS_OK;
}

static gs_status begins(const gs_layer *l, const gs_pass *pass, int i, bool backward) {
    for (const gs_layer_hooks *t = l->hooks; t; t = t->next) GS_TRY(t->begins(t->context, pass, i, backward));
    return GS_OK;
}

static gs_status ended(const gs_layer *l, const gs_pass *pass, int i) {
    for (const gs_layer_hooks *t = l->hooks; t; t = t->next)
        if (t->ended) GS_TRY(t->ended(t->context, pass, i));
    return GS_OK;
}

static gs_status sequential_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    *y = x;
    for (int i = 0; i < l->children; i++) {
        gs_layer *c = l->child[i];
        if (c->other_stage) continue;
        GS_TRY(begins(l, pass, i, false));
        if (!gs_layer_is_called(c) || (pass->recomputing && !c->memory.rerun)) continue;
        GS_TRY(gs_layer_forward(c, pass, *y, y)); /* c->ops->forward */
    }
    return GS_OK;
}

/* ---- segments whose forward runs again: only in the outermost sequence ---- */

/* Is child i the last one of its segment? */
static bool ends_segment(const gs_layer *l, int i) {
    const int segment = l->child[i]->memory.segment;
    return segment && (i + 1 == l->children || l->child[i + 1]->memory.segment != segment);
}

static gs_status run_again(gs_layer *l, const gs_pass *pass, int first, int last) {
    gs_pass again = *pass;
    gs_mem y = l->child[first]->x;
    again.recomputing = true;
    for (int i = first; i <= last; i++)
        if (gs_layer_is_called(l->child[i]) && l->child[i]->memory.rerun)
            GS_TRY(gs_layer_forward(l->child[i], &again, y, &y));
    return GS_OK;
}

/* Running a segment's forward again needs all its weights, so all its layers begin together. */
static gs_status begin_backward(gs_layer *l, const gs_pass *pass, int i) {
    const bool ends = ends_segment(l, i);
    const int first = ends ? l->child[i]->memory.segment - 1 : i;
    if (l->child[i]->other_stage || (l->child[i]->memory.segment && !ends)) return GS_OK;
    for (int k = i; k >= first && l->hooks; k--) GS_TRY(begins(l, pass, k, true));
    return ends ? run_again(l, pass, first, i) : GS_OK;
}

/* ---- backward ---- */

/* The chain rule: dx = f_1'(... f_k'(dy)), from the last layer to the first. It stops early at a layer that needs no
 * dx, because no layer before it has parameters. Only the outermost sequence reports its progress, because inside a
 * residual block the branches do not run in the order of their parameters. */
static gs_status sequential_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    *dx = dy;
    for (int i = l->children - 1; i >= 0; i--) {
        GS_TRY(begin_backward(l, pass, i));
        if (gs_layer_is_called(l->child[i])) GS_TRY(gs_layer_backward(l->child[i], pass, *dx, dx));
        if (!l->child[i]->other_stage) GS_TRY(ended(l, pass, i));
        if (pass->final && !l->name[0]) GS_TRY(pass->final(pass->final_context, l->child[i]->at));
        if (!l->child[i]->needs_dx) break;
    }
    if (!l->needs_dx) *dx = GS_NONE;
    return GS_OK;
}

/* An element-wise layer may return dy as its dx, as dropout does in evaluation. */
static bool passes_on(const gs_layer *l) {
    return l->ops->buffers == GS_ELEMENT_WISE || l->ops->buffers == GS_READS_X;
}

/* Plan the children in the order of backward. The sequence's own dy is kept: it may belong to a residual block. */
static int sequential_plan_backward(gs_layer *l, gs_buffer_plan *plan, int dy) {
    int here = dy;
    for (int i = l->children - 1; i >= 0; i--) {
        gs_layer *c = l->child[i];
        const int before = here;
        if (l == l->root) gs_offload_plan_fetch(plan, l, i);
        if (ends_segment(l, i)) {
            plan->rerun = ++plan->now;
            for (int k = c->memory.segment - 1; k <= i; k++) gs_buffer_plan_rerun(plan, l->child[k]);
        }
        if (gs_layer_is_called(c)) here = gs_buffer_plan_backward(c, plan, before);
        if (before != here && before != dy && !passes_on(c)) gs_buffer_plan_release(plan, before);
        if (!c->needs_dx) break;
    }
    if (l->needs_dx) return here;
    if (here != dy) gs_buffer_plan_release(plan, here);
    return GS_NO_BUFFER;
}

static const gs_layer_ops sequential_ops = {
    .name = "sequential",
    .buffers = GS_VIEW,
    .incremental = true,
    .tensor = GS_TENSOR_AROUND,
    .plan = sequential_plan,
    .bind = sequential_bind,
    .forward = sequential_forward,
    .backward = sequential_backward,
    .plan_backward = sequential_plan_backward,
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
