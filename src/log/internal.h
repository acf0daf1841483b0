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

enum { GS_BUCKETS = 64 };

/* Buckets of equal width from `min` to `max`; TensorBoard divides them again into its own. limit[i] is the upper limit of
 * bucket i, and limit[i - 1] its lower one. */
typedef struct gs_histogram {
    double min, max, num, sum, sum_squares; /* of the finite values */
    double limit[GS_BUCKETS], bucket[GS_BUCKETS];
    size_t buckets; /* fewer if all values are equal */
} gs_histogram;

/* Of x[i] * scale, i < count. */
void gs_histogram_of(gs_histogram *, const float *x, size_t count, float scale);

/* ---- trace.c: trace.json ---- */

gs_status gs_trace_write(const char *path, const gs_worker *rank0, const gs_device_report *devices,
                         const gs_rank_timeline *parts, int workers);
