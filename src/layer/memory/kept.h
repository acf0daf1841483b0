/* In 16 bits backward of some layers needs no more of x than the rounded numbers (gs_layer_ops.rounds_x): of those that
 * multiply by it, of those that normalise, of gelu and silu. Mostly x lies so anyway (halves.h). Where it lies in f32
 * and the backend can (`narrow` in backend.h), such a layer keeps the rounded numbers, in half the memory, and the x in
 * f32 is gone after its forward:
 *
 *     forward    layer_norm | linear            | gelu              | linear
 *     in f32     y1         | y1 -> y2          | y2 -> y3          | y3 -> y4        others may lie there afterwards
 *     kept                    y1 in 16 bits       y2 in 16 bits       y3 in 16 bits
 *
 * Layers that multiply compute forward from the rounded numbers too, the others from those in f32.
 *
 * This needs a y that nobody else reads in backward: the layer before it in the same sequence makes it, and does not
 * read it. A relu may, its own layer or an epilogue: of y it asks where y > 0, which the 16 bits say too (for it alone
 * a pooling keeps its x); and attention, which rounds its y (rounds_y). Where a residual comes after it, x of its body
 * and of its shortcut is kept once:
 *
 *     forward    residual (conv a, batch_norm, relu, conv b, batch_norm | conv c), relu | residual ...
 *     in f32     x: until the residual has been added
 *     kept       x in 16 bits, by conv a, for conv c and for the relu before
 *
 * Operators round what they read in f32 to the same numbers, so the bits of all results are those of a run that keeps
 * f32.
 *
 * With --recompute or --offload activations, those decide what is kept. In layers that a tensor group divides, what
 * lies in f32 stays so.
 */
#pragma once

#include "layer/memory/dx_places.h"

/* In gs_layer_bind, when all y have lives: who keeps what (gs_layer_memory.keeper), and when those y are needed. Where
 * somebody does, the y live from their own step of forward on. GS_E_MEMORY. */
gs_status gs_kept_plan(gs_layer *root, gs_dx_places *);

/* Backward of l is done in step p->now: what it reads of what is kept is needed until then. */
void gs_kept_read(const gs_layer *l, gs_dx_places *p);

/* The y of l goes after forward. */
static inline bool gs_y_goes(const gs_layer *l, const gs_lives *lives) {
    return l->memory.y_place >= 0 && lives->life[l->memory.y_place].dies < 0;
}

/* Before forward of any layer: l->x = what it keeps, or x itself where it keeps nothing. *x: what forward reads. */
gs_status gs_keep_x(gs_layer *l, const gs_pass *pass, gs_mem *x);
