#include "layer/watch.h"

#include <stdlib.h>

typedef struct watched {
    gs_layer_ops ops; /* first: a layer's ops point here */
    const gs_layer_ops *real;
    gs_layer *layer;
    const gs_layer_watcher *watcher;
} watched;

struct gs_layer_watch {
    gs_layer_watcher watcher;
    int count;
    watched *layer; /* by its number */
};

static gs_status watched_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const watched *me = (const watched *)l->ops;
    GS_TRY(me->watcher->before(me->watcher->context, l, GS_FORWARD, pass, x));
    GS_TRY(me->real->forward(l, pass, x, y));
    return me->watcher->after(me->watcher->context, l, GS_FORWARD, pass, *y);
}

static gs_status watched_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    const watched *me = (const watched *)l->ops;
    GS_TRY(me->watcher->before(me->watcher->context, l, GS_BACKWARD, pass, dy));
    GS_TRY(me->real->backward(l, pass, dy, dx));
    return me->watcher->after(me->watcher->context, l, GS_BACKWARD, pass, *dx);
}

static gs_status watch_one(gs_layer *l, void *context) {
    gs_layer_watch *all = context;
    watched *w = &all->layer[all->count++];
    *w = (watched){.ops = *l->ops, .real = l->ops, .layer = l, .watcher = &all->watcher};
    w->ops.forward = watched_forward;
    w->ops.backward = watched_backward;
    l->ops = &w->ops;
    return GS_OK;
}

gs_status gs_layer_watch_begin(gs_layer *root, gs_layer_watcher watcher, gs_layer_watch **out) {
    size_t count = gs_layer_count(root);
    gs_layer_watch *all = calloc(1, sizeof *all);
    *out = all;
    if (all) all->layer = calloc(count, sizeof *all->layer);
    if (!all || !all->layer) return gs_fail(GS_E_MEMORY, "no memory to watch %zu layers", count);
    all->watcher = watcher;
    return gs_layer_walk(root, watch_one, all);
}

void gs_layer_watch_end(gs_layer_watch *all) {
    if (!all) return;
    for (int i = 0; i < all->count; i++) all->layer[i].layer->ops = all->layer[i].real;
    gs_layer_watch_free(all);
}

void gs_layer_watch_free(gs_layer_watch *all) {
    if (all) free(all->layer);
    free(all);
}
