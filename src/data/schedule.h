/* The micro-batches of a training run that one worker computes, in order: what order.h says, cut down to what fits the
 * device's memory at once.
 *
 *     epoch -> global batch -> this worker's part (or several: --exact) -> passes (--accumulate) -> micro-batches
 *
 * A schedule depends on these numbers alone, so that whoever knows them knows long before what is wanted next: the
 * loader (loader.h) does. A part without samples is one micro-batch of 0 samples; a pass without samples has no
 * micro-batches.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/shard.h"

typedef struct gs_schedule {
    size_t count, batch;  /* samples of the set and of a global batch; 1 <= batch <= count */
    int parts;            /* how many parts each global batch is cut into ... */
    int first_part, mine; /* ... of which `mine`, from first_part on, are this worker's */
    int passes;           /* how many passes each part is cut into */
    size_t most;          /* and each pass into micro-batches of at most this many samples */
    size_t together;      /* samples that no cut separates: each G from the batch's first on; 0: every one */
    uint64_t epochs, steps; /* the run ends after this many; steps 0: no such limit */
    uint64_t done;          /* steps that an earlier run has done: this one goes on after them */
} gs_schedule;

/* Samples order[first .. first + n - 1] of an epoch, and all that a step needs to know of them. */
typedef struct gs_micro_batch {
    uint64_t epoch, step; /* both from 1; the step of the run */
    size_t first, n;
    size_t offset; /* of its first sample in the global batch */
    size_t batch;  /* samples of this global batch, of all parts */
    size_t part;   /* samples of this part of it */
    bool last;     /* of its part */
} gs_micro_batch;

/* A position in a schedule. All zero: the beginning of a whole run. */
typedef struct gs_schedule_position {
    uint64_t epoch, step; /* epochs that are over; steps that are over in all */
    size_t batch_first;   /* of the present global batch in the epoch */
    int part, pass;
    size_t done; /* samples of this pass */
} gs_schedule_position;

/* The position after `done` steps. */
gs_schedule_position gs_schedule_begin(const gs_schedule *);

/* *out = the next micro-batch, and *at moves past it. False: the run is over. */
bool gs_schedule_next(const gs_schedule *, gs_schedule_position *at, gs_micro_batch *out);

/* Steps of an epoch: the last one may have fewer samples. */
static inline uint64_t gs_steps_of_epoch(size_t count, size_t batch) {
    return (count + batch - 1) / batch;
}

/* Part i of `total` samples cut into n, where each `together` samples stay together: the groups are dealt out as evenly
 * as gs_shard_of can. The last group may have fewer samples, and a part may have none. */
gs_shard gs_schedule_cut(size_t total, int i, int n, size_t together);

/* Samples of the largest micro-batch. */
size_t gs_schedule_largest(const gs_schedule *);
