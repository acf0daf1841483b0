/* What all seeds of one batch gave together: the medians, and how far apart the seeds lie.
 *
 * A run that never reached the target needs, for a median, more steps than any other. So the median of 5 seeds is
 * "never" where 3 of them never reached it; a median of the others alone would praise the batch that fails most.
 */
#pragma once

#include "train/sweep/sweep.h"

/* The median of an even number lies half-way between the two in the middle. */
typedef struct gs_spread {
    double least, most; /* of the finite values; NaN where there is none */
    double median;      /* of all; infinite: never */
} gs_spread;

typedef struct gs_sweep_line {
    size_t batch;
    gs_lr_course rates;
    int runs; /* that were whole; the other fields are of those */
    int reached, diverged;
    gs_spread steps, epochs, seconds; /* to the target */
    gs_spread accuracy;               /* on the test set, at the end: 0 .. 1 */
    gs_spread samples_per_s;
    /* The run with the median steps, or the next faster one; NULL: no run was whole. */
    const gs_sweep_run *middle;
} gs_sweep_line;

/* Of sweep->batch[i]. */
gs_sweep_line gs_sweep_line_of(const gs_sweep *, int i);

/* Of `count` numbers, one of them at least and GS_SWEEP_MOST at most; NaN counts as infinite. */
gs_spread gs_spread_of(const double *values, int count);
