/* Watching layers: while a layer is watched, it has another table of operations, whose forward and backward call the
 * watcher before and after the real ones. A layer that is not watched pays nothing.
 *
 * Used to measure layers (train/profile/profile_layers.c), to draw them on a timeline (train/timeline/timeline.c), and
 * to record what goes through them (train/digest/digest.c).
 */
#pragma once

#include "layer/layer.h"

typedef enum gs_direction { GS_FORWARD, GS_BACKWARD, GS_DIRECTIONS } gs_direction;

/* Called for containers too: before their layers and after them. Not called for a layer whose work one before it does
 * (gs_layer.joined). in: x, or dy; out: y, or dx, which is GS_NONE where the layer needs none. */
typedef struct gs_layer_watcher {
    void *context;
    gs_status (*before)(void *context, const gs_layer *, gs_direction, const gs_pass *, gs_mem in);
    gs_status (*after)(void *context, const gs_layer *, gs_direction, const gs_pass *, gs_mem out);
} gs_layer_watcher;

typedef struct gs_layer_watch gs_layer_watch;

/* From now on `watcher` is called for the layer and for all layers inside it. One watcher at a time. GS_E_MEMORY. */
gs_status gs_layer_watch_begin(gs_layer *root, gs_layer_watcher watcher, gs_layer_watch **out);

/* Restore the layers. NULL is allowed. */
void gs_layer_watch_end(gs_layer_watch *);

/* The same once the layers are gone: there is nothing to restore. */
void gs_layer_watch_free(gs_layer_watch *);

/* It has no work of its own to watch: its y is x, or belongs to a layer inside it. */
static inline bool gs_layer_is_view(const gs_layer *l) {
    return l->ops->buffers == GS_VIEW;
}
