/* Where the time of training goes: `gradsum profile`.
 *
 * 1. The loader alone, the training step alone (the same samples again and again), and both together: which of the two
 *    bounds a run.
 * 2. Each layer's forward and backward: its time, and how far that is from the least that the device could need
 *    (the roofline). To separate the layers, we wait for the device after each. On OpenCL that takes time that
 *    a real step does not lose, so the rows add up to more than the step alone.
 *
 * 3. If asked for, the same layers by the plain loops of cpu/plain/plain.h, on one core: how much was gained over them.
 *
 * Nothing is learned meanwhile: the learning rate is 0. (With the same batch again and again, gradients would become so
 * small that a CPU computes slowly with them.)
 */
#pragma once

#include "layer/watch.h"
#include "train/train.h"

/* ---- the roofline ---- */

/* What a device can do at most, measured on the spot, and what follows from it for a piece of work.
 *
 * Work that needs some floating-point operations and moves some bytes takes at least
 *
 *     max(flops / (most FLOP/s), bytes / (most bytes/s))
 *
 * Which of the two is larger says what bounds it: the units that compute, or the memory. Caches are faster than memory,
 * so the bandwidth is measured for several sizes, and work is compared with what moves as many bytes.
 *
 * Source: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model for multicore architectures"
 * (CACM 52, 2009).
 */
enum { GS_ROOFLINE_SIZES = 4 };

typedef struct gs_roofline {
    double flops; /* a second, by an FMA loop on all cores */
    /* By a triad that moves bytes[i] bytes, increasing, in all: rate[i] bytes a second, never increasing. */
    double bytes[GS_ROOFLINE_SIZES], rate[GS_ROOFLINE_SIZES];
} gs_roofline;

/* Measure, for about `seconds` (a device that is slow may take longer). */
gs_status gs_roofline_measure(gs_device *, double seconds, gs_roofline *out);

/* Bytes per second for work that moves `bytes` bytes. Between two measured sizes it lies on the line between them, over
 * the logarithm of the size; beyond the ends it is that of the end. */
double gs_roofline_rate(const gs_roofline *, double bytes);

/* The seconds that such work takes at least. */
double gs_roofline_seconds(const gs_roofline *, double flops, double bytes);

/* ---- a profile ---- */

/* What one direction of a layer does in a step, over all its micro-batches. */
typedef struct gs_profile_cell {
    double seconds, flops;
    double bytes; /* that must at least be moved: each operand once */
    double least; /* seconds by the roofline */
} gs_profile_cell;

/* A layer; or "data" (bytes to the device, bytes to numbers), "loss", "update". */
typedef struct gs_profile_row {
    char name[48], what[96];
    gs_profile_cell cell[GS_DIRECTIONS];
    /* Seconds of the plain loops, with those of the layers that this one does too. */
    double plain[GS_DIRECTIONS];
} gs_profile_row;

typedef struct gs_profile {
    char model[64], device[216]; /* the model's name or the beginning of its text; the device's description */
    size_t params, batch;
    double sample_bytes;
    gs_precision precision; /* of the products; the roofline is that of f32 */
    double throttle;        /* bytes/s of the loader, 0: none */
    gs_roofline roofline;
    double loader, step, together; /* samples/s */
    char busy[200];                /* as in gs_result */
    double waited;                 /* together: share of the time that the step waited for the loader */
    gs_profile_row *rows;
    int row_count;
} gs_profile;

/* Profile settings->model on settings->data and the one device that settings->devices names. Each measurement takes
 * about `seconds`. Uses batch, threads, loss, augment, throttle, seed, accumulate of the settings. */
gs_status gs_profile_run(const gs_settings *, double seconds, gs_profile *out);
void gs_profile_free(gs_profile *);

/* Measure the same layers by the plain loops, with one thread of the cpu, into the rows' `plain`. The settings are
 * those of gs_profile_run, which comes first. Takes about `seconds`, but at least three steps, which may be minutes. To
 * be called where gs_backend_replace may be. */
gs_status gs_profile_plain(const gs_settings *, double seconds, gs_profile *);

/* The sentences that loader, step and sample_bytes imply; in lines of at most 80 columns (profile_verdict.c). */
void gs_profile_verdict(const gs_profile *, char *text, size_t size);

/* The sum of all rows, both directions in cell[GS_FORWARD]. */
gs_profile_cell gs_profile_total(const gs_profile *);
