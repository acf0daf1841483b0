/* Sequence parallelism: the work that a tensor group (tensor.h) does not divide is divided by tokens.
 *
 * Outside the pairs all ranks of a group repeat the same work: normalisation, dropout, the sums of residual blocks.
 * With gs_tensor_group.sequence each of the T ranks computes there only t / T of the t tokens of each sequence (rank r
 * those from token r t / T on), and keeps only these for backward:
 *
 *     rank 0   tokens 0..      layer_norm \               / linear ... linear \                  / dropout, +
 *                                          + all-gather  +                     + reduce-scatter +
 *     rank 1   tokens t/2..    layer_norm /               \ linear ... linear /                  \ dropout, +
 *
 * The all-reduce at the end of a pair becomes a reduce-scatter, and an all-gather at the pair's beginning gives all
 * ranks all tokens; in backward the two are swapped. Together they send as much as the all-reduce. To compute its dw, a
 * pair's first layer gathers x again in backward instead of keeping it all. This sends another (T - 1) / T of x.
 *
 * The gradients of weights are sums over tokens:
 *     layer_norm   each rank sums over its tokens, and the group sums these parts: 2 c numbers. With `leaves` the sum
 *                  follows the order of all tokens, so each rank gathers x and dy and computes backward for all tokens
 *     positions    each rank computes the rows of its own tokens, and gathers the other rows
 *     embedding    gathers dy
 * A tensor that every rank holds whole therefore has the same gradient on all ranks.
 *
 * Source: Korthikanti, Casper, Lym, McAfee, Andersch, Shoeybi, Catanzaro, "Reducing activation recomputation in large
 * transformer models" (arXiv 2205.05198, 2022), section 4.2.2.
 */
#pragma once

#include "layer/memory/buffer_plan.h"
#include "parallel/tensor.h"

/* Call this in plan. GS_E_SHAPE: the layer needs all tokens; the message names it. */
gs_status gs_sequence_check(const gs_layer *);
/* Call this after plan, for a whole net. GS_E_SHAPE: it would output this rank's tokens, but the loss needs all. */
gs_status gs_sequence_check_end(const gs_layer *net);

/* True if the layer's group divides sequences. */
bool gs_sequence_is_divided(const gs_layer *);

/* Memory for all tokens of x, dy or dx: `which` is GS_WHOLE_X, GS_WHOLE_DY or GS_WHOLE_DX. */
static inline gs_mem gs_sequence_whole(const gs_layer *l, int which) {
    return l->root->arena->whole[which];
}

/* whole = the tokens in all ranks' `part`; a sample of `part` has shape `shape`. */
gs_status gs_sequence_gather(const gs_layer *, const gs_pass *, gs_shape shape, gs_mem part, gs_mem whole);
/* If sequences are divided, replace *dy by the dy of all tokens. */
gs_status gs_sequence_gather_dy(const gs_layer *, const gs_pass *, gs_mem *dy);
