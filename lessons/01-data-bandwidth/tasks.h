/* Lesson 1: the functions that you write in lab.c, and what they must do.
 *
 * In all of them
 *
 *     loader    samples a second that one disk (or network) can bring; INFINITY: they are in memory already
 *     step      samples a second that one worker can compute, when it never has to wait for data
 *
 * and both are above 0. A worker computes while the next samples are being loaded. Long runs are meant: what happens
 * once at the beginning does not count.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Task 1.1. One worker and its disk, both at once: returns the samples a second of the run. *waits = the share of the
 * time, 0 .. 1, that the worker waits for data. */
double lab_together(double loader, double step, double *waits);

/* Task 1.2. Amdahl's law. Of the time that one worker takes, the share `serial` (0 .. 1) cannot be divided; the rest is
 * divided evenly among `workers`. Returns how many times as fast as one worker they are. */
double lab_amdahl(double serial, int workers);

/* Task 1.3. How many times as fast as one worker `workers` of them are, when nothing but data is in their way.
 * shared false: each has a disk of its own, which brings `loader`. shared true: all of them together have one such
 * disk. */
double lab_speed_up(double loader, double step, int workers, bool shared);

/* Task 1.4. The smallest number of workers at which some have to wait for data; 0 if there is no such number. Where the
 * disk brings exactly what the workers compute, nobody has to wait. */
int lab_data_bound_from(double loader, double step, bool shared);

/* Task 1.5. Data is no trouble now, but at the end of each step several workers sum their gradients, which takes
 * sum_seconds; one worker alone has nothing to sum. A global batch of B samples is cut into `workers` parts as equal as
 * they can be (5 samples for 2 workers: 3 and 2), and a step lasts until the worker with the longest part is done and
 * the sum is made. Returns the smallest B for which a step of `workers` takes LESS time than a step of one; 0 if there
 * is no such B. */
size_t lab_crossover(double step, int workers, double sum_seconds);
