/* The time, the operations and the bytes of each layer: the clock is read before and after its forward and its
 * backward. */
#include "train/profile/profile.h"

#include "core/clock.h"
#include "layer/make.h"
#include "layer/watch.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct timed {
    const gs_layer *layer;
    double start, outside; /* of the run that is under way: when it began, and `inside` of what it lies in */
    gs_profile_cell cell[GS_DIRECTIONS];
} timed;

struct gs_timed_layers {
    gs_device *device;
    const gs_roofline *roofline;
    gs_layer *net;
    gs_layer_watcher watcher;
    double inside; /* seconds of the layers inside of the one that runs: its own time is the rest */
    int count;
    timed *layer; /* by its number */
};

/* ---- bytes that must at least be moved: each operand once ---- */

/* What activations take, which may lie in 16 bits (memory/halves.h). */
static double floats(bool half, double numbers) {
    return half ? numbers / 2 : numbers;
}

/* A container's own work is a sum, y = a + b. */
static double bytes_of_sum(const gs_layer *l, double n) {
    return 3 * 4 * floats(l->memory.y_half, n * (double)gs_shape_size(l->out));
}

/* What the layer does of those after it (backend.h). */
static gs_epilogue epilogue_of(const gs_layer *l) {
    const gs_epilogue *then = gs_layer_epilogue((gs_layer *)l);
    return then ? *then : (gs_epilogue){.relu = false};
}

static double bytes_forward(const gs_layer *l, double n) {
    const double in = floats(l->memory.x_half, n * (double)gs_shape_size(l->in)),
                 numbers = n * (double)gs_shape_size(gs_layer_y_shape(l));
    if (gs_layer_is_view(l)) return 0;
    if (l->children) return bytes_of_sum(l, n);
    const double out = floats(l->memory.y_half, numbers) +
                       numbers * (l->ops->also_writes + (epilogue_of(l).pool != NULL)); /* y, the index */
    return 4 * (in + out + (double)gs_layer_weights(l));
}

static double bytes_backward(const gs_layer *l, double n) {
    const double in = floats(l->memory.x_half, n * (double)gs_shape_size(l->in)),
                 numbers = n * (double)gs_shape_size(gs_layer_y_shape(l));
    const gs_epilogue then = epilogue_of(l);
    double weights = (double)(l->borrowed ? l->borrowed : l->param)->count,
           params = (double)gs_layer_weights(l);
    if (gs_layer_is_view(l)) return 0;
    if (l->children) return l->needs_dx ? bytes_of_sum(l, n) : 0;
    const int index = l->ops->also_writes + (then.pool != NULL);
    const double out =
        floats(l->memory.y_half, numbers) * (1 + l->ops->also_reads - l->ops->also_writes + then.relu) +
        numbers * index; /* dy, y, the index */
    /* dy and x are read for dw, which is added to; w is read and dx written for dx */
    if (params > 0) return 4 * (out + in + 2 * params + (l->needs_dx ? in + weights : 0));
    return 4 * (out + in);
}

/* As gs_model counts them: as much as forward for dx, and again for dw and db. If a layer does the relu or the pooling
 * that follows it, they are counted in that layer. */
static double flops_of(const gs_layer *l, int direction, double n) {
    bool learns = gs_layer_weights(l) > 0;
    const gs_epilogue then = epilogue_of(l);
    double too = then.relu ? (double)gs_shape_size(l->out) : 0;
    if (then.pool)
        too += (double)gs_shape_size(gs_layer_y_shape(l)) * then.pool->kernel_h * then.pool->kernel_w;
    return n * (l->flops * (direction == GS_FORWARD ? 1 : l->needs_dx + learns) + too);
}

/* ---- the clock ---- */

static gs_status before(void *context, const gs_layer *l, gs_direction direction, const gs_pass *pass,
                        gs_mem in) {
    (void)direction, (void)pass, (void)in;
    gs_timed_layers *all = context;
    timed *t = &all->layer[l->number];
    GS_TRY(all->device->ops->finish(all->device));
    t->outside = all->inside;
    all->inside = 0;
    t->start = gs_seconds();
    return GS_OK;
}

static gs_status after(void *context, const gs_layer *l, gs_direction direction, const gs_pass *pass,
                       gs_mem out) {
    (void)out;
    gs_timed_layers *all = context;
    timed *t = &all->layer[l->number];
    gs_profile_cell *c = &t->cell[direction];
    GS_TRY(all->device->ops->finish(all->device));
    double took = gs_seconds() - t->start, n = (double)pass->n, flops = flops_of(l, direction, n);
    double bytes = direction == GS_FORWARD ? bytes_forward(l, n) : bytes_backward(l, n);
    if (pass->again && l->memory.again == GS_AGAIN_INSIDE)
        flops = bytes = 0; /* the layers in it have counted theirs */
    c->seconds += took - all->inside;
    c->flops += flops;
    c->bytes += bytes;
    c->least += gs_roofline_seconds(all->roofline, flops, bytes);
    all->inside = t->outside + took;
    return GS_OK;
}

/* ---- begin, end ---- */

static gs_status note_one(gs_layer *l, void *context) {
    gs_timed_layers *all = context;
    all->layer[l->number].layer = l;
    return GS_OK;
}

gs_status gs_timed_layers_begin(gs_worker *w, const gs_roofline *roofline, gs_timed_layers **out) {
    int count = (int)gs_layer_count(w->model->net);
    gs_timed_layers *all = calloc(1, sizeof *all);
    *out = all;
    if (all) all->layer = calloc((size_t)count, sizeof *all->layer);
    if (!all || !all->layer) return gs_fail(GS_E_MEMORY, "no memory to measure %d layers", count);
    all->device = w->device;
    all->roofline = roofline;
    all->count = count;
    all->net = w->model->net;
    all->watcher = (gs_layer_watcher){all, before, after, NULL};
    gs_layer_watch_begin(all->net, &all->watcher);
    return gs_layer_walk(all->net, note_one, all);
}

void gs_timed_layers_end(gs_timed_layers *all) {
    if (!all) return;
    if (all->net) gs_layer_watch_end(all->net);
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
        if (gs_layer_is_view(t->layer)) continue;
        count++;
        if (!rows) continue;
        gs_profile_row *r = &rows[count - 1];
        snprintf(r->name, sizeof r->name, "%s", *t->layer->name ? t->layer->name : "0");
        gs_layer_describe(t->layer, r->what, sizeof r->what);
        for (int k = 0; k < GS_DIRECTIONS; k++) r->cell[k] = gs_profile_cell_of(&t->cell[k], steps);
    }
    return count;
}
