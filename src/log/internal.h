/* The parts of a log, only for use in src/log/. Each function fails with GS_E_FILE or GS_E_MEMORY. */
#pragma once

#include <stdio.h>

#include "log/log.h"
#include "train/timeline.h"

/* A number in metrics.jsonl, and the curve that TensorBoard draws from it. */
typedef struct gs_log_number {
    const char *key, *tag; /* NULL: not in metrics.jsonl (key), or no curve (tag) */
    double value;
} gs_log_number;

/* ---- events.c: TensorBoard ---- */

typedef struct gs_events gs_events;

/* "events.out.tfevents.<seconds since 1970>.<host>" in the folder. */
gs_status gs_events_open(const char *folder, gs_events **out);
gs_status gs_events_numbers(gs_events *, uint64_t step, const gs_log_number *, int count);
/* Writes histograms of the weights and, if scale > 0, of the gradients times scale, one per parameter. */
gs_status gs_events_layers(gs_events *, uint64_t step, gs_model *, float scale);
/* Frees it; NULL is allowed. Unless `keep`, the file is removed. */
gs_status gs_events_close(gs_events *, bool keep);

uint32_t gs_crc32c(const void *data, size_t bytes);

enum { GS_BUCKETS = 64 };

/* Buckets of equal width from `min` to `max`; TensorBoard divides them into its own buckets. limit[i] is the upper
 * limit of bucket i, and limit[i - 1] its lower one. */
typedef struct gs_histogram {
    double min, max, num, sum, sum_squares; /* over the finite values */
    double limit[GS_BUCKETS], bucket[GS_BUCKETS];
    size_t buckets; /* fewer than the maximum if all values are equal */
} gs_histogram;

/* The histogram of x[i] * scale for i < count. */
void gs_histogram_of(gs_histogram *, const float *x, size_t count, float scale);

/* ---- trace.c: trace.json ---- */

/* Writes parts[rank], recorded by a run with settings->record. */
gs_status gs_trace_write(const char *path, const gs_worker *rank0, const gs_rank_timeline *parts);
