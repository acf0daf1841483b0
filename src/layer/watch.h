/* Watching layers: gs_layer_forward and gs_layer_backward call the net's watchers before and after the layer itself.
 *
 * Watchers measure layers (predict/profile.c), draw them on a timeline (train/timeline.c), and record the data that
 * pass through them (train/digest/digest.c). */
#pragma once

#include "layer/layer.h"

typedef enum gs_direction { GS_FORWARD, GS_BACKWARD, GS_DIRECTIONS } gs_direction;

/* Called for containers too, before and after their layers. Not called for a layer whose work an earlier one does
 * (gs_layer.fused). in: x, or dy; out: y, or dx (GS_NONE if none is computed). Either function may be NULL. */
typedef struct gs_layer_watcher {
    void *context;
    gs_status (*before)(void *context, const gs_layer *, gs_direction, const gs_pass *, gs_mem in);
    gs_status (*after)(void *context, const gs_layer *, gs_direction, const gs_pass *, gs_mem out);
    struct gs_layer_watcher *next; /* the watcher added before, whose calls come between this one's */
} gs_layer_watcher;

/* From now on `watcher`, which must live as long as the net, is called for the net and all its layers. The first
 * watcher of a net may also be the first one of other nets. */
static inline void gs_layer_watch_begin(gs_layer *root, gs_layer_watcher *watcher) {
    watcher->next = root->watchers;
    root->watchers = watcher;
}

/* Remove the watcher added last. */
static inline void gs_layer_watch_end(gs_layer *root) {
    root->watchers = root->watchers->next;
}

/* True if the layer has no work to watch: its y is x, or belongs to a layer inside it. */
static inline bool gs_layer_is_view(const gs_layer *l) {
    return l->ops->buffers == GS_VIEW;
}

/* Hooks around the layers of the outermost sequence, in every pass: `begins` is called before the forward or backward
 * of layer `child`, `ended` (may be NULL) after its backward; both even for a layer whose work another layer does. */
typedef struct gs_layer_hooks {
    gs_status (*begins)(void *context, const gs_pass *, int child, bool backward);
    gs_status (*ended)(void *context, const gs_pass *, int child);
    void *context;
    struct gs_layer_hooks *next; /* called after this one */
} gs_layer_hooks;

/* Append hooks to those of the root. They must live as long as the root is used, and may also be the last ones of other
 * roots. */
void gs_layer_add_hooks(gs_layer *root, gs_layer_hooks *);
