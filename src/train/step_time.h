/* How long a step takes, from the end of one to the end of the next: the median of the last GS_STEP_TIMES of them.
 *
 * What else runs on a machine makes single steps slower, never faster; the mean has all of them in it, and the first steps
 * after a pause too. The median has not, as long as most steps are left alone, which is why benchmarks of training steps
 * usually give it.
 */
#ifndef GS_TRAIN_STEP_TIME_H
#define GS_TRAIN_STEP_TIME_H

#include <stdbool.h>
#include <stdint.h>

enum { GS_STEP_TIMES = 1024 };

/* All zero: no step yet. */
typedef struct gs_step_times {
    double since;                 /* when the step that runs began */
    uint64_t steps;               /* how many were taken down */
    float seconds[GS_STEP_TIMES]; /* of step i at i mod GS_STEP_TIMES */
} gs_step_times;

/* The next step begins `now`: training begins, or goes on after a pause. */
void gs_step_times_begin(gs_step_times *, double now);

/* A step has ended `now`, and the next one begins. counts: take it down (a batch with fewer samples is another kind of
 * step). */
void gs_step_times_ended(gs_step_times *, double now, bool counts);

/* Seconds; of an even number the lower one in the middle. 0: there was no step. */
double gs_step_times_median(const gs_step_times *);

#endif
