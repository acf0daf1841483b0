/* What the memory plan, made once for the whole net when it is bound, has decided for a layer; what follows from it is
 * done around the layer's forward and backward. */
#pragma once

#include "backend.h"

typedef struct gs_layer gs_layer;
typedef struct gs_arena gs_arena;             /* buffer_plan.h */
typedef struct gs_buffer_plan gs_buffer_plan; /* there too */

/* What backward runs again of a layer's forward (recompute.h). */
typedef enum gs_rerun {
    GS_RERUN_NOT,
    GS_RERUN_INSIDE, /* of a container: some layers in it; its own y is not made */
    GS_RERUN_WHOLE
} gs_rerun;

typedef struct gs_layer_memory {
    int y_buffer, dx_buffer; /* numbers of the two among the arena's; below 0: a buffer of its own, or none */
    int backward_step;       /* how many steps of backward are done once its own is (gs_buffer_plan.now) */
    bool x_half, y_half;     /* x and dx lie in 16 bits; y and dy do (half_storage.h); so do a net's ends */
    int segment; /* of a layer in the root: one more than the number of the first child in its segment; 0: none */
    int unit; /* of a layer in the root: what is offloaded together with it, from 1 (offload.h); 0: nothing */
    gs_rerun rerun; /* within a segment */
} gs_layer_memory;
