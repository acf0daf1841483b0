/* Where the time of training goes: `gradsum profile`.
 *
 * 1. The loader alone, the training step alone (the same samples again and again), and both together: which of the two
 *    bounds a run.
 * 2. Each layer's forward and backward: its time, and how far that is from the least that the device could need
 *    (roofline.h). To separate the layers, we wait for the device after each. On OpenCL that takes time that
 *    a real step does not lose, so the rows add up to more than the step alone.
 *
 * 3. If asked for, the same layers by the plain loops of cpu/plain/plain.h, on one core: how much was gained over them.
 *
 * Nothing is learned meanwhile: the learning rate is 0. (With the same batch again and again, gradients would become so
 * small that a CPU computes slowly with them.)
 */
#pragma once

#include "layer/watch.h"
#include "train/profile/roofline.h"
#include "train/train.h"

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
