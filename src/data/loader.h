/* The loader: a thread that gathers the next micro-batches of a worker's schedule while the worker computes the present
 * one.
 *
 *     loader    | gather 0 | gather 1 | gather 2 | gather 3 | ....... | gather 4 | gather 5 | .......
 *                          \                                          (two slots are free again)
 *     worker               | compute 0      | compute 1      | compute 2      | compute 3      |
 *
 * Gathering copies, decodes pictures in files (folder_set.h), and changes pictures (augment.h); bytes become numbers on
 * the device, which the worker's thread alone uses. There are at least GS_LOADER_SLOTS slots for micro-batches, and
 * more where micro-batches are small. The loader sleeps when all are full, and is woken when half of them are free: a
 * thread that is woken for each micro-batch would take more time from the worker than copying does. (softmax, batch 8,
 * 1 thread: with 4 slots a step is 15 % longer than without the loader's thread, with 64 it is 2 % longer.)
 *
 * The schedule decides the order of the micro-batches, so the thread changes when something is done and never what.
 * Only create allocates or starts anything.
 */
#pragma once

#include "data/augment.h"
#include "data/schedule.h"

enum {
    GS_LOADER_SLOTS = 4,       /* at least */
    GS_LOADER_MOST_SLOTS = 64, /* at most */
    GS_LOADER_BYTES = 1 << 20, /* in between, as many as fit into these bytes */
};

typedef struct gs_loader gs_loader;

/* A micro-batch in memory: n samples and their targets, as gs_dataset_gather writes them. */
typedef struct gs_loaded {
    gs_micro_batch micro_batch;
    const void *inputs, *targets;
} gs_loaded;

/* Starts at once. `set` must live as long. Orders and changes follow from `seed` (order.h, augment.h; NULL: no
 * changes). bytes_per_s: no faster than this (gs_throttle); 0: as fast as it goes. GS_E_MEMORY. */
gs_status gs_loader_create(const gs_dataset *set, const gs_schedule *, const gs_augment *, uint64_t seed,
                           double bytes_per_s, gs_loader **out);
/* What it allocates for micro-batches of at most `most` samples. */
size_t gs_loader_bytes(const gs_dataset *, size_t most);
/* At any time, even while the loader waits for --throttle; NULL is allowed. */
void gs_loader_free(gs_loader *);

/* The next micro-batch, for which it waits if it must; the previous micro-batch is given back. Asking beyond the end is
 * a bug. GS_E_FILE, GS_E_FORMAT, GS_E_MEMORY: it could not be gathered (gs_dataset_gather), and nothing comes behind
 * it. */
gs_status gs_loader_next(gs_loader *, const gs_loaded **);

/* Called for each micro-batch that was gathered, in the loader's thread. It copied from `start` to `end` (gs_seconds),
 * which leaves out the waits of --throttle. */
typedef struct gs_loader_observer {
    void *context;
    void (*gathered)(void *context, const gs_micro_batch *, double start, double end);
} gs_loader_observer;

/* Set the observer; NULL: none. On return, no call to the previous one is still running. */
void gs_loader_watch(gs_loader *, const gs_loader_observer *);

/* Seconds that gs_loader_next has waited in total. */
double gs_loader_waited(const gs_loader *);

/* Bytes of a sample, as it is stored: its image and its labels, its numbers, or 16 bits for each token of a text. */
static inline size_t gs_sample_bytes(const gs_dataset *set) {
    if (set->text) return gs_shape_size(set->shape) * sizeof(uint16_t);
    return gs_dataset_input_bytes(set) +
           (set->targets ? gs_dataset_target_bytes(set) : (size_t)gs_dataset_labels_each(set));
}

/* ---- throttle: a simulated slow disk or network ---- */

/* It moves `rate` bytes a second, one after the other. While nobody wants any it does nothing: what could have been
 * moved then is lost, and not saved up. */
typedef struct gs_throttle {
    double rate; /* 0: no limit */
    double free; /* the moment when all earlier bytes are through */
} gs_throttle;

/* The moment when `bytes` that are wanted at `now` are through. */
double gs_throttle_until(gs_throttle *, double now, double bytes);
