/* Lesson 11: what to write in lab.c.
 *
 * Tasks 11.1 and 11.2 are the book of an asynchronous server, src/train/strategies/clocks.h:
 *
 *     11.1   gs_clocks_may_go_on   who may begin the next step
 *     11.2   gs_clocks_apply       how stale is each gradient
 *
 * gs_clocks_slowest, the lowest clock, is given. The other two are below:
 *
 *     11.3   epoch_takes           what the bound costs: who waits for whom, and how long
 *     11.4   step_alone            a step of local SGD, as README.md explains it
 */
#pragma once

#include "lab.h"
#include "train/strategies/clocks.h"
#include "train/strategy.h"

/* An epoch in which each worker makes `steps` steps. Workers and steps count from 0: step i of worker r takes
 * takes[r * steps + i] seconds. Messages take no time. */
typedef struct epoch {
    int workers;
    size_t bound, steps; /* bound: K */
    const double *takes;
} epoch;

/* Task 11.3. All begin at 0. Each begins its next step as soon as the rule of 11.1 allows it. done[r * steps + i] = the
 * moment at which worker r has done its step i; there is room for all. Returns the moment at which the last worker has
 * done its last step: then all meet. workers >= 1, steps >= 1. */
double epoch_takes(const epoch *e, double *done);

/* Local SGD between two averages, as one worker sees it. */
typedef struct way {
    double mine, all; /* samples since the last average: of this worker, of all */
} way;

/* Task 11.4. This worker's gradients are the sum over its own `mine` samples of a global batch of `all`; perhaps it
 * has none. Update its weights with their mean: gs_optimizer_update(w->optimizer, samples) divides the gradients by
 * `samples`, which must not be 0. It can fail, and GS_TRY passes that on. Count the samples. Then: *meet is true
 * after every H-th step of the run, and false after the others, whatever it was before; the meeting at the end of
 * an epoch does not change that count. H is w->settings->every, and w->step is the number of steps of the run
 * before this one. */
gs_status step_alone(gs_worker *w, way *since, size_t mine, size_t all, bool *meet);
