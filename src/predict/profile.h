/* Where training time goes: `gradsum profile`.
 *
 * 1. The loader alone, the training step alone (repeating the same samples), and both together, to find which of them
 *    bounds a run.
 * 2. Each layer's forward and backward: its time, and how far this is from the device's minimum (the roofline). To
 *    separate the layers, we wait for the device after each one. On OpenCL a real step does not lose this time, so the
 *    rows add up to more than the step alone.
 * 3. On request, the same layers in the plain loops of cpu/plain/plain.h, on one core, to show the speed-up.
 *
 * The learning rate is 0: learning the same batch repeatedly would make gradients so small that a CPU slows down.
 */
#pragma once

#include "layer/watch.h"
#include "train/train.h"

/* ---- the roofline ---- */

/* The measured peak of a device, and the minimum time in which it can do some work:
 *
 *     max(flops / (peak FLOP/s), bytes / (peak bytes/s))
 *
 * The larger term names the bound: arithmetic or memory. Caches are faster than memory, so the bandwidth is measured at
 * several sizes, and work is compared with the bandwidth at the size that it moves.
 *
 * Source: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model for multicore architectures"
 * (CACM 52, 2009).
 */
enum { GS_ROOFLINE_SIZES = 4 };

typedef struct gs_roofline {
    double flops; /* per second, in an FMA loop on all cores */
    /* A triad moves bytes[i] bytes (ascending) at rate[i] bytes per second (never increasing). */
    double bytes[GS_ROOFLINE_SIZES], rate[GS_ROOFLINE_SIZES];
} gs_roofline;

/* Measure for about `seconds`; a slow device may take longer. */
gs_status gs_roofline_measure(gs_device *, double seconds, gs_roofline *out);

/* The bandwidth in bytes per second for work that moves `bytes` bytes, interpolated linearly over the logarithm of the
 * size between measured sizes; outside their range, the bandwidth of the nearest size. */
double gs_roofline_rate(const gs_roofline *, double bytes);

/* Minimum seconds for this work. */
double gs_roofline_seconds(const gs_roofline *, double flops, double bytes);

/* ---- a profile ---- */

/* One layer in one direction, over all micro-batches of a step. */
typedef struct gs_profile_cell {
    double seconds, flops;
    double bytes; /* the least that must be moved: each operand once */
    double least; /* minimum seconds by the roofline */
} gs_profile_cell;

/* A layer; or "data" (copies bytes to the device, and converts them to floats), "loss" or "update". */
typedef struct gs_profile_row {
    char name[48], what[96];
    gs_profile_cell cell[GS_DIRECTIONS];
    /* Seconds in the plain loops, including later layers that this layer computes too. */
    double plain[GS_DIRECTIONS];
} gs_profile_row;

typedef struct gs_profile {
    char model[64], device[216]; /* the model's name or the start of its text; the device's description */
    size_t params, batch;
    double sample_bytes;
    gs_precision precision; /* precision of products; the roofline is for f32 */
    double throttle;        /* bytes/s of the loader; 0: unlimited */
    gs_roofline roofline;
    double loader, step, together; /* samples/s */
    char busy[200];                /* as in gs_result */
    double waited;                 /* both together: fraction of time that the step waited for the loader */
    gs_profile_row *rows;
    int row_count;
} gs_profile;

/* Profile settings->model with settings->data on the single device in settings->devices. Each measurement takes about
 * `seconds`. Uses the settings batch, threads, loss, augment, throttle, seed and accumulate. */
gs_status gs_profile_run(const gs_settings *, double seconds, gs_profile *out);
void gs_profile_free(gs_profile *);

/* After gs_profile_run with the same settings: time the same layers with the plain loops, in one CPU thread, and store
 * the result in the rows' `plain`. Takes about `seconds`, but at least three steps, which may be minutes. Call this
 * only where gs_backend_replace may be called. */
gs_status gs_profile_plain(const gs_settings *, double seconds, gs_profile *);

/* Sentences about loader, step and sample_bytes, in lines of at most 80 columns (profile_verdict.c). */
void gs_profile_verdict(const gs_profile *, char *text, size_t size);

/* The sum of all rows, over both directions. */
gs_profile_cell gs_profile_total(const gs_profile *);
