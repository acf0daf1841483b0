/* --exact: the same weights, to the bit, for 1, 2, 4 and 8 workers.
 *
 * Floating-point addition is not associative: (a + b) + c and a + (b + c) round differently. So N workers give the bits
 * of one only if all numbers are added in the same order, whatever N is. Two things fix it:
 *
 * 1. The global batch is cut into 8 virtual shards. The gradient of each is computed alone, by operators that see the
 *    same samples in the same shapes, on one CPU thread (how a product is cut over threads changes the order of its
 *    sums too). A shard may be empty: then it adds zeros in its place. Counts and loss travel in the same array.
 * 2. The 8 gradients are the leaves of one fixed binary tree:
 *
 *        leaf             0     1     2     3     4     5     6     7
 *                          \   /       \   /       \   /       \   /
 *                           0+1         2+3         4+5         6+7
 *                              \       /               \       /
 *                                0..3                    4..7
 *                                     \                 /
 *                                      `-----  0..7  --'
 *
 * With N workers each holds a subtree of 8 / N neighbouring leaves, which it adds alone: two workers hold 0..3 and
 * 4..7, four hold the pairs, eight the leaves. The levels above them are rounds of recursive doubling
 * (sync/recursive_doubling.c; with --zero as in reducers/zero.c): in round k worker r exchanges its sum with worker r
 * xor 2^k, its neighbour in the tree, and both add the two. a + b and b + a are the same bits, so all get the same sum.
 *
 * A worker computes its leaves one after the other. Each joins the sums before it, like a carry in a binary number:
 *
 *     after leaf 0: level 0 holds 0
 *     after leaf 1: level 1 holds 0+1
 *     after leaf 2: level 1 holds 0+1, level 0 holds 2
 *     after leaf 3: the array of leaf 3 is (0+1)+(2+3), if that is the last one; else level 2 holds it
 *
 * Linear layers that workers can share (parallel/tensor.h) add their longest sums in 8 parts too, in such a tree,
 * whether they are shared or not: so --tensor gives the same bits. batch_norm with statistics of the global batch needs
 * all leaves at once: see ordered_sums.c.
 *
 * The price: products of an eighth of the batch, which are slower than larger ones; an addition of all gradients for
 * each leaf but the first; log2 N rounds with the whole array, where a ring sends less than two arrays.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "device.h"
#include "operands.h"

struct gs_worker;
struct gs_settings;

enum {
    GS_EXACT_SHARDS = 8,       /* virtual shards of the global batch */
    GS_ORDERED_SUMS_LEVELS = 3 /* within one worker, at most */
};

typedef struct gs_ordered_sums {
    int leaves;                           /* of this worker in each step; 0: its sums have no such order */
    float *level[GS_ORDERED_SUMS_LEVELS]; /* what waits for its neighbour */
    size_t floats;                        /* of all levels */
    const gs_device *device;              /* the worker's */
} gs_ordered_sums;

/* Of a worker whose leaves have `count` floats each: worker->ordered_sums. GS_E_MEMORY. */
gs_status gs_ordered_sums_create(struct gs_worker *, size_t count);
void gs_ordered_sums_free(gs_ordered_sums *);

/* How many gradients a worker computes and sums in a step; without --exact one. */
static inline int gs_ordered_sums_leaves(const gs_ordered_sums *o) {
    return o->leaves > 1 ? o->leaves : 1;
}

/* x: the floats at .. at + count - 1 of leaf k = 0, 1, ... It becomes the largest sum that it completes, and is kept.
 * True: it was the last leaf, and x is the sum of all. Ranges may be at different leaves. */
bool gs_ordered_sums_add(const gs_ordered_sums *, size_t at, size_t count, int k, float *x);

/* The same of a range of the worker's gradients, which its device has at `place`. */
gs_status gs_ordered_sums_add_here(struct gs_worker *, gs_mem place, size_t at, size_t count, int k);

/* GS_E_USAGE: --exact with settings whose bits are not known to be the same for any number of workers. */
gs_status gs_exact_check(const struct gs_settings *);

/* The levels above the leaves of one worker: x[0 .. count - 1] = the sum of what came from all `workers`, in their
 * order in x, neighbours first. */
void gs_add_neighbours(const gs_device *, float *x, size_t count, int workers);

/* ---- leaves that are computed together ---- */

typedef struct gs_virtual_shards gs_virtual_shards;

/* worker->virtual_shards. GS_E_MEMORY. */
gs_status gs_virtual_shards_create(struct gs_worker *);
void gs_virtual_shards_free(gs_virtual_shards *); /* NULL is allowed */

/* The gradients of leaf k = 0, 1, ..., in the worker's model. */
gs_status gs_virtual_shards_gradient(gs_virtual_shards *, int k);

/* gs_pass.sum_over_workers */
gs_status gs_virtual_shards_sum(void *worker, double *numbers, size_t count);
