/* The pieces of a training run that one worker computes, in order: what shard.h says, cut down to what fits the device's
 * memory at once.
 *
 *     epoch -> global batch -> this worker's part (or several: exact.c) -> passes (--accumulate) -> pieces
 *
 * A schedule depends on these numbers alone, so that whoever knows them knows long before what is wanted next: the loader
 * (loader.h) does. A part or a pass without samples has no pieces.
 */
#ifndef GS_DATA_SCHEDULE_H
#define GS_DATA_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gs_schedule {
    size_t count, batch;    /* samples of the set and of a global batch; 1 <= batch <= count */
    int parts;              /* each global batch is cut into so many parts ... */
    int first_part, mine;   /* ... of which `mine`, from first_part on, are this worker's */
    int passes;             /* each part is cut into so many passes */
    size_t most;            /* and each pass into pieces of at most so many samples */
    uint64_t epochs, steps; /* the run ends after so many; steps 0: no such limit */
} gs_schedule;

/* Samples order[first .. first + n - 1] of an epoch, which is numbered from 1. */
typedef struct gs_piece {
    uint64_t epoch;
    size_t first, n;
} gs_piece;

/* A place in a schedule. Zero it to begin. */
typedef struct gs_schedule_place {
    uint64_t epoch, step; /* epochs that are over; steps that are over in all */
    size_t batch_first;   /* of the present global batch in the epoch */
    int part, pass;
    size_t done; /* samples of this pass */
} gs_schedule_place;

/* The next piece, and *at moves behind it. False: the run is over. */
bool gs_schedule_next(const gs_schedule *, gs_schedule_place *at, gs_piece *out);

#endif
