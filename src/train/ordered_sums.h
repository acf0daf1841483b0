/* --exact: bitwise equal weights for 1, 2, 4 and 8 workers, on any processor.
 *
 * Floating-point addition is not associative: (a + b) + c and a + (b + c) round differently. N workers therefore
 * compute the bits of one worker only if the order of additions is the same for every N. Two things fix this order:
 *
 * 1. The global batch is cut into 8 virtual shards. What is summed over samples is summed for each of them, by
 *    operators whose plain loop (cpu/plain/plain.h) defines the order of each sum, for any instruction set and any
 *    number of threads. An empty shard adds zeros. Counts and loss are stored in the same array.
 * 2. The sums of the 8 shards are the leaves of one fixed binary tree:
 *
 *        leaf             0     1     2     3     4     5     6     7
 *                          \   /       \   /       \   /       \   /
 *                           0+1         2+3         4+5         6+7
 *                              \       /               \       /
 *                                0..3                    4..7
 *                                     \                 /
 *                                      `-----  0..7  --'
 *
 * Each of N workers adds a subtree of 8 / N neighbouring leaves by itself: two workers hold 0..3 and 4..7, four hold
 * pairs, eight hold single leaves. A pass computes all of them at once, and each layer adds its sums in the order of
 * the tree (layer/leaves.h). The levels above are rounds of recursive doubling (sync/recursive_doubling.c; for
 * --zero see reducers/zero.c): in round k worker r exchanges its sum with worker r xor 2^k, its neighbour in the tree,
 * and both add the two sums. a + b and b + a have the same bits, so all workers obtain the same sum.
 *
 * If a pass does not hold all leaves of a worker (--accumulate, --micro-batch, --digest, pipelines), it computes a part
 * of 4, 2 or 1. Each part is added to the sums that wait for it, like a carry in a binary number:
 *
 *     after part 0: level 0 holds 0
 *     after part 1: level 1 holds 0+1
 *     after part 2: level 1 holds 0+1, level 0 holds 2
 *     after part 3: part 3's array is (0+1)+(2+3) if this is the last part; otherwise level 2 holds that sum
 *
 * Linear layers that workers can share (parallel/tensor.h) also add their longest sums in 8 parts by such a tree, even
 * when they are not shared, so --tensor gives the same bits.
 *
 * The price: the gradients of weights are products over an eighth of the batch, slower than larger ones; each leaf
 * except the first costs an addition of all gradients; a worker sends log2 N arrays, in a ring less than two.
 */
#pragma once

#include "device.h"
#include "operands.h"

struct gs_worker;
struct gs_settings;

enum {
    GS_EXACT_SHARDS = GS_LEAVES, /* virtual shards of the global batch */
    GS_ORDERED_SUMS_LEVELS = 3   /* maximum within one worker */
};

typedef struct gs_ordered_sums {
    int parts;                            /* parts of this worker in each step; 0 without --exact */
    float *level[GS_ORDERED_SUMS_LEVELS]; /* sums waiting for their neighbour */
    size_t floats;                        /* total in all levels */
    const gs_device *device;              /* the worker's device */
} gs_ordered_sums;

/* Create worker->ordered_sums for parts of `count` floats each. GS_E_MEMORY. */
gs_status gs_ordered_sums_create(struct gs_worker *, size_t count);
void gs_ordered_sums_free(gs_ordered_sums *);

/* The number of gradients that a worker computes and sums in a step; 1 without --exact. */
static inline int gs_ordered_sums_parts(const gs_ordered_sums *o) {
    return o->parts > 1 ? o->parts : 1;
}

/* Add part k = 0, 1, ...: x holds its floats at .. at + count - 1. Sums that the part completes are added into x. After
 * the last part x is the sum of all parts, and the result is true. Otherwise x is stored until its neighbour arrives.
 * Different ranges may be at different parts. */
bool gs_ordered_sums_add(const gs_ordered_sums *, size_t at, size_t count, int k, float *x);

/* The same for a range of the worker's gradients, stored at `here` on its device. */
gs_status gs_ordered_sums_add_here(struct gs_worker *, gs_mem here, size_t at, size_t count, int k);

/* GS_E_USAGE: --exact with 16 bits (--precision), and a device is no cpu. */
gs_status gs_exact_check(const struct gs_settings *);

/* Add the levels of the tree above the workers' sums. x holds `count` floats from each of `workers` workers, in rank
 * order; x[0 .. count - 1] becomes their sum, neighbours first. */
void gs_add_neighbours(const gs_device *, float *x, size_t count, int workers);
