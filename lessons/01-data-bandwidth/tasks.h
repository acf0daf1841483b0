/* Lesson 1: the functions that you write in lab.c, and what they must do.
 *
 * In all of them
 *
 *     loader    samples/s that one disk (or network) supplies; INFINITY: they are in memory already
 *     step      samples/s that one worker computes while it never waits for data
 *
 * Both are above 0. A worker computes while it loads the next samples. Runs are long: ignore their start.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Task 1.1. One worker and its disk, both at once: returns the samples/s of the run. *waits = the share of the time,
 * 0 .. 1, in which the worker waits for data. */
double lab_together(double loader, double step, double *waits);

/* Task 1.2. Amdahl's law. The share `serial` (0 .. 1) of one worker's time cannot be divided; the rest is divided
 * evenly among `workers`. Returns how many times as fast as one worker they are. */
double lab_amdahl(double serial, int workers);

/* Task 1.3. How many times as fast as one worker `workers` of them are, if only loading limits them. shared false: each
 * has its own disk, which supplies `loader`. shared true: all of them share one such disk. */
double lab_speed_up(double loader, double step, int workers, bool shared);

/* Task 1.4. The smallest number of workers at which some wait for data; 0 if there is no such number. If the disk
 * supplies exactly what the workers compute, none waits. */
int lab_data_bound_from(double loader, double step, bool shared);

/* Task 1.5. Loading is fast enough, but at the end of each step several workers sum their gradients, which takes
 * sum_seconds; a single worker has nothing to sum. A global batch of B samples is cut into `workers` parts that are as
 * equal as possible (5 samples for 2 workers: 3 and 2). A step ends when the worker with the largest part has finished
 * and the sum is complete. Returns the smallest B for which a step of `workers` takes LESS time than a step of one; 0
 * if there is no such B. */
size_t lab_crossover(double step, int workers, double sum_seconds);
