/* Activation checkpointing: forward keeps less, and backward computes it again.
 *
 * Some runs of layers of the outermost sequence are segments. Of a segment only the input x is kept, and its output,
 * which is the input of the next layer. When backward comes to a segment, it runs the segment's forward once more, and
 * then the backward of its layers:
 *
 *     forward     x -> [ a . . . ] -> y -> [ b . . . ] -> z -> loss      x, y and z stay; a and b use the same memory
 *     backward                             [ b . . . ] <-                b again, then its backward
 *                      [ a . . . ] <-                                    a again, then its backward
 *
 * The second forward gives the same bits: dropout draws the same mask, batch_norm takes the statistics of the first
 * time, and running statistics are not touched. So training gives the same weights with and without.
 *
 * It costs less than a whole forward. The last layers of a segment are not run again where backward does not read their
 * y: so of "linear, gelu, linear" the second linear is spared. A segment that ends the model is not run again at all,
 * since its backward begins when its forward has ended. And a run of layers that keep nothing besides input and output
 * is no segment.
 *
 * Source: Chen, Xu, Zhang, Guestrin, "Training deep nets with sublinear memory cost" (arXiv 1604.06174, 2016).
 */
#pragma once

#include "layer/layer.h"
#include "layer/memory/arena.h"

/* Which segments (gs_layer.recompute): each K layers of the outermost sequence, with K from 1; or: */
enum {
    GS_RECOMPUTE_NONE = 0,
    GS_RECOMPUTE_ALL = 1,     /* each layer: what lies inside of it is not kept */
    GS_RECOMPUTE_BLOCKS = -1, /* the blocks of the model's text; a residual in none of them is a block */
    GS_RECOMPUTE_MOST = 1000000,
};

/* "none", "all", "blocks", "4". false: it is none of these. */
bool gs_recompute_read(const char *text, int *out);
const char *gs_recompute_text(int, char *text, size_t size);

/* In gs_layer_bind, when all y have lifetimes: set `segment` and `rerun` of the layers of root->recompute, and let the
 * y inside of segments go between their two forwards. Segments do not depend on the device. GS_E_MEMORY. */
gs_status gs_recompute_plan(gs_layer *root, gs_lifetimes *);

/* The y of each layer is needed from its own step of forward on; these steps have numbers below 0. */
void gs_lifetimes_from_forward(gs_layer *root, gs_lifetimes *);

/* Of a bound model: the operations of one sample that backward computes again (gs_layer.flops). */
double gs_recompute_flops(gs_layer *root);

/* How many segments it has. */
int gs_recompute_segments(const gs_layer *root);
