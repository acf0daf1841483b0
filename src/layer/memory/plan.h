/* What the memory plan, made once for the whole net when it is bound, has decided for a layer; what follows from it is
 * done around the layer's forward and backward. */
#pragma once

#include "backend.h"

typedef struct gs_layer gs_layer;
typedef struct gs_arena gs_arena;         /* dx_places.h */
typedef struct gs_dx_places gs_dx_places; /* there too */

/* What backward runs again of a layer's forward (recompute.h). */
typedef enum gs_again {
    GS_AGAIN_NOT,
    GS_AGAIN_INSIDE, /* of a container: some layers in it; its own y is not made */
    GS_AGAIN_WHOLE
} gs_again;

typedef struct gs_layer_memory {
    int y_place, dx_place; /* numbers of the two among the root's lives; below 0: its own buffer, or none */
    int backward_step;     /* how many steps of backward are done once its own is (gs_dx_places.now) */
    bool x_half, y_half;   /* x and dx lie in 16 bits; y and dy do (halves.h); so do a net's ends */
    int segment; /* of a layer in the root: one more than the number of the first child in its segment; 0: none */
    int unit; /* of a layer in the root: what is put away together with it, from 1 (away.h); 0: nothing */
    gs_again again; /* within a segment */
} gs_layer_memory;
