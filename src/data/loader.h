/* The loader: a thread that gathers the next pieces of a worker's schedule while the worker computes the present one.
 *
 *     loader    | gather 0 | gather 1 | gather 2 | gather 3 | ....... | gather 4 | gather 5 | .......
 *                          \                                          (two places are free again)
 *     worker               | compute 0      | compute 1      | compute 2      | compute 3      |
 *
 * Gathering copies bytes, and nothing else: the bytes become numbers on the device, which is used by the worker's thread
 * alone. There are at least GS_LOADER_PLACES places for pieces, and more where pieces are small; the loader sleeps when all
 * are full, and is woken when half of them are free: a thread that is woken for each piece would take more time from the
 * worker than the copying does. (softmax, batch 8, 1 thread: with 4 places a step is 15 % longer than without the loader's
 * thread, with 64 it is 2 % longer.)
 *
 * Which piece comes when is the schedule's, so the thread changes when something is done and never what. No call but
 * create allocates or starts anything.
 */
#ifndef GS_DATA_LOADER_H
#define GS_DATA_LOADER_H

#include "data/dataset.h"
#include "data/schedule.h"

enum {
    GS_LOADER_PLACES = 4,       /* that there are at least ... */
    GS_LOADER_MOST_PLACES = 64, /* ... and at most, ... */
    GS_LOADER_BYTES = 1 << 20,  /* ... and as many between as fit into so many bytes */
};

typedef struct gs_loader gs_loader;

/* A piece in memory: n images as bytes, n labels. */
typedef struct gs_loaded {
    gs_piece piece;
    const unsigned char *images;
    const int32_t *labels;
} gs_loaded;

/* Starts at once. `set` must live as long; the epochs' orders follow from `seed` (shard.h). bytes_per_s: no faster than
 * this (gs_pace); 0: as fast as it goes. GS_E_MEMORY. */
gs_status gs_loader_create(const gs_dataset *set, const gs_schedule *, uint64_t seed, double bytes_per_s,
                           gs_loader **out);
/* At any moment, also while it waits for its pace; NULL is allowed. */
void gs_loader_free(gs_loader *);

/* The next piece, waiting for it if it must be; the one before is given back. It is a bug to ask beyond the end. */
const gs_loaded *gs_loader_next(gs_loader *);

/* Is told of each piece that was gathered, in the loader's thread. From `start` to `end` (gs_seconds) it copied; the pace
 * that --throttle sets does not count. */
typedef struct gs_loader_observer {
    void *context;
    void (*gathered)(void *context, const gs_piece *, double start, double end);
} gs_loader_observer;

/* From now on; NULL: nobody any more. When it returns, no call of the observer before is under way. */
void gs_loader_watch(gs_loader *, const gs_loader_observer *);

/* Seconds that gs_loader_next has waited, in all. */
double gs_loader_waited(const gs_loader *);

/* Bytes of a sample, as it is stored: its image and its label. */
static inline size_t gs_sample_bytes(const gs_dataset *set) {
    return gs_shape_size(set->shape) + 1;
}

/* ---- pace: a slow disk or network that the loader pretends to read from ---- */

/* It moves `rate` bytes a second, one after the other. While nobody wants any it does nothing: what could have been moved
 * then is lost, and not saved up. */
typedef struct gs_pace {
    double rate; /* 0: no limit */
    double free; /* the moment when all that was wanted before is through */
} gs_pace;

/* The moment when `bytes` that are wanted at `now` are through. */
double gs_pace_through(gs_pace *, double now, double bytes);

#endif
