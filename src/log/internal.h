/* The parts of a log; only for src/log/. Each fails with GS_E_FILE or GS_E_MEMORY. */
#pragma once

#include <stdio.h>

#include "log/log.h"
#include "train/timeline/timeline.h"

/* ---- run.c: run.json ---- */

typedef struct gs_log_run {
    const gs_log_options *options;
    const gs_worker *rank0;
    const gs_device_report *devices; /* one for each worker */
    int workers;
    int cores;        /* that the process may use: rank 0 itself may be bound to one of them */
    char started[32]; /* "2026-11-21T13:31:56Z" */
} gs_log_run;

typedef struct gs_log_end_of_run {
    const char *why; /* "done", "interrupted", "failed: ..." */
    double seconds, test_accuracy;
    double sent, sent_most; /* as in gs_result */
    uint64_t steps;
    const char *busy;    /* as in gs_result; NULL: it was not */
    const char *problem; /* why the rest of the log ends earlier; NULL: it does not */
} gs_log_end_of_run;

/* Bytes of one worker (rank 0), by what they are for. */
typedef struct gs_log_memory {
    double weights, gradients, optimizer, activations, data, peak_resident;
} gs_log_memory;

gs_log_memory gs_log_memory_of(const gs_worker *);

/* Write or replace it; `end` and `memory` NULL while the run goes. */
gs_status gs_log_write_run(const char *path, const gs_log_run *, char **text);
gs_status gs_log_write_end(const char *path, const char *text, const gs_log_end_of_run *,
                           const gs_log_memory *);

/* ---- metrics.c: metrics.jsonl ---- */

typedef struct gs_log_step {
    uint64_t step;
    int epoch, worker; /* worker: -1, or the one that the numbers are of alone */
    double time, loss, accuracy, lr, samples_per_s;
    double gradient_norm; /* negative: it was not asked for */
    double loss_scale;    /* in f16: of the last step; else 0 */
    uint64_t skipped;     /* then: how many of the line's steps made no update */
    bool has_share;
    double share[GS_PHASES];
} gs_log_step;

gs_status gs_metrics_open(const char *path, FILE **);
gs_status gs_metrics_step(FILE *, const gs_log_step *);
gs_status gs_metrics_worker(FILE *, int epoch, int worker, const gs_worker_report *);
gs_status gs_metrics_epoch(FILE *, double time, const gs_epoch_report *);
gs_status gs_metrics_close(FILE *);

/* ---- events.c: TensorBoard ---- */

typedef struct gs_events gs_events;

/* "events.out.tfevents.<seconds since 1970>.<host>" in the folder. */
gs_status gs_events_open(const char *folder, gs_events **out);
gs_status gs_events_step(gs_events *, const gs_log_step *);
gs_status gs_events_epoch(gs_events *, const gs_epoch_report *);
/* Histograms of weights and, where scale > 0, of gradients times scale, one for each parameter. */
gs_status gs_events_layers(gs_events *, uint64_t step, gs_model *, float scale);
/* Both free it; NULL is allowed. */
gs_status gs_events_close(gs_events *);
void gs_events_discard(gs_events *); /* and the file is removed */

uint32_t gs_crc32c(const void *data, size_t bytes);

/* ---- histogram.c ---- */

enum { GS_BINS = 4096 };

/* Values by sign, exponent and the first three bits after the point: 8 bins from one power of two to the next. */
typedef struct gs_histogram {
    double min, max, num, sum, sum_squares; /* of the finite values */
    uint32_t bin[GS_BINS];
} gs_histogram;

/* Of x[i] * scale, i < count; count < 2^32. */
void gs_histogram_of(gs_histogram *, const float *x, size_t count, float scale);

/* As TensorBoard has it: limit[i] is the upper limit of bucket i, and limit[i - 1] its lower one. Both take up to
 * 2 * GS_BINS numbers; returns how many there are. */
size_t gs_histogram_buckets(const gs_histogram *, double *limit, double *bucket);

/* ---- trace.c: trace.json ---- */

gs_status gs_trace_write(const char *path, const gs_worker *rank0, const gs_device_report *devices,
                         const gs_timeline_part *parts, int workers);
