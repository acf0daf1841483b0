/* The micro-batches that one worker computes in a training run: the order of order.h, cut to fit the device's memory.
 *
 *     epoch -> global batch -> this worker's part (or several: --exact) -> passes (--accumulate) -> micro-batches
 *
 * A schedule depends only on the numbers in gs_schedule, so the loader (loader.h) can compute it ahead of the worker. A
 * part without samples is one micro-batch of 0 samples; a pass without samples has no micro-batches. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "core/shard.h"

typedef struct gs_schedule {
    size_t count, batch;  /* samples in the set, and in a global batch; 1 <= batch <= count */
    int parts;            /* parts of a global batch, ... */
    int first_part, mine; /* ... of which this worker has `mine`, starting at first_part */
    int leaves; /* so many neighbouring parts make one, with these leaves, in one micro-batch; 0 or 1: none do */
    int passes;      /* passes per part; 1 if there are leaves */
    size_t most;     /* maximum samples in a micro-batch */
    size_t together; /* cuts are at multiples of this many samples from the batch's start; 0: anywhere */
    uint64_t epochs, steps; /* limits of the run; steps 0: no limit */
    uint64_t done;          /* steps of an earlier run, which this one continues */
} gs_schedule;

/* Samples order[first .. first + n - 1] of an epoch. */
typedef struct gs_micro_batch {
    uint64_t epoch, step; /* both from 1; `step` counts over the whole run */
    size_t first, n;
    size_t offset; /* of the first sample, within the global batch */
    size_t batch;  /* samples in the global batch */
    size_t part;   /* samples in this part */
    bool last;     /* the last one of its part */
    gs_leaves leaves;
} gs_micro_batch;

/* A position in a schedule. All zero: the start of a whole run. */
typedef struct gs_schedule_position {
    uint64_t epoch, step; /* completed epochs and steps */
    size_t batch_first;   /* offset of the current global batch in the epoch */
    int part, pass;
    size_t done; /* completed samples of this pass */
} gs_schedule_position;

/* The position after `done` steps. */
gs_schedule_position gs_schedule_begin(const gs_schedule *);

/* Put the next micro-batch (of at most `most` samples) into *out, and advance *at past it. False: the run is over. */
bool gs_schedule_next(const gs_schedule *, gs_schedule_position *at, gs_micro_batch *out);

/* Steps in an epoch; the last one may have fewer samples. */
static inline uint64_t gs_steps_of_epoch(size_t count, size_t batch) {
    return (count + batch - 1) / batch;
}

/* Part i of `total` samples cut into n parts: gs_shard_of distributes groups of `together` samples. The last group may
 * be smaller, and a part may be empty. */
gs_shard gs_schedule_cut(size_t total, int i, int n, size_t together);

/* Part `part`, or the larger part that begins with it, of a global batch of `batch` samples; and its leaves. */
gs_shard gs_schedule_part(const gs_schedule *, size_t batch, int part);
gs_leaves gs_schedule_leaves(const gs_schedule *, size_t batch, int part);

/* Samples in the largest micro-batch. */
size_t gs_schedule_largest(const gs_schedule *);
