/* Activation checkpointing: forward keeps fewer activations, and backward computes the others again.
 *
 * Some groups of consecutive layers in the outermost sequence are segments. A segment keeps only its input x and its
 * output, which is the input of the next layer. When backward reaches a segment, it runs the segment's forward again,
 * and then the backward of its layers:
 *
 *     forward     x -> [ a . . . ] -> y -> [ b . . . ] -> z -> loss      x, y and z stay; a and b use the same memory
 *     backward                             [ b . . . ] <-                b again, then its backward
 *                      [ a . . . ] <-                                    a again, then its backward
 *
 * The second forward gives the same bits: dropout draws the same mask, batch_norm uses the statistics of the first
 * forward, and running statistics are unchanged. Training gives the same weights with and without checkpointing.
 *
 * The second forward costs less than a whole one. The last layers of a segment are not run again if backward does not
 * read their y: in "linear, gelu, linear" the second linear is skipped. A segment that ends the model is never run
 * again, because its backward follows its forward directly. A group of layers that keeps only its input and output
 * anyway is not a segment.
 *
 * Source: Chen, Xu, Zhang, Guestrin, "Training deep nets with sublinear memory cost" (arXiv 1604.06174, 2016). */
#pragma once

#include "layer/layer.h"
#include "layer/memory/arena.h"

/* The segments (gs_layer.recompute): every K layers of the outermost sequence, for K from 1; or: */
enum {
    GS_RECOMPUTE_NONE = 0,
    GS_RECOMPUTE_ALL = 1,     /* each layer: nothing inside it is kept */
    GS_RECOMPUTE_BLOCKS = -1, /* the blocks of the model's text; a residual outside of them is a block too */
    GS_RECOMPUTE_MOST = 1000000,
};

/* "none", "all", "blocks", "4". False: none of these. */
bool gs_recompute_read(const char *text, int *out);
const char *gs_recompute_text(int, char *text, size_t size);

/* In gs_layer_bind, once all y have lifetimes: set `segment` and `rerun` according to root->recompute, and give the y
 * inside segments a gap between their two forwards. Segments do not depend on the device. GS_E_MEMORY. */
gs_status gs_recompute_plan(gs_layer *root, gs_lifetimes *);

/* Begin the lifetime of each y at the layer's own step of forward; these steps have negative numbers. */
void gs_lifetimes_from_forward(gs_layer *root, gs_lifetimes *);

/* Operations per sample that backward computes again (gs_layer.flops); for a bound model. */
double gs_recompute_flops(gs_layer *root);

/* The number of segments. */
int gs_recompute_segments(const gs_layer *root);
