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

/* Bytes per parameter: 2, 2 and 12 with weights and gradients in f16 and Adam, which keeps two vectors and a copy of
 * the weights, all in f32. */
typedef struct parameter_bytes {
    double weight, gradient, optimizer;
} parameter_bytes;

/* Task 16.1. The bytes that a rank holds between two steps, for a model of `params` parameters. Do not count windows,
 * and do not round where N does not divide `params`. */
double bytes_held(int stage, int ranks, double params, const parameter_bytes *);

/* The smallest number of ranks, at most MOST_RANKS, with which each rank holds at most `memory` bytes; 0: there is
 * none. */
enum { MOST_RANKS = 4096 };
int fewest_ranks(int stage, double params, const parameter_bytes *, double memory);

/* Task 16.2. A step of stage 1 on one rank, after backward. There are `count` weights, a multiple of c->size. Rank r
 * updates only its own part, gs_shard_of(count, r, c->size): the weights first .. first + count - 1. For these it also
 * holds the velocity:
 *
 *     gradient = the sum of all ranks' gradients
 *     velocity = momentum x velocity + scale x gradient
 *     weight   = weight - rate x velocity
 *
 * At the end all ranks hold all new weights. `gradients` may be overwritten. `velocity` has count / c->size floats,
 * left by the step before or loaded from a checkpoint. Send no more than an all-reduce would. You need
 *
 *     gs_comm_reduce_scatter(c, all, mine, count, GS_F32, GS_SUM)
 *                                   mine = this rank's part of the sum of all ranks' `all`, an array of `count` floats
 *     gs_comm_all_gather(c, mine, all, each, GS_F32)
 *                                   all = the parts `mine` of all ranks, in their order; each part has `each` floats
 *
 * In both, `mine` may be this rank's part of `all`. They can fail: GS_TRY(call) passes a failure on. */
gs_status zero1_step(gs_comm *c, float *weights, float *gradients, float *velocity, size_t count, float rate,
                     float momentum, float scale);

/* Task 16.3. The bytes that a rank sends in a step. All weights take `bytes`, and so do all gradients; a reduce-scatter
 * or an all-gather sends (N - 1) / N of them. In a step the rank makes `passes` passes: each computes forward and
 * backward of a part of its samples. The stages communicate:
 *
 *     0    after the last pass, one all-reduce
 *     1    after the last pass, gradients are reduce-scattered; after the update, weights are all-gathered
 *     2    no rank can store all gradients: each pass reduce-scatters its own. Weights as in 1
 *     3    gradients as in 2; no rank can store all weights: they are gathered before each forward and again before
 *          each backward, never after the update */
double bytes_sent(int stage, int ranks, double bytes, int passes);

/* Task 16.4. What a rank of stage 3 does with the units (runs of layers) 0 .. units-1 in a pass. */
typedef enum action {
    GATHER,   /* begin to gather the weights of a unit; this does not wait */
    FORWARD,  /* wait for the gathered weights, then compute */
    BACKWARD, /* wait for the gathered weights, then compute; leaves the unit's gradients in its window */
    REDUCE,   /* reduce-scatter these gradients */
    DROP,     /* free the unit's window */
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

/* Appends a line. A line that does not fit is only counted, and the check says so. */
static inline void then(plan *p, action d, int unit) {
    if (p->count < p->room) p->list[p->count] = (plan_line){d, unit};
    p->count++;
}

/* Forward computes unit 0 to the last one, backward the last one to unit 0. There are two windows: a unit holds one of
 * them from its GATHER to its DROP. While a unit computes, the weights of the next one are already being gathered, so
 * that the rank waits only for the first gather if a gather takes no longer than a computation. (Gathers run one at a
 * time, in order.) No unit is gathered more than twice, and the last one, which computes twice in a row, only once. At
 * the end no window is taken. */
void zero3_pass(plan *, int units);
