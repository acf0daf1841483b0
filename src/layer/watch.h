/* Watching layers without their knowledge: while it is watched, a layer has another table of operations, whose forward and
 * backward tell the watcher before and after the real ones. Who is not watched pays nothing.
 *
 * Used to measure layers (train/profile_layers.c) and to draw them on a timeline (train/timeline.c).
 */
#ifndef GS_LAYER_WATCH_H
#define GS_LAYER_WATCH_H

#include "layer/layer.h"

typedef enum gs_direction { GS_FORWARD, GS_BACKWARD, GS_DIRECTIONS } gs_direction;

/* A container is told of too: before its layers and after them. */
typedef struct gs_layer_watcher {
    void *context;
    gs_status (*before)(void *context, const gs_layer *, gs_direction);
    gs_status (*after)(void *context, const gs_layer *, gs_direction, const gs_pass *);
} gs_layer_watcher;

typedef struct gs_layer_watch gs_layer_watch;

/* From now on `watcher` is told of the layer and of all inside it. One watcher at a time. GS_E_MEMORY. */
gs_status gs_layer_watch_begin(gs_layer *root, gs_layer_watcher watcher, gs_layer_watch **out);

/* The layers are as before. NULL is allowed. */
void gs_layer_watch_end(gs_layer_watch *);

/* A relu or a max_pool2d that a layer before does (layer/sequential.c): it has no work of its own. */
bool gs_layer_is_done_before(const gs_layer *);

#endif
