/* What lesson 15 asks for, in lab.c: where the memory of a training run goes, and four ways to need less.
 *
 * A gs_lifetime (src/layer/memory/arena.h) is a buffer of `floats` floats. It is needed in steps `born` to `pause` and
 * in steps `resume` to `dies`, all included. Between pause and resume lies a gap, in which its place is free: what is
 * in it is made twice (--recompute). One without a gap has pause = resume = born. A network may have any number of
 * steps, and dies may be GS_FOREVER. A size or a place may be larger than an int can hold. */
#pragma once

#include "lab.h"
#include "layer/memory/arena.h"
#include "optim/loss_scale.h"

/* Have the steps from..to and begin..end one in common? (None are from 5 to 4.) */
static inline bool overlap(int from, int to, int begin, int end) {
    return from <= to && begin <= end && from <= end && begin <= to;
}

/* Is there a step in which both are needed? */
static inline bool meet_in_time(const gs_lifetime *a, const gs_lifetime *b) {
    return overlap(a->born, a->pause, b->born, b->pause) || overlap(a->born, a->pause, b->resume, b->dies) ||
           overlap(a->resume, a->dies, b->born, b->pause) || overlap(a->resume, a->dies, b->resume, b->dies);
}

/* Task 15.1, src/layer/memory/arena.h: the most floats that are needed in the same step. No smaller memory will do. */
size_t gs_lifetimes_peak(const gs_lifetimes *l);

/* Task 15.2. `count` buffers have their places: placed[i]->at is where buffer i begins, in floats. The lowest place at
 * which `it` overlaps with none of those that are needed in a step in which it is needed too (meet_in_time). Buffers
 * that are never needed together may overlap. The list has no order. */
size_t lowest_place(const gs_lifetime *it, gs_lifetime *const *placed, size_t count);

/* A row of layers. Forward of layer i does flops[i] operations and makes y[i] numbers; backward of layer i needs them
 * and those of layer i - 1. */
typedef struct row {
    int layers;
    const size_t *y;
    const double *flops;
} row;

/* Task 15.3. Each k layers are a segment, the last one may have fewer. Forward keeps y of the last layer of each
 * segment. The other y are *inner*: those of a segment are there while its own backward runs, and all segments use the
 * same memory for them, one after the other. The result is the most numbers y that are in memory at the same time.
 *
 * *again = the share of forward's operations that is done twice. Backward of a segment does its inner layers again;
 * that of the last segment does not, since its inner y are still there. 1 <= k <= layers. */
size_t recompute_peak(const row *r, int k, double *again);

/* Task 15.3. The k with the smallest peak; of several the one that does the least again. */
int best_segment(const row *r);

/* Task 15.4. Forward of a row of layers, whose y leave for a slower memory (--offload activations). Layer i takes
 * seconds[i], and then its y of bytes[i] bytes is copied at `bandwidth` bytes a second. Copies go one after the other,
 * in the order of the layers, while the next layers are computed. There are `buffers` buffers for y: layer i writes y
 * to that of layer i - buffers, so it begins when layer i - 1 is done and that copy too. */
typedef struct offload {
    int layers, buffers;
    const double *seconds, *bytes;
    double bandwidth;
} offload;

/* When the last layer is done, counted from the beginning of the first. copied[i] = when y of layer i is in the slower
 * memory. 1 <= buffers. */
double offload_forward(const offload *o, double *copied);

/* Task 15.5, src/optim/loss_scale.h: a step is done whose gradients were finite, or not. Sets all fields:
 *
 *     used     the scale that this step had
 *     skipped  the update was left out: a gradient was infinite, or not a number
 *     skips    one more, if so
 *     good     updates since the scale was changed, or an update was left out
 *     scale    half as large after an update that was left out, but not below GS_LOSS_SCALE_LEAST; twice as large, but
 *              not above GS_LOSS_SCALE_MOST, after GS_LOSS_SCALE_STEPS good updates, and then `good` begins anew */
void gs_loss_scale_step(gs_loss_scale *s, bool finite);
