/* Which buffers of a model are needed when; where they lie follows from that (arena.h).
 *
 * The y of all layers are there when backward begins. A layer's y is needed until the layers after it have made their
 * dw, and by the layer itself if its own backward reads it. Gradients of activations are short-lived: a layer's dx is
 * the dy of the layer before it, and once that layer has made its own dx, nobody needs it. So dx lie where the y of
 * later layers lay, whose backward is done.
 *
 * The order of backward is walked through once when a model is bound. A layer takes a buffer for its dx, and the
 * container it lies in releases the buffer of dy.
 *
 *     residual   dx of the body, while dy is kept for the shortcut; dx over that of the body
 *
 * The layers in a container without `place_dx` in its table keep all their buffers for themselves.
 */
#pragma once

#include "layer/layer.h"
#include "layer/memory/arena.h"

/* When which y and dx of a model are needed. */
struct gs_dx_places {
    gs_lives lives;
    size_t max_batch;
    int now;   /* steps of backward that are done */
    int again; /* the last one of them that ran a forward again; 0: none */
};

/* Where they lie: pieces of memory of `most` floats each. The last one may hold fewer. */
enum { GS_ARENA_PIECES = 64 };
enum { GS_WHOLE_X, GS_WHOLE_DY, GS_WHOLE_DX, GS_WHOLES };
struct gs_arena {
    size_t most;
    gs_mem piece[GS_ARENA_PIECES];
    gs_lives lives; /* who lies there, and when */
    /* With GS_OFFLOAD_ACTIVATIONS: the y lie elsewhere (alloc_away), one after the other, except what backward makes
     * again. Where operators cannot work there, they have copies there (away.h). */
    float *away;
    int away_count;      /* the y have the places below it: */
    size_t *away_floats; /* place i takes so many floats there; 0: it lies in a piece alone ... */
    size_t *away_at;     /* ... from this one on */
    bool copies;
    /* Of a net whose sequences are divided: room for all tokens of a layer's x, its dy, and its dx (sequence.h). */
    gs_mem whole[GS_WHOLES];
    gs_mem sums; /* of a tensor group: room for what is added up in f32 before it is rounded to 16 bits */
};

static inline bool gs_arena_is_away(const gs_arena *a, int place) {
    return place >= 0 && place < a->away_count && a->away_floats[place] > 0;
}

/* No place among the shared buffers: the layer has a buffer of its own, or none. */
enum { GS_DX_NONE = -1 };

/* The y of l, from now on: its place, or GS_DX_NONE if it has none. Before backward is walked through. */
int gs_y_take(gs_dx_places *, gs_layer *l);

/* Returns the place where dx of l will lie. dy lies in place `dy`, and stays there. */
int gs_dx_place(gs_layer *l, gs_dx_places *, int dy);

/* Does the backward of l itself read its y? */
bool gs_y_is_read(const gs_layer *l);

/* Backward runs the forward of l again here, before its next step: the y that it makes are there from then on. */
void gs_y_again(gs_dx_places *, gs_layer *l);

/* For containers: a buffer for the dx of l itself; and the end of its use. */
int gs_dx_take(gs_dx_places *, gs_layer *l);
void gs_dx_release(gs_dx_places *, int place);
