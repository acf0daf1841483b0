/* The tasks of lesson 11, for lab.c. 11.1 and 11.2 are the clocks of an asynchronous server,
 * src/train/strategies/clocks.h; gs_clocks_slowest, the lowest clock, is given.
 *
 *     11.1   gs_clocks_may_go_on   which worker may begin its next step
 *     11.2   gs_clocks_apply       how stale each gradient is
 *     11.3   epoch_takes           what the bound costs: which worker waits, and how long
 *     11.4   step_alone            a step of local SGD, as in README.md
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

/* Task 11.3. All workers begin at time 0. Each begins its next step as soon as the rule of 11.1 allows it.
 * done[r * steps + i] = the time when worker r ends its step i. Returns the time when the last worker ends its last
 * step: then all meet. workers >= 1, steps >= 1. */
double epoch_takes(const epoch *e, double *done);

/* Local SGD between two averages, for one worker. */
typedef struct way {
    double mine, all; /* samples since the last average: of this worker, of all */
} way;

/* Task 11.4. This worker's gradients are the sum over its own `mine` samples, maybe none, of a global batch of `all`.
 * Update its weights with the mean: gs_optimizer_update(w->optimizer, samples) divides the gradients by `samples`,
 * which must not be 0. The call can fail; GS_TRY passes the failure on. Count the samples. Set *meet: true after every
 * H-th step of the run, false after other steps; the meeting at the end of an epoch does not change that count. H is
 * w->settings->every, and w->step is the number of steps of the run before this one. */
gs_status step_alone(gs_worker *w, way *since, size_t mine, size_t all, bool *meet);
