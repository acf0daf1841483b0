/* A timeline while it is recorded (timeline/timeline.h). Only for src/train/timeline/:
 *
 *     timeline.c          spans, layer by layer and thread by thread
 *     timeline_memory.c   what the ledger says, and which activations are needed
 *     timeline_gather.c   all of it on rank 0
 */
#pragma once

#include "core/memory.h"
#include "layer/watch.h"
#include "train/timeline/timeline.h"

/* ---- timeline_memory.c ---- */

typedef struct gs_timeline_memory {
    gs_memory_sample *sample; /* written by the worker's thread alone */
    size_t count, room;
    uint64_t lost;
    bool *there;   /* of each place of the model's lives: does it hold what will still be read? */
    double stages; /* of a pipeline: the same in bytes, of all micro-batches that are alive */
} gs_timeline_memory;

gs_status gs_timeline_memory_create(gs_timeline_memory *, const gs_model *);
void gs_timeline_memory_free(gs_timeline_memory *);

/* A layer has begun or ended, or a phase has: layer NULL. at: seconds since training began. */
void gs_timeline_memory_begins(gs_timeline_memory *, const gs_layer *, gs_direction);
void gs_timeline_memory_sample(gs_timeline_memory *, const gs_worker *, double at, uint64_t step, size_t n,
                               const gs_layer *, gs_direction);

/* ---- timeline.c ---- */

/* Until the device's thread is done with what recorded steps have asked it for. */
void gs_timeline_settle(const gs_worker *);

/* Each row is written by one thread, so none waits for another. */
typedef struct gs_timeline_row {
    gs_span *span;
    size_t count, room;
    uint64_t lost;
} gs_timeline_row;

struct gs_timeline {
    gs_worker *worker;
    uint64_t first, last; /* steps */
    double began;         /* the moment when training began */
    uint64_t step;        /* that is recorded, if worker->recorded */
    gs_layer_watcher layers;
    double *layer_start; /* by a layer's number */
    gs_sync_observer sync;
    gs_loader_observer loader;
    double step_start;
    gs_timeline_memory memory;
    int rows;
    gs_timeline_row row[];
};
