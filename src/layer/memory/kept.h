/* In 16 bits a layer whose backward multiplies by its x needs no more of x than the rounded numbers. Where the backend
 * can (`narrow` in backend.h), it keeps these, in half the memory, and the x in f32 is gone after its forward:
 *
 *     forward    layer_norm | linear            | gelu            | linear
 *     in f32     y1         | y1 -> y2          | y2 -> y3        | y3 -> y4        y1 and y3: others may lie there
 *     kept                    y1 in 16 bits                         y3 in 16 bits   y2: gelu's backward reads it
 *
 * This needs a y that nobody else reads: the layer before it in the same sequence makes it, in a buffer of its own, and
 * does not read it in its backward. Only a relu may do that, its own layer or an epilogue: of y it asks where y > 0,
 * which the 16 bits say too. The numbers that products see are the same as without, and so are the bits of all
 * results.
 *
 * With --recompute or --offload activations, what is kept is their matter, and stays f32. So does what a tensor group
 * divides.
 */
#pragma once

#include "layer/layer.h"

/* In gs_layer_bind, when all y have lives: who keeps what (gs_layer.keeper), and when those y are needed. Where
 * somebody does, the y live from their own step of forward on. GS_E_MEMORY. */
gs_status gs_kept_plan(gs_layer *root, gs_dx_places *);

/* Backward of l is done in step p->now: what it reads of what is kept is needed until then. */
void gs_kept_read(const gs_layer *l, gs_dx_places *p);

/* The y of l goes after forward. */
static inline bool gs_y_goes(const gs_layer *l, const gs_lives *lives) {
    return l->y_place >= 0 && lives->life[l->y_place].dies < 0;
}

/* In forward of such a layer: l->x = *x = what it keeps, or x itself where it keeps nothing. */
gs_status gs_keep_x(gs_layer *l, const gs_pass *pass, gs_mem *x);
