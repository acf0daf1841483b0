/* How long a step takes, from the end of one to the end of the next: the median of the last GS_STEP_TIMES of them.
 *
 * Other load on a machine makes single steps slower, never faster. The mean includes all such steps, and the first
 * steps after a pause. The median does not, as long as most steps are undisturbed, which is why benchmarks of training
 * steps usually report it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { GS_STEP_TIMES = 1024 };

/* All zero: no step yet. */
typedef struct gs_step_times {
    double
        since; /* when the step that runs began: to be set where training begins, or goes on after a pause */
    uint64_t steps;               /* how many were recorded */
    float seconds[GS_STEP_TIMES]; /* of step i at i mod GS_STEP_TIMES */
} gs_step_times;

/* A step has ended `now`, and the next one begins. counts: record it (a batch with fewer samples is another kind of
 * step). */
void gs_step_times_ended(gs_step_times *, double now, bool counts);

/* Seconds; for an even number of steps, the lower of the two in the middle. 0: there was no step. */
double gs_step_times_median(const gs_step_times *);
