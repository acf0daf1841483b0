/* Sequence parallelism: what a tensor group does not divide is divided by tokens (tensor.h has the rest).
 *
 * Outside of the pairs all ranks of a group compute the same: normalisation, dropout, the sums of residual blocks. With
 * gs_tensor_group.sequence each has t / T tokens of each sequence there, rank r from token r t / T on, and keeps only
 * these for backward:
 *
 *     rank 0   tokens 0..      layer_norm \               / linear ... linear \                  / dropout, +
 *                                          + all-gather  +                     + reduce-scatter +
 *     rank 1   tokens t/2..    layer_norm /               \ linear ... linear /                  \ dropout, +
 *
 * The all-reduce at the end of a pair becomes a reduce-scatter, and an all-gather at its beginning gives all ranks all
 * tokens; in backward likewise, the other way round. Both together send as much as the all-reduce. For its dw the first
 * layer of a pair gathers x once more in backward instead of keeping all of it: (T - 1) / T of x more.
 *
 * Gradients of weights are sums over tokens:
 *     layer_norm   each rank has the part of its tokens, and the group sums these: 2 c numbers. With `leaves` the sum
 *                  has the order of all tokens, so each rank gathers x and dy, and computes backward of all
 *     positions    each rank has the rows of its tokens, and gathers the others
 *     embedding    gathers dy
 * So all ranks have the same gradients of what they all hold, and nobody has to know more.
 *
 * Source: Korthikanti, Casper, Lym, McAfee, Andersch, Shoeybi, Catanzaro, "Reducing activation recomputation in large
 * transformer models" (arXiv 2205.05198, 2022), section 4.2.2.
 */
#pragma once

#include "layer/memory/dx_places.h"

/* Before plan, after the pairs have their roles: all other layers are to be sharded. */
void gs_sequence_divide(gs_layer *net, const gs_tensor_group *);

/* In plan. GS_E_SHAPE: the layer needs all tokens; the message names it. */
gs_status gs_sequence_check(const gs_layer *);
/* After plan, of a whole net. GS_E_SHAPE: its outputs would be those of this rank's tokens, and the loss takes all. */
gs_status gs_sequence_check_end(const gs_layer *net);
/* In plan of the layer that makes the sequences: *here = how many of its t tokens this rank has. GS_E_SHAPE. */
gs_status gs_sequence_tokens_here(const gs_layer *, int t, int *here);
/* Tokens of a sample that a linear or tied layer multiplies: those of all ranks, where it gathers x. */
int gs_sequence_tokens(const gs_layer *);

/* Does its group divide sequences? */
bool gs_sequence_is_divided(const gs_layer *);
/* Does the layer gather the tokens of its x (COLUMNS, OUTPUTS), or reduce-scatter those of its y (ROWS, TABLE_ROWS)? */
bool gs_sequence_gathers_x(const gs_layer *);
bool gs_sequence_reduces_y(const gs_layer *);

/* The end of bind: room for all tokens, in the root's arena. */
gs_status gs_sequence_bind(gs_layer *root, size_t max_batch);

/* The room for all tokens of x, dy or dx: `which` is GS_WHOLE_X, GS_WHOLE_DY or GS_WHOLE_DX. */
static inline gs_mem gs_sequence_whole(const gs_layer *l, int which) {
    return l->root->arena->whole[which];
}

/* whole = all tokens of what the ranks have in `part`, of `shape` for each sample; and part = this rank's tokens of the
 * sum. */
gs_status gs_sequence_gather(const gs_layer *, const gs_pass *, gs_shape shape, gs_mem part, gs_mem whole);
gs_status gs_sequence_reduce(const gs_layer *, const gs_pass *, gs_shape shape, gs_mem whole, gs_mem part);

/* ---- for layer_norm.c ---- */

/* What backward of a sharded layer_norm reads: mean, rstd and x of this rank's tokens, and w; and what it adds to. */
typedef struct gs_sequence_norm {
    gs_mem mean, rstd, x, w, dw, db;
    gs_mem sums; /* scratch: this rank's dw and db; with `leaves` mean and rstd of the tokens of all ranks */
} gs_sequence_norm;

/* l->dx, and dw and db over the tokens of all ranks. */
gs_status gs_sequence_norm_backward(gs_layer *l, const gs_pass *, gs_mem dy, const gs_sequence_norm *);

/* How many floats `sums` has, for max_batch samples. 0: the layer is not sharded. */
size_t gs_sequence_norm_sums(const gs_layer *, size_t max_batch);
