/* Lesson 12: the functions of lab.c. Times are in ms, rates in requests per ms. */
#pragma once

#include <stddef.h>

/* Task 12.1. `requests` requests wait; worker r answers speed[r] > 0 of them per ms, and all workers begin together.
 * Set count[r], the requests of worker r, so that the last answer arrives as early as possible:
 *
 *     the largest of count[r] / speed[r] is as small as possible, and the counts add up to `requests`
 *
 * If several divisions are equally good, any of them is right. */
void lab_divide(size_t requests, int workers, const double *speed, size_t *count);

/* The answers of one worker: request[i] is the number of a request, and answer[i * width .. (i + 1) * width - 1] is the
 * answer to it. */
typedef struct lab_answers {
    size_t count;
    const size_t *request;
    const float *answer;
} lab_answers;

/* Task 12.2. The answers of all workers, in the order of the requests: out[q * width ..] is the answer to request q.
 * Workers may answer in any order, but no request has two answers. Returns how many of the requests 0 .. requests-1
 * have no answer; leave their part of `out` unchanged. Drop an answer whose request number is not below `requests`.
 * `seen` has room for `requests` marks and holds anything at first. */
size_t lab_gather(int workers, const lab_answers *from, size_t requests, size_t width, float *out,
                  unsigned char *seen);

/* A batch of this many requests takes this long. */
typedef struct lab_timing {
    size_t batch;
    double ms;
} lab_timing;

/* Task 12.3. Of these measured sizes, the one that answers most requests per ms, if no batch may take more than `bound`
 * ms; of equals, the smallest. 0: no size is fast enough. */
size_t lab_best_batch(size_t rows, const lab_timing *table, double bound);

/* How a server collects requests. A batch of b takes fixed + each b. */
typedef struct lab_server {
    size_t most;  /* requests in a batch, >= 1 */
    double wait;  /* ms that the oldest request may wait for others */
    double fixed; /* ms */
    double each;  /* ms */
} lab_server;

/* Task 12.4. One worker with a queue. Request i arrives at arrival[i] (in order); set done[i], the time of its answer.
 *
 *     A batch begins as soon as the worker is free, and
 *         either `most` requests are waiting, or the oldest of them has waited `wait` ms.
 *     The batch takes the oldest waiting requests, at most `most`; a request that arrives at the moment when the batch
 *     begins is part of it.
 *     All its answers are ready when the batch ends. */
void lab_serve(const lab_server *, size_t requests, const double *arrival, double *done);
