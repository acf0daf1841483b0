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

#include "layer/make.h"
#include "parallel/group.h"

/* What a layer is in a pair, or of a vocabulary that is divided, or where sequences are. */
typedef enum gs_tensor_role {
    GS_TENSOR_WHOLE,      /* none of it */
    GS_TENSOR_COLUMNS,    /* a pair's first layer, with some of the outputs */
    GS_TENSOR_INNER,      /* between the two */
    GS_TENSOR_ROWS,       /* its last layer, with some of the inputs */
    GS_TENSOR_TABLE_ROWS, /* an embedding, with some of the rows */
    GS_TENSOR_OUTPUTS,    /* the model's last layer, linear or tied, with some of the outputs */
    GS_TENSOR_TOKENS,     /* in no pair, with some tokens of each sequence */
} gs_tensor_role;

/* What a layer has that is a shard. Its table is a copy of the plain layer's, which knows of no group, with other
 * functions where a part differs: plan makes it smaller; forward and backward send, and most call the plain ones. */
typedef struct gs_layer_shard {
    const gs_tensor_group *group; /* not owned */
    gs_tensor_role role;
    int blocks; /* so many equal parts of its outputs, of attention of its inputs, are each divided: q, k and v */
    const gs_layer *first; /* of layers in a pair: its first one */
    const gs_layer_ops *plain;
    gs_layer_ops ops;
    gs_status (*plan)(gs_layer *, gs_shape in); /* of this kind, or the plain one */
    gs_mem sums;                                /* layer_norm.c */
} gs_layer_shard;

static inline gs_tensor_role gs_tensor_role_of(const gs_layer *l) {
    return l->shard ? l->shard->role : GS_TENSOR_WHOLE;
}

/* Before plan: the layers of the pairs of the net become shards, and its outputs, and with sequence all others. A pair
 * lies in one sequence, and nothing in it draws numbers, as dropout does. plan then refuses sizes that do not divide,
 * GS_E_SHAPE. `group` must live as long as the net. GS_E_MEMORY. */
gs_status gs_tensor_divide(gs_layer *net, const gs_tensor_group *group);

/* How many pairs gs_tensor_divide has made in a net, and 1 more if its outputs are divided. */
int gs_tensor_divided(const gs_layer *net);

/* The layer whose outputs are divided: the last one of the net; NULL: they are not. */
const gs_layer *gs_tensor_outputs(const gs_layer *net);

/* What this rank has of `whole` words, or of what else is divided. */
gs_share gs_tensor_share(const gs_tensor_group *, int whole);

/* The collectives of a group. */
typedef enum gs_tensor_collective {
    GS_TENSOR_ALL_REDUCE,
    GS_TENSOR_ALL_GATHER, /* this and the next: with sequence (sequence.h) */
    GS_TENSOR_REDUCE_SCATTER
} gs_tensor_collective;
extern const char *const gs_tensor_collective_names[]; /* "sum", "all-gather", "reduce-scatter" */

/* What a rank sends, as a multiple of all floats: (T - 1) / T, and of an all-reduce by a ring twice that, or by
 * recursive doubling (leaves) log2(T). */
double gs_tensor_times_sent(gs_tensor_collective, int size, bool leaves);

/* Copy the part of rank r of `size` between a tensor of a divided net and the whole one; `part` describes the former. A
 * tensor that is not divided is copied whole. */
void gs_tensor_get_shard(const gs_param *part, int rank, int size, float *to, const float *whole);
void gs_tensor_put_shard(const gs_param *part, int rank, int size, const float *from, float *whole);

/* Rank r's elements of such a tensor, one run of neighbours after the other. */
typedef struct gs_tensor_rows {
    size_t count, floats;         /* so many runs, of so many floats */
    size_t part_step, whole_step; /* from one to the next */
    size_t whole_first;           /* where the first begins in the whole tensor */
} gs_tensor_rows;

gs_tensor_rows gs_tensor_rows_of(const gs_param *part, int rank, int size);

/* How many elements rank r has of it. */
size_t gs_tensor_count(const gs_param *part, int rank, int size);

/* ---- for the layers that are shards ---- */

/* x = the sum of all ranks' x, of a layer that is a shard. */
gs_status gs_tensor_sum(const gs_layer *l, gs_mem x, size_t count);

/* Where each rank puts what it has of a sum: x itself; where that lies in 16 bits, a place in f32; where sequences are
 * divided, the room for all tokens. Then x, of `shape` for each sample, = the sum of all ranks', or this rank's tokens
 * of it, + b, rounded once. */
gs_mem gs_tensor_partial(const gs_layer *l, gs_mem x);
gs_status gs_tensor_sum_to(const gs_layer *, const gs_pass *, gs_shape shape, gs_mem partial, gs_mem b,
                           gs_mem x);

/* The most floats of a sample that the layer's ranks add up or gather at once, or of those in 16 bits (half) alone. */
size_t gs_tensor_floats(const gs_layer *, bool half);

/* After gs_layer_bind: room for such sums, and for all tokens, in the root's arena. GS_E_MEMORY. */
gs_status gs_tensor_bind(gs_layer *root, size_t max_batch);

/* What each of them does differently from the plain layer; NULL: the same. A table lies in the file with the
 * layer's name; column_linear is also that of `tied`. */
extern const gs_layer_ops gs_column_linear, gs_row_linear, gs_column_conv2d, gs_row_conv2d,
    gs_heads_attention, gs_row_embedding, gs_token_embedding, gs_token_layer_norm, gs_token_positions,
    gs_token_dropout;
