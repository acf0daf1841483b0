/* The loader: a thread that gathers the next micro-batches of a worker's schedule while the worker computes.
 *
 *     loader    | gather 0 | gather 1 | gather 2 | gather 3 | ....... | gather 4 | gather 5 | .......
 *                          \                                          (two slots are free again)
 *     worker               | compute 0      | compute 1      | compute 2      | compute 3      |
 *
 * Gathering copies samples, decodes files (folder_set.h) and changes pictures (augment.h); the device converts bytes to
 * floats, in the worker's thread. At least GS_LOADER_SLOTS slots hold micro-batches; small micro-batches get more
 * slots. The loader sleeps when all slots are full and wakes up when half are free: waking up for each micro-batch
 * would cost the worker more time than copying it. (softmax, batch 8, 1 thread: a step is 15 % longer with 4 slots than
 * without the loader's thread, and 2 % longer with 64.)
 *
 * The schedule fixes the order of the micro-batches: the thread affects when work is done, never its result. Only
 * gs_loader_create allocates memory or starts threads. */
#pragma once

#include "data/augment.h"
#include "data/schedule.h"

enum {
    GS_LOADER_SLOTS = 4,       /* minimum number of slots */
    GS_LOADER_MOST_SLOTS = 64, /* maximum number of slots */
    GS_LOADER_BYTES = 1 << 20, /* between these limits, as many slots as fit into this size */
};

typedef struct gs_loader gs_loader;

/* A micro-batch in memory: samples and targets as gs_dataset_gather writes them. */
typedef struct gs_loaded {
    gs_micro_batch micro_batch;
    const void *inputs, *targets;
} gs_loaded;

/* The loader starts at once. `set` must outlive it. `seed` determines the orders (order.h) and the changes (augment.h;
 * NULL: none). bytes_per_s: a limit (gs_throttle); 0: none. GS_E_MEMORY. */
gs_status gs_loader_create(const gs_dataset *set, const gs_schedule *, const gs_augment *, uint64_t seed,
                           double bytes_per_s, gs_loader **out);
/* The bytes that a loader allocates for micro-batches of at most `most` samples. */
size_t gs_loader_bytes(const gs_dataset *, size_t most);
/* May be called at any time, even while --throttle delays the loader; NULL is allowed. */
void gs_loader_free(gs_loader *);

/* Wait for the next micro-batch; the previous one becomes invalid. Calls after the last one are a bug. GS_E_FILE,
 * GS_E_FORMAT, GS_E_MEMORY: gathering failed (gs_dataset_gather), and the loader has stopped. */
gs_status gs_loader_next(gs_loader *, const gs_loaded **);

/* Called in the loader's thread for each gathered micro-batch. Gathering took from `start` to `end` (gs_seconds),
 * without the delay of --throttle. */
typedef struct gs_loader_observer {
    void *context;
    void (*gathered)(void *context, const gs_micro_batch *, double start, double end);
} gs_loader_observer;

/* Set the observer; NULL: none. After gs_loader_watch returns, no call to the previous observer is still running. */
void gs_loader_watch(gs_loader *, const gs_loader_observer *);

/* Total seconds that gs_loader_next has waited. */
double gs_loader_waited(const gs_loader *);

/* The bytes of a stored sample: its image and labels, or its floats, or 16 bits for each token of a text. */
static inline size_t gs_sample_bytes(const gs_dataset *set) {
    if (set->text) return gs_shape_size(set->shape) * sizeof(uint16_t);
    return gs_dataset_input_bytes(set) +
           (set->targets ? gs_dataset_target_bytes(set) : (size_t)gs_dataset_labels_each(set));
}

/* ---- throttle: a simulated slow disk or network ---- */

/* A throttle moves `rate` bytes per second. Unused capacity is lost, not saved up. */
typedef struct gs_throttle {
    double rate; /* bytes per second; 0: no limit */
    double free; /* the time when all earlier bytes have been moved */
} gs_throttle;

/* The time when `bytes` bytes requested at `now` have been moved. */
double gs_throttle_until(gs_throttle *, double now, double bytes);
