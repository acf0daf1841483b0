/* Lesson 11: what to write in lab.c.
 *
 * Tasks 11.1 and 11.2 are the book of an asynchronous server, src/train/ways/clocks.h:
 *
 *     11.1   gs_clocks_may_go_on   who may begin the next step
 *     11.2   gs_clocks_apply       how stale is each gradient
 *
 * gs_clocks_slowest, the lowest clock, is given.
 *
 * Tasks 11.3 and 11.4 are local SGD, as README.md explains it:
 *
 *     11.3   weighted_average      below
 *     11.4   step_alone            below
 */
#pragma once

#include "lab.h"
#include "train/ways/clocks.h"
#include "train/internal.h"

/* Task 11.3. x[i] = sum over workers of (mine / all) x[i], on every worker: the average of what the workers have,
 * weighted by the samples that each has seen. `mine` are this worker's, perhaps 0; `all` those of all together, which
 * are more than 0. gs_sync_run(s, x, count) sums x over the workers; for the rest this worker's x is enough. */
gs_status weighted_average(gs_sync *s, float *x, size_t count, double mine, double all);

/* Local SGD between two averages, as one worker sees it. */
typedef struct way {
    double mine, all; /* samples since the last average: of this worker, of all */
} way;

/* Task 11.4. This worker's gradients are the sum over its own `mine` samples of a global batch of `all`; perhaps it
 * has none. Update its weights with their mean: gs_optimizer_update(w->optimizer, samples) divides the gradients by
 * `samples`, which must not be 0. Count the samples. Then: *meet is true after every H-th step of the run; the meeting
 * at the end of an epoch does not change that count. H is w->settings->every, and w->step is the number of steps of the
 * run before this one. */
gs_status step_alone(gs_worker *w, way *since, size_t mine, size_t all, bool *meet);
