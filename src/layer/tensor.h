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
 * Convolutions are divided in the same way: of the first one a rank has some output channels, of the second one the
 * input channels that these are. Between them poolings and batch_norm, whose statistics are of a channel, need nobody
 * else. The channels need not be as many on each rank. With `leaves` all ranks repeat them.
 *
 * The vocabulary. A model of a text begins with an embedding and ends with a layer that has an output for each word.
 * Rank r has some words: their outputs, and if the last layer is `tied`, their rows of the table, where it finds the
 * vectors of its own words, and 0 for others:
 *
 *     embedding    y = y_0 + y_1, an all-reduce of the tokens' vectors     (only of a table that is tied)
 *     last layer   outputs of its words alone; backward: dx = dx_0 + dx_1, an all-reduce
 *     loss         from each token's largest output, then from sums over the outputs: softmax_part_* in backend.h. A
 *                  group sums T + 3 numbers for each token, and no rank has all outputs
 *
 * The parts need not be equal: rank r has the words from floor(r V / T) on.
 *
 * Source: Shoeybi, Patwary, Puri, LeGresley, Casper, Catanzaro, "Megatron-LM: Training multi-billion parameter language
 * models using model parallelism" (arXiv 1909.08053, 2019).
 */
#pragma once

#include "layer/layer.h"

/* Before plan: the pairs of the net get their roles, and its outputs if they are to be divided. Returns how many these
 * are together. A pair lies in one sequence, and nothing in it draws numbers, as dropout does. plan then refuses sizes
 * that do not divide, GS_E_SHAPE. `tensor` must live as long as the net. */
int gs_tensor_divide(gs_layer *net, const gs_tensor_group *tensor);

/* The same number, of a net that has been through that. */
int gs_tensor_divided(const gs_layer *net);

/* The layer whose outputs are divided: the last one of the net; NULL: they are not. */
const gs_layer *gs_tensor_outputs(const gs_layer *net);

/* What this rank has of `whole` words, or of what else is divided. */
gs_share gs_tensor_share(const gs_tensor_group *, int whole);

/* What a group sends for this layer, and for the loss after it: in the order in which forward and backward ask for it.
 * gs_tensor_times_sent says how often a rank sends that. */
typedef enum gs_tensor_act {
    GS_TENSOR_ADDS,    /* an all-reduce */
    GS_TENSOR_GATHERS, /* with sequence (sequence.h): an all-gather, */
    GS_TENSOR_SCATTERS /* a reduce-scatter */
} gs_tensor_act;
typedef struct gs_tensor_call {
    gs_tensor_act act;
    bool backward, once; /* once: of a pass, not of each of its samples */
    size_t floats;       /* of all ranks together, of a sample or of a pass */
} gs_tensor_call;
extern const char *const gs_tensor_act_words[]; /* "sum", "all-gather", "reduce-scatter" */
enum { GS_TENSOR_CALLS = 5 };
int gs_tensor_calls(const gs_layer *, gs_tensor_call call[GS_TENSOR_CALLS]);

/* How many times all floats a rank sends: (T - 1) / T, and of an all-reduce by a ring twice that, or by recursive
 * doubling (leaves) log2(T). */
double gs_tensor_times_sent(gs_tensor_act, int size, bool leaves);

/* Copy the part of rank r of `size` between a tensor of a divided net and the whole one; `part` describes the former. A
 * tensor that is not divided is copied whole. */
void gs_tensor_take(const gs_param *part, int rank, int size, float *to, const float *whole);
void gs_tensor_put(const gs_param *part, int rank, int size, const float *from, float *whole);

/* Rank r's elements of such a tensor, one run of neighbours after the other. */
typedef struct gs_tensor_rows {
    size_t count, floats;         /* so many runs, of so many floats */
    size_t part_step, whole_step; /* from one to the next */
    size_t whole_first;           /* where the first begins in the whole tensor */
} gs_tensor_rows;

gs_tensor_rows gs_tensor_rows_of(const gs_param *part, int rank, int size);

/* How many elements rank r has of it. */
size_t gs_tensor_count(const gs_param *part, int rank, int size);

/* ---- for layers that may have a role ---- */

/* Before ops->plan: how many of its outputs this rank has, if it has any. GS_E_SHAPE: the message names the layer. */
gs_status gs_tensor_outputs_here(const gs_layer *, int *out);

/* After it, when the parameters, weight first, are there: how they are cut. And with sequence, what ops->plan has found
 * for this rank's tokens becomes that of the tokens which the layer gathers, or leaves to this rank. */
void gs_tensor_plan(gs_layer *);

/* Is its y, or its dx, a sum over the ranks of the group? */
bool gs_tensor_sums_y(const gs_layer *);
bool gs_tensor_sums_dx(const gs_layer *);

/* ---- for linear.c and tied.c ---- */

gs_status gs_tensor_linear_forward(gs_layer *l, const gs_pass *, gs_mem x, gs_mem *y, const gs_epilogue *);
gs_status gs_tensor_linear_backward(gs_layer *l, const gs_pass *, gs_mem dy, gs_mem *dx, const gs_epilogue *);

/* x = the sum of all ranks' x, of a layer with a role. */
gs_status gs_tensor_sum(const gs_layer *l, gs_mem x, size_t count);

/* Where x lies in 16 bits, its sum is made in f32, in a place of its own: here each rank puts what it has. Then x = the
 * sum, rounded. Else the place is x itself. */
gs_mem gs_tensor_unsummed(const gs_layer *l, gs_mem x);
gs_status gs_tensor_sum_to(const gs_layer *l, gs_mem unsummed, gs_mem x, size_t count);

/* The end of bind: that place, in the root's arena. GS_E_MEMORY. */
gs_status gs_tensor_bind(gs_layer *root, size_t max_batch);
