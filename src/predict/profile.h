/* Where the time of training goes: `gradsum profile`.
 *
 * 1. The loader alone, the training step alone (with the same samples repeatedly), and both together: which of the two
 *    bounds a run.
 * 2. Each layer's forward and backward: its time, and how far that is from the device's minimum (the roofline). To
 *    separate the layers, we wait for the device after each one. On OpenCL a real step does not lose this time, so the
 *    rows add up to more than the step alone.
 * 3. On request, the same layers by the plain loops of cpu/plain/plain.h, on one core: how much was gained over them.
 *
 * The learning rate is 0. Learning the same batch repeatedly would make gradients so small that a CPU slows down.
 */
#pragma once

#include "layer/watch.h"
#include "train/train.h"

/* ---- the roofline ---- */

/* The peak of a device, measured here, and the least time that it allows for some work:
 *
 *     max(flops / (peak FLOP/s), bytes / (peak bytes/s))
 *
 * The larger of the two names the bound: arithmetic or memory. Caches are faster than memory, so the bandwidth is
 * measured for several sizes, and work is compared with the size that it moves.
 *
 * Source: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model for multicore architectures"
 * (CACM 52, 2009).
 */
enum { GS_ROOFLINE_SIZES = 4 };

typedef struct gs_roofline {
    double flops; /* per second, by an FMA loop on all cores */
    /* A triad moves bytes[i] bytes (ascending) at rate[i] bytes per second (never ascending). */
    double bytes[GS_ROOFLINE_SIZES], rate[GS_ROOFLINE_SIZES];
} gs_roofline;

/* Measure for about `seconds`; a slow device may take longer. */
gs_status gs_roofline_measure(gs_device *, double seconds, gs_roofline *out);

/* Bytes per second for work that moves `bytes` bytes: interpolated between measured sizes, linearly over the logarithm
 * of the size; beyond the ends, the rate of the end. */
double gs_roofline_rate(const gs_roofline *, double bytes);

/* Minimum seconds for this work. */
double gs_roofline_seconds(const gs_roofline *, double flops, double bytes);

/* ---- a profile ---- */

/* One direction of a layer in a step, over all micro-batches. */
typedef struct gs_profile_cell {
    double seconds, flops;
    double bytes; /* the least that must be moved: each operand once */
    double least; /* seconds by the roofline */
} gs_profile_cell;

/* A layer; or "data" (bytes to the device, bytes to numbers), "loss", "update". */
typedef struct gs_profile_row {
    char name[48], what[96];
    gs_profile_cell cell[GS_DIRECTIONS];
    /* Seconds of the plain loops, including layers that this one computes too. */
    double plain[GS_DIRECTIONS];
} gs_profile_row;

typedef struct gs_profile {
    char model[64], device[216]; /* the model's name or the start of its text; the device's description */
    size_t params, batch;
    double sample_bytes;
    gs_precision precision; /* of the products; the roofline is that of f32 */
    double throttle;        /* bytes/s of the loader, 0: none */
    gs_roofline roofline;
    double loader, step, together; /* samples/s */
    char busy[200];                /* as in gs_result */
    double waited;                 /* together: share of time that the step waited for the loader */
    gs_profile_row *rows;
    int row_count;
} gs_profile;

/* Profile settings->model on settings->data and the one device that settings->devices names. Each measurement takes
 * about `seconds`. Uses batch, threads, loss, augment, throttle, seed, accumulate of the settings. */
gs_status gs_profile_run(const gs_settings *, double seconds, gs_profile *out);
void gs_profile_free(gs_profile *);

/* After gs_profile_run with the same settings: measure the same layers by the plain loops, in one thread of the cpu,
 * into the rows' `plain`. Takes about `seconds`, but at least three steps, which may be minutes. Call it only where
 * gs_backend_replace may be called. */
gs_status gs_profile_plain(const gs_settings *, double seconds, gs_profile *);

/* Sentences on loader, step and sample_bytes, in lines of at most 80 columns (profile_verdict.c). */
void gs_profile_verdict(const gs_profile *, char *text, size_t size);

/* The sum of all rows, both directions in cell[GS_FORWARD]. */
gs_profile_cell gs_profile_total(const gs_profile *);
