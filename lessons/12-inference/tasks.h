/* Lesson 12: the functions of lab.c. Times are in ms, rates in requests per ms. */
#pragma once

#include <stddef.h>

/* Task 12.1. `requests` requests are there at once; worker r answers speed[r] > 0 of them in a ms, and all begin
 * together. Write into count[r] how many it gets, so that the last answer comes as early as possible:
 *
 *     the largest of count[r] / speed[r] is as small as it can be, and the counts add up to `requests`
 *
 * Where several divisions are equally good, any of them is right. */
void lab_divide(size_t requests, int workers, const double *speed, size_t *count);

/* What one worker has answered: request[i] is the number of a request, and its answer are the `width` floats from
 * answer[i * width] on. */
typedef struct lab_answers {
    size_t count;
    const size_t *request;
    const float *answer;
} lab_answers;

/* Task 12.2. The answers of all workers, in the order of the requests: out[q * width ..] is that of request q. Workers
 * may have had their requests in any order, but no request has two answers. Returns how many of the requests 0 ..
 * requests-1 have no answer; their place in `out` stays as it is. The answer to a request that was never made (a number
 * that is not below `requests`) is dropped. `seen` has room for `requests` marks, to work with; what is in it before
 * does not matter. */
size_t lab_gather(int workers, const lab_answers *from, size_t requests, size_t width, float *out,
                  unsigned char *seen);

/* A batch of this many requests takes this long. */
typedef struct lab_timing {
    size_t batch;
    double ms;
} lab_timing;

/* Task 12.3. Which of these measured sizes gives most requests per ms, if no batch may take more than `bound` ms?
 * Of several that give as many, the smallest. 0: none of them is fast enough. */
size_t lab_best_batch(size_t rows, const lab_timing *table, double bound);

/* How a server collects requests. A batch of b takes fixed + each b. */
typedef struct lab_server {
    size_t most;  /* requests in a batch, >= 1 */
    double wait;  /* ms that the oldest request may wait for others */
    double fixed; /* ms */
    double each;  /* ms */
} lab_server;

/* Task 12.4. One worker with a queue. Request i comes at arrival[i] (they are in order) and its answer is there at
 * done[i].
 *
 *     A batch begins as soon as the worker is free, and
 *         either `most` requests are waiting, or the oldest of them has waited `wait` ms.
 *     It takes the oldest that are waiting, at most `most`; a request that comes at the very moment when the batch
 *     begins is part of it.
 *     All its answers are there when it ends. */
void lab_serve(const lab_server *, size_t requests, const double *arrival, double *done);
