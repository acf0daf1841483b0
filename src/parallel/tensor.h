/* Tensor parallelism: the workers of a group share the work of each pair of linear layers.
 *
 *     y = f(x w1^T + b1) w2^T + b2         f: element-wise layers, or attention
 *
 * Rank r of T holds some rows of w1 and b1, which compute some of the first layer's outputs, and w2's columns for
 * these. f needs no other rank's outputs, so one sum at the end of the pair suffices in forward, and one in backward:
 *
 *                rank 0    x -> w1 rows 0..   -> f -> w2 columns 0..  \
 *                                                                      +  -> + b2 = y      forward: all-reduce of y
 *                rank 1    x -> w1 rows n/2.. -> f -> w2 columns n/2..'
 *
 *     backward: dy is the same on all ranks; dx = dx_0 + dx_1, an all-reduce before the first layer
 *
 * These all-reduces are the operators g and f of Shoeybi et al. Before attention, w1 holds the rows of q, k and v for
 * some of the heads. A transformer block has two pairs, so it needs two all-reduces of its tokens' vectors in forward
 * and two in backward. Every other layer is computed by all ranks from the same numbers, so the gradients of its
 * weights, and of b2, are the same on all ranks and need no sum.
 *
 * Order of addition. A group divides two sums: over the inputs of w2 in forward, and over the outputs of w1 in
 * backward. With `leaves` each sum is cut into that many neighbouring ranges, whose sums are added in a binary tree,
 * neighbours first. A lone worker adds the whole tree; each of T ranks adds a subtree, and the group adds the levels
 * above (gs_tensor_group.sum must add neighbours first). So the bits do not depend on T: linear_tree_* in backend.h.
 *
 * Convolutions: a rank holds some output channels of a pair's first convolution, and the same channels as inputs of the
 * second. Pooling layers and batch_norm between them compute each channel separately. Ranks may hold different numbers
 * of channels. With `leaves` all ranks compute whole convolutions.
 *
 * Vocabulary: a language model begins with an embedding and ends with a layer that has an output for each word. Rank r
 * holds some of the words: their outputs and, if the last layer is `tied`, also their rows of the table. With a tied
 * table it looks up only its own words, and takes 0 for the others:
 *
 *     embedding    y = y_0 + y_1, an all-reduce of the tokens' vectors     (only for a tied table)
 *     last layer   outputs of its own words only; backward: dx = dx_0 + dx_1, an all-reduce
 *     loss         from each token's largest output, then from sums over the outputs: softmax_part_* in backend.h. A
 *                  group sums T + 3 numbers for each token, and no rank holds all outputs
 *
 * Shards may differ in size: rank r holds the words from floor(r V / T) onward.
 *
 * Source: Shoeybi, Patwary, Puri, LeGresley, Casper, Catanzaro, "Megatron-LM: Training multi-billion parameter language
 * models using model parallelism" (arXiv 1909.08053, 2019).
 */
#pragma once

#include "layer/make.h"
#include "parallel/group.h"

/* The role of a layer in a pair, in a divided vocabulary, or with divided sequences. */
typedef enum gs_tensor_role {
    GS_TENSOR_WHOLE,      /* not divided */
    GS_TENSOR_COLUMNS,    /* a pair's first layer, with some outputs */
    GS_TENSOR_INNER,      /* a layer between these two */
    GS_TENSOR_ROWS,       /* a pair's last layer, with some inputs */
    GS_TENSOR_TABLE_ROWS, /* an embedding, with some rows */
    GS_TENSOR_OUTPUTS,    /* the model's last layer, linear or tied, with some outputs */
    GS_TENSOR_TOKENS,     /* in no pair, with some tokens of each sequence */
} gs_tensor_role;

/* Additional data of a layer that is a shard. `ops` is a copy of the plain layer's functions, which ignore groups, with
 * some replaced: plan shrinks the layer; forward and backward communicate, and most call the plain ones. */
typedef struct gs_layer_shard {
    const gs_tensor_group *group; /* not owned */
    gs_tensor_role role;
    int blocks; /* equal blocks of its outputs (for attention, inputs), each divided separately: q, k and v */
    const gs_layer *first; /* the first layer of its pair */
    const gs_layer_ops *plain;
    gs_layer_ops ops;
    gs_status (*plan)(gs_layer *, gs_shape in); /* this shard's, or the plain one */
    gs_mem sums;                                /* layer_norm.c */
} gs_layer_shard;

