/* The parts of a log, only for src/log/. Each fails with GS_E_FILE or GS_E_MEMORY. */
#pragma once

#include <stdio.h>

#include "log/log.h"
#include "train/timeline.h"

/* A line of metrics.jsonl. */
typedef struct gs_log_step {
    uint64_t step;
    int epoch, worker; /* worker: -1, or the only one that the numbers describe */
    double time, loss, accuracy, lr, samples_per_s;
    double gradient_norm; /* negative: it was not asked for */
    double loss_scale;    /* in f16: of the last step; else 0 */
    uint64_t skipped;     /* then: how many of the line's steps made no update */
    bool has_share;
    double share[GS_PHASES];
} gs_log_step;

/* ---- events.c: TensorBoard ---- */

typedef struct gs_events gs_events;

/* "events.out.tfevents.<seconds since 1970>.<host>" in the folder. */
gs_status gs_events_open(const char *folder, gs_events **out);
gs_status gs_events_step(gs_events *, const gs_log_step *);
gs_status gs_events_epoch(gs_events *, const gs_epoch_report *);
/* Histograms of weights and, if scale > 0, of gradients times scale, one for each parameter. */
gs_status gs_events_layers(gs_events *, uint64_t step, gs_model *, float scale);
/* Both free it; NULL is allowed. */
gs_status gs_events_close(gs_events *);
void gs_events_discard(gs_events *); /* and the file is removed */

uint32_t gs_crc32c(const void *data, size_t bytes);

enum { GS_BINS = 4096 };

/* Values by sign, exponent and the first three bits after the point: 8 bins from one power of two to the next. */
typedef struct gs_histogram {
    double min, max, num, sum, sum_squares; /* of the finite values */
    uint32_t bin[GS_BINS];
} gs_histogram;

/* Of x[i] * scale, i < count; count < 2^32. */
void gs_histogram_of(gs_histogram *, const float *x, size_t count, float scale);

/* TensorBoard's buckets: limit[i] is the upper limit of bucket i, and limit[i - 1] its lower one. Both arrays take up
 * to 2 * GS_BINS numbers; returns how many there are. */
size_t gs_histogram_buckets(const gs_histogram *, double *limit, double *bucket);

/* ---- trace.c: trace.json ---- */

gs_status gs_trace_write(const char *path, const gs_worker *rank0, const gs_device_report *devices,
                         const gs_rank_timeline *parts, int workers);
