/* The tasks of lesson 15, for lab.c: where the memory of a training run goes, and four ways to need less.
 *
 * A gs_lifetime (src/layer/memory/arena.h) is a buffer of `floats` floats. It is needed in steps `born` to `pause` and
 * in steps `resume` to `dies`, all inclusive. In the gap between pause and resume its memory is free: its contents are
 * computed twice (--recompute). Without a gap, pause = resume = born. A network may have any number of steps, and dies
 * may be GS_FOREVER. A size or an offset may be too large for an int. */
#pragma once

#include "lab.h"
#include "layer/memory/arena.h"
#include "optim/loss_scale.h"

/* True if the steps from..to and begin..end have a step in common. (5..4 is empty.) */
static inline bool overlap(int from, int to, int begin, int end) {
    return from <= to && begin <= end && from <= end && begin <= to;
}

/* True if both are needed in some step. */
static inline bool meet_in_time(const gs_lifetime *a, const gs_lifetime *b) {
    return overlap(a->born, a->pause, b->born, b->pause) || overlap(a->born, a->pause, b->resume, b->dies) ||
           overlap(a->resume, a->dies, b->born, b->pause) || overlap(a->resume, a->dies, b->resume, b->dies);
}

/* Task 15.1, src/layer/memory/arena.h: the most floats that are needed in the same step. No smaller memory suffices. */
size_t gs_lifetimes_peak(const gs_lifetimes *l);

/* Task 15.2. `count` buffers are placed: placed[i]->at is the offset of buffer i, in floats. Returns the lowest offset
 * at which `it` overlaps with no buffer that is needed in a step in which `it` is needed too (meet_in_time). Buffers
 * that are never needed together may overlap. The list has no order. */
size_t lowest_place(const gs_lifetime *it, gs_lifetime *const *placed, size_t count);

/* A row of layers. Forward of layer i does flops[i] operations and makes y[i] numbers; backward of layer i needs these
 * and those of layer i - 1. */
typedef struct row {
    int layers;
    const size_t *y;
    const double *flops;
} row;

/* Task 15.3. Each k layers are a segment; the last may have fewer. Forward keeps y of the last layer of each segment.
 * The other y are *inner*: those of a segment are in memory during its own backward, and all segments use the same
 * memory for them. Returns the most numbers y that are in memory at the same time.
 *
 * *again = the share of forward's operations that is done twice. Backward of a segment computes its inner layers again,
 * except for the last segment, whose inner y are still in memory. 1 <= k <= layers. */
size_t recompute_peak(const row *r, int k, double *again);

/* Task 15.3. The k with the smallest peak; among equals the k that computes least again. */
int best_segment(const row *r);

/* Task 15.4. Forward of a row of layers, whose y are copied to a slower memory (--offload activations). Layer i takes
 * seconds[i], and then its y of bytes[i] bytes is copied at `bandwidth` bytes a second. Copies run sequentially, in the
 * order of the layers, while the next layers are computed. There are `buffers` buffers for y: layer i writes to the
 * buffer of layer i - buffers, so it begins when layer i - 1 and the copy of layer i - buffers are done. */
typedef struct offload {
    int layers, buffers;
    const double *seconds, *bytes;
    double bandwidth;
} offload;

/* The time when the last layer is done, from the beginning of the first. copied[i] = the time when the copy of layer i
 * ends. 1 <= buffers. */
double offload_forward(const offload *o, double *copied);

/* Task 15.5, src/optim/loss_scale.h: after a step, whose gradients were finite or not. Sets all fields:
 *
 *     used     the scale of this step
 *     skipped  true if the update was skipped: a gradient was infinite, or not a number
 *     skips    one more, if so
 *     good     updates since the scale changed or an update was skipped
 *     scale    half as large after a skipped update, but not below GS_LOSS_SCALE_LEAST; twice as large, but not above
 *              GS_LOSS_SCALE_MOST, after GS_LOSS_SCALE_STEPS good updates; then `good` begins at 0 again */
void gs_loss_scale_step(gs_loss_scale *s, bool finite);