static inline gs_tensor_role gs_tensor_role_of(const gs_layer *l) {
    return l->shard ? l->shard->role : GS_TENSOR_WHOLE;
}

/* Call this before plan. Turns the net's pairs of layers into shards, with `outputs` also its vocabulary's layers, and
 * with `sequence` all others. A pair lies in one sequence, and none of its layers draws random numbers, as dropout
 * does. plan then refuses sizes that are not divisible: GS_E_SHAPE. `group` must outlive the net. GS_E_MEMORY. */
gs_status gs_tensor_divide(gs_layer *net, const gs_tensor_group *group);

/* The number of divided pairs in a net, plus 1 if its outputs are divided. */
int gs_tensor_divided(const gs_layer *net);

/* The last layer of the net if its outputs are divided; else NULL. */
const gs_layer *gs_tensor_outputs(const gs_layer *net);

/* This rank's share of `whole` words, or of whatever else is divided. */
gs_share gs_tensor_share(const gs_tensor_group *, int whole);

/* The collectives of a group. */
typedef enum gs_tensor_collective {
    GS_TENSOR_ALL_REDUCE,
    GS_TENSOR_ALL_GATHER, /* this and the next: with `sequence` (sequence.h) */
    GS_TENSOR_REDUCE_SCATTER
} gs_tensor_collective;
extern const char *const gs_tensor_collective_names[]; /* "sum", "all-gather", "reduce-scatter" */

/* The number of floats that a rank sends, relative to the whole array: (T - 1) / T; for an all-reduce twice that with a
 * ring, or log2(T) with recursive doubling (if `leaves`). */
double gs_tensor_times_sent(gs_tensor_collective, int size, bool leaves);

/* Copy the shard of one rank of `size` from the whole tensor, or into it. `part` is the tensor in a divided net. An
 * undivided tensor is copied whole. */
void gs_tensor_get_shard(const gs_param *part, int rank, int size, float *to, const float *whole);
void gs_tensor_put_shard(const gs_param *part, int rank, int size, const float *from, float *whole);

/* Where a rank's elements lie in the whole tensor: in runs of adjacent elements. */
typedef struct gs_tensor_rows {
    size_t count, floats;         /* number of runs, floats in each */
    size_t part_step, whole_step; /* distance from one run to the next */
    size_t whole_first;           /* offset of the first run in the whole tensor */
} gs_tensor_rows;

gs_tensor_rows gs_tensor_rows_of(const gs_param *part, int rank, int size);

/* The number of elements in a rank's shard. */
size_t gs_tensor_count(const gs_param *part, int rank, int size);

/* ---- for shards ---- */

/* x = the sum of all ranks' x; `l` must be a shard. */
gs_status gs_tensor_sum(const gs_layer *l, gs_mem x, size_t count);

/* Memory for this rank's part of a sum: x itself; an f32 buffer if x is 16-bit; with divided sequences, the memory for
 * all tokens. gs_tensor_sum_to then sets x, of `shape` per sample, to the sum of all ranks' parts plus b or, with
 * divided sequences, to this rank's tokens of that sum. The result is rounded once. */
gs_mem gs_tensor_partial(const gs_layer *l, gs_mem x);
gs_status gs_tensor_sum_to(const gs_layer *, const gs_pass *, gs_shape shape, gs_mem partial, gs_mem b,
                           gs_mem x);

/* The maximum number of floats per sample that the layer's ranks sum or gather at once. half: only 16-bit arrays. */
size_t gs_tensor_floats(const gs_layer *, bool half);

/* Call this after gs_layer_bind. Allocates memory in the root's arena for sums and for all tokens. GS_E_MEMORY. */
gs_status gs_tensor_bind(gs_layer *root, size_t max_batch);

/* The functions in which each kind of shard differs from the plain layer; all others are NULL. Each table is defined in
 * the file named after the layer; `tied` uses gs_column_linear. */
extern const gs_layer_ops gs_column_linear, gs_row_linear, gs_column_conv2d, gs_row_conv2d,
    gs_heads_attention, gs_row_embedding, gs_token_embedding, gs_token_layer_norm, gs_token_positions,
    gs_token_dropout;
