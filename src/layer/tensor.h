/* Tensor parallelism: the workers of a group share the work of each pair of linear layers.
 *
 *     y = f(x w1^T + b1) w2^T + b2         f: element-wise layers, or attention
 *
 * Rank r of T has some rows of w1 and b1, which are outputs, and the columns of w2 that read them. What lies between is
 * computed on these numbers alone, so one sum at the end of the pair is enough, and one in backward:
 *
 *                rank 0    x -> w1 rows 0..   -> f -> w2 columns 0..  \
 *                                                                      +  -> + b2 = y      forward: all-reduce of y
 *                rank 1    x -> w1 rows n/2.. -> f -> w2 columns n/2..'
 *
 *     backward: dy is the same on all ranks; dx = dx_0 + dx_1, an all-reduce before the first layer
 *
 * These two are the operators g and f of Shoeybi et al. In front of attention w1 has the rows of q, k and v for some of
 * the heads. So a block of a transformer, which has two pairs, takes two all-reduces in forward and two in backward, of
 * its tokens' vectors. Every other layer is computed by all ranks alike, from the same numbers: the gradients of its
 * weights, and of b2, are the same on all ranks, and nobody sums them.
 *
 * The order of sums. A group divides two sums: the one over the inputs of w2 in forward, and the one over the outputs
 * of w1 in backward. With `leaves` they are cut into that many parts, by place, which are added in one binary tree,
 * neighbours first. A worker alone adds all of it; each of T ranks has a subtree, and the levels above are the group's
 * (gs_tensor_group.sum must add neighbours first). So the bits do not depend on T: linear_tree_* in backend.h.
 *
 * Source: Shoeybi, Patwary, Puri, LeGresley, Casper, Catanzaro, "Megatron-LM: Training multi-billion parameter language
 * models using model parallelism" (arXiv 1909.08053, 2019).
 */
#pragma once

#include "layer/layer.h"

/* Before plan: the pairs of the net get their roles. A pair lies in one sequence, and has nothing in it that draws
 * numbers (dropout). plan then refuses sizes that do not divide, GS_E_SHAPE. The number of pairs. `tensor` must live as
 * long as the net. */
int gs_tensor_divide(gs_layer *net, const gs_tensor_group *tensor);

/* The number of pairs of a net that has been through that. */
int gs_tensor_pairs(const gs_layer *net);

/* Copy the part of rank r of `size` between a tensor of a divided net and the whole one; `part` describes the former. A
 * tensor that is not divided is copied whole. */
void gs_tensor_take(const gs_param *part, int rank, int size, float *to, const float *whole);
void gs_tensor_put(const gs_param *part, int rank, int size, const float *from, float *whole);

/* How many elements the whole tensor has. */
static inline size_t gs_tensor_whole(const gs_param *part, int size) {
    return part->cut == GS_UNCUT ? part->count : part->count * (size_t)size;
}

/* ---- for linear.c: forward and backward of the first and of the last layer of a pair ---- */

/* The rest of plan, after l->out and the parameters, weight first, are there. */
void gs_tensor_plan_linear(gs_layer *l);
gs_status gs_tensor_linear_forward(gs_layer *l, const gs_pass *, gs_mem x, gs_mem *y, const gs_epilogue *);
gs_status gs_tensor_linear_backward(gs_layer *l, const gs_pass *, gs_mem dy, gs_mem *dx, const gs_epilogue *);
