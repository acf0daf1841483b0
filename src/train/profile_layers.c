/* Measuring layers without their knowledge: while it is measured, a layer has another table of operations, whose forward
 * and backward look at the clock before and after the real ones. */
#include "train/profile.h"

#include "core/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct timed {
    gs_layer_ops ops; /* first: a layer's ops point here */
    const gs_layer_ops *real;
    gs_layer *layer;
    gs_timed_layers *all;
    gs_profile_cell cell[GS_PROFILE_DIRECTIONS];
} timed;

struct gs_timed_layers {
    gs_device *device;
    const gs_roofline *roofline;
    double inside; /* seconds of the layers inside of the one that runs: its own time is the rest */
    int count;
    timed *layer; /* by its number */
};

/* ---- bytes that must at least be moved: floats, each operand once ---- */

static bool is(const gs_layer *l, const char *name) {
    return strcmp(l->ops->name, name) == 0;
}

/* A relu that the layer before does: no work of its own. That layer counts its operations, and reads y in backward. */
static bool is_done_before(const gs_layer *l) {
    return l->fused && is(l, "relu");
}

/* A container's own work: a residual's sum. */
static double bytes_of_container(const gs_layer *l, double n) {
    return is(l, "residual") ? 3 * 4 * n * (double)gs_shape_size(l->out) : 0;
}

static double bytes_forward(const gs_layer *l, double n) {
    double in = n * (double)gs_shape_size(l->in), out = n * (double)gs_shape_size(l->out);
    if (l->children) return bytes_of_container(l, n);
    if (is(l, "flatten") || is_done_before(l)) return 0;
    if (is(l, "max_pool2d")) out *= 2; /* y and the index */
    return 4 * (in + out + (double)(l->weight.count + l->bias.count));
}

static double bytes_backward(const gs_layer *l, double n) {
    double in = n * (double)gs_shape_size(l->in), out = n * (double)gs_shape_size(l->out);
    double weights = (double)l->weight.count, params = weights + (double)l->bias.count;
    if (l->children) return l->needs_dx ? bytes_of_container(l, n) : 0;
    if (is(l, "flatten") || is_done_before(l)) return 0;
    if (l->fused) out *= 2; /* dy, y */
    /* dy and x are read for dw, which is added to; w is read and dx written for dx */
    if (params > 0) return 4 * (out + in + 2 * params + (l->needs_dx ? in + weights : 0));
    if (is(l, "relu") || is(l, "tanh") || is(l, "sigmoid") || is(l, "max_pool2d"))
        out *= 2; /* y, the index */
    return 4 * (out + in);
}

/* As gs_model counts them: as much as forward for dx, and again for dw and db. */
static double flops_of(const gs_layer *l, int direction, double n) {
    bool learns = l->weight.count + l->bias.count > 0;
    if (is_done_before(l)) return 0;
    double relu = l->fused ? (double)gs_shape_size(l->out) : 0;
    return n * (l->flops * (direction == GS_PROFILE_FORWARD ? 1 : l->needs_dx + learns) + relu);
}

/* ---- the clock ---- */

static gs_status begin(timed *t, double *start, double *inside) {
    GS_TRY(t->all->device->ops->finish(t->all->device));
    *inside = t->all->inside;
    t->all->inside = 0;
    *start = gs_seconds();
    return GS_OK;
}

static gs_status end(timed *t, int direction, double n, double start, double inside) {
    gs_profile_cell *c = &t->cell[direction];
    GS_TRY(t->all->device->ops->finish(t->all->device));
    double took = gs_seconds() - start, flops = flops_of(t->layer, direction, n);
    double bytes = direction == GS_PROFILE_FORWARD ? bytes_forward(t->layer, n) : bytes_backward(t->layer, n);
    if (!is_done_before(t->layer)) c->seconds += took - t->all->inside;
    c->flops += flops;
    c->bytes += bytes;
    c->least += gs_roofline_seconds(t->all->roofline, flops, bytes);
    t->all->inside = inside + took;
    return GS_OK;
}

static gs_status timed_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    timed *t = (timed *)l->ops;
    double start, inside;
    GS_TRY(begin(t, &start, &inside));
    GS_TRY(t->real->forward(l, pass, x, y));
    return end(t, GS_PROFILE_FORWARD, (double)pass->n, start, inside);
}

static gs_status timed_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    timed *t = (timed *)l->ops;
    double start, inside;
    GS_TRY(begin(t, &start, &inside));
    GS_TRY(t->real->backward(l, pass, dy, dx));
    return end(t, GS_PROFILE_BACKWARD, (double)pass->n, start, inside);
}

/* ---- begin, end ---- */

static gs_status count_one(gs_layer *l, void *context) {
    (void)l;
    ++*(int *)context;
    return GS_OK;
}

static gs_status watch_one(gs_layer *l, void *context) {
    gs_timed_layers *all = context;
    timed *t = &all->layer[all->count++];
    *t = (timed){.ops = *l->ops, .real = l->ops, .layer = l, .all = all};
    t->ops.forward = timed_forward;
    t->ops.backward = timed_backward;
    l->ops = &t->ops;
    return GS_OK;
}

gs_status gs_timed_layers_begin(gs_worker *w, const gs_roofline *roofline, gs_timed_layers **out) {
    int count = 0;
    gs_layer_walk(w->model->net, count_one, &count);
    gs_timed_layers *all = calloc(1, sizeof *all);
    *out = all;
    if (all) all->layer = calloc((size_t)count, sizeof *all->layer);
    if (!all || !all->layer) return gs_fail(GS_E_MEMORY, "no memory to measure %d layers", count);
    all->device = w->device;
    all->roofline = roofline;
    return gs_layer_walk(w->model->net, watch_one, all);
}

void gs_timed_layers_end(gs_timed_layers *all) {
    if (!all) return;
    for (int i = 0; i < all->count; i++) all->layer[i].layer->ops = all->layer[i].real;
    free(all->layer);
    free(all);
}

double gs_timed_layers_took(gs_timed_layers *all) {
    double took = all->inside; /* the root's, with all inside of it */
    all->inside = 0;
    return took;
}

int gs_timed_layers_rows(const gs_timed_layers *all, double steps, gs_profile_row *rows) {
    int count = 0;
    for (int i = 0; i < all->count; i++) {
        const timed *t = &all->layer[i];
        if (is(t->layer, "sequential") || is(t->layer, "flatten")) continue; /* no work of their own */
        count++;
        if (!rows) continue;
        gs_profile_row *r = &rows[count - 1];
        snprintf(r->name, sizeof r->name, "%s", *t->layer->name ? t->layer->name : "0");
        t->real->describe(t->layer, r->what, sizeof r->what);
        for (int k = 0; k < GS_PROFILE_DIRECTIONS; k++) {
            const gs_profile_cell *c = &t->cell[k];
            r->cell[k] =
                (gs_profile_cell){c->seconds / steps, c->flops / steps, c->bytes / steps, c->least / steps};
        }
    }
    return count;
}
