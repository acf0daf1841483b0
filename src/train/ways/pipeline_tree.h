/* The tree of --exact (exact.c), one leaf after the other: leaf k joins the sums of the leaves before it, as a carry
 * goes through a binary number.
 *
 *     leaf        0     1     2     3           after leaf 0: level 0 holds 0
 *                  \   /       \   /            after leaf 1: level 1 holds 0+1
 *                   0+1         2+3             after leaf 2: level 1 holds 0+1, level 0 holds 2
 *                      \       /                after leaf 3: level 2 holds (0+1)+(2+3)
 *                       0 .. 3
 *
 * Several ranges of the array of gradients can be at different leaves: each stage of a pipeline adds its own.
 */
#pragma once

#include "core/error.h"
#include "core/shard.h"

typedef struct gs_leaf_sums gs_leaf_sums;

/* For 2^levels leaves of `count` floats. GS_E_MEMORY. */
gs_status gs_leaf_sums_create(int levels, size_t count, gs_leaf_sums **out);
void gs_leaf_sums_free(gs_leaf_sums *); /* NULL is allowed */

/* x, the array that belongs to leaf k = 0, 1, ..., becomes the largest sum that it completes: it joins level[i] + at,
 * `count` floats each, for i = 0, 1, ... as long as these hold the sum before it. The result: the level at which x
 * then waits for its neighbour. */
int gs_leaf_join(float *const *level, size_t at, size_t count, int k, float *x);

/* x: the range of leaf k, k = 0, 1, ...; it is overwritten. */
void gs_leaf_sums_add(gs_leaf_sums *, gs_shard, int k, float *x);

/* After the last leaf: the sums of that range, and of all others: the whole array. */
float *gs_leaf_sums_result(gs_leaf_sums *);

/* The levels above the leaves of one worker: x[0 .. count - 1] = the sum of what came from all `workers`, in their
 * order in x, neighbours first. */
void gs_add_neighbours(float *x, size_t count, int workers);
