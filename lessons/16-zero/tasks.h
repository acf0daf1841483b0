/* Lesson 16: the functions of lab.c. N is the number of workers, called ranks here; stages are those of ZeRO:
 *
 *     0    nothing is divided: plain data-parallel training
 *     1    the optimiser's state is divided among the ranks
 *     2    the gradients too
 *     3    the weights too
 */
#pragma once

#include <stddef.h>

#include "comm/comm.h"
#include "core/shard.h"

/* Bytes that a model takes for each parameter: 2, 2 and 12 with weights and gradients in f16 and Adam, which keeps two
 * vectors and a copy of the weights, all in f32. */
typedef struct parameter_bytes {
    double weight, gradient, optimizer;
} parameter_bytes;

/* Task 16.1. How many bytes a rank holds between two steps, for a model of `params` parameters. (Windows, in which
 * gathered weights lie for a moment, are not counted, and what does not divide by N is taken as divided.) */
double bytes_held(int stage, int ranks, double params, const parameter_bytes *);

/* And the smallest number of ranks with which each of them holds at most `memory` bytes; 0: not with any number of at
 * most MOST_RANKS. */
enum { MOST_RANKS = 4096 };
int fewest_ranks(int stage, double params, const parameter_bytes *, double memory);

/* Task 16.2. A step of stage 1 on one rank, after backward. There are `count` weights, a multiple of c->size. Rank r
 * updates its part of them alone, gs_shard_of(count, r, c->size): the weights first .. first + count - 1 of that part.
 * With them it uses the velocity of its part:
 *
 *     gradient = the sum of all ranks' gradients
 *     velocity = momentum x velocity + scale x gradient
 *     weight   = weight - rate x velocity
 *
 * At the end all ranks have all new weights. `gradients` may be overwritten. `velocity` has count / c->size floats,
 * as the step before left them, or a checkpoint. Send no more than an all-reduce would. You need
 *
 *     gs_comm_reduce_scatter(c, all, mine, count, GS_F32, GS_SUM)
 *                                   mine = this rank's part of the sum of all ranks' `all`, an array of `count` floats
 *     gs_comm_all_gather(c, mine, all, each, GS_F32)
 *                                   all = the parts `mine` of all ranks, in their order; each part has `each` floats
 *
 * In both `mine` may be this rank's place in `all`. They can fail: GS_TRY(call) passes a failure on. */
gs_status zero1_step(gs_comm *c, float *weights, float *gradients, float *velocity, size_t count, float rate,
                     float momentum, float scale);

/* Task 16.3. How many bytes a rank sends in a step. `bytes` are those of all weights, and of all gradients. A
 * reduce-scatter or an all-gather of them sends (N - 1) / N of it. The rank makes `passes` passes in the step: it
 * computes a part of its samples, forward and backward, then the next part. What is summed when, in each stage:
 *
 *     0    after the last pass, one all-reduce
 *     1    after the last pass, gradients are reduce-scattered; after the update, weights are all-gathered
 *     2    no rank has room for all gradients: those of each pass are reduce-scattered. Weights as in 1
 *     3    gradients as in 2; no rank has room for all weights: they are gathered before each forward, and again before
 *          each backward; never after the update */
double bytes_sent(int stage, int ranks, double bytes, int passes);

/* Task 16.4. What a rank of stage 3 does with the units (runs of layers) 0 .. units-1 in a pass. */
typedef enum action {
    GATHER,   /* begin to gather the weights of a unit; this does not wait */
    FORWARD,  /* wait until they are there, then compute */
    BACKWARD, /* the same; the gradients of the unit are in its window then */
    REDUCE,   /* reduce-scatter these gradients */
    DROP,     /* the weights, or the weights and the gradients: the window is free */
    ACTIONS
} action;

typedef struct plan_line {
    action action;
    int unit;
} plan_line;

typedef struct plan {
    plan_line *list;
    size_t count, room;
} plan;

/* One more line at the end. (What does not fit is only counted, and the check tells you so.) */
static inline void then(plan *p, action d, int unit) {
    if (p->count < p->room) p->list[p->count] = (plan_line){d, unit};
    p->count++;
}

/* Forward goes from unit 0 to the last one, backward from the last to unit 0. There are two windows: from GATHER to
 * DROP a unit has one of them. While a unit computes, the weights of the unit that computes next are already being
 * gathered, so that only the first one is waited for, if a gather takes no longer than a computation. (One gather at a
 * time: each begins when the one before it has ended.) No unit is gathered more than twice, and the last one, which
 * computes twice in a row, only once. At the end no window is taken. */
void zero3_pass(plan *, int units);
