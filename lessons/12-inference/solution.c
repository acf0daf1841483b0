/* Lab 12: inference. See README.md, and tasks.h for what each function must do. */
#include "tasks.h"

#include <math.h>
#include <string.h>
#include "lab.h"

void lab_divide(size_t requests, int workers, const double *speed, size_t *count) {
    /* task 12.1: assign the requests one by one. Which worker would finish one more request first? */
    for (int r = 0; r < workers; r++) count[r] = 0;
    for (size_t i = 0; i < requests; i++) {
        int first = 0;
        for (int r = 1; r < workers; r++)
            if ((double)(count[r] + 1) / speed[r] < (double)(count[first] + 1) / speed[first]) first = r;
        count[first]++;
    }
    /* end of task 12.1 */
}

size_t lab_gather(int workers, const lab_answers *from, size_t requests, size_t width, float *out,
                  unsigned char *seen) {
    /* task 12.2: the number of its request says where an answer goes. Mark the answered requests; count the others. */
    memset(seen, 0, requests);
    for (int r = 0; r < workers; r++)
        for (size_t i = 0; i < from[r].count; i++) {
            size_t q = from[r].request[i];
            if (q >= requests) continue;
            memcpy(out + q * width, from[r].answer + i * width, width * sizeof *out);
            seen[q] = 1;
        }
    size_t missing = 0;
    for (size_t q = 0; q < requests; q++) missing += !seen[q];
    return missing;
    /* end of task 12.2 */
}

size_t lab_best_batch(size_t rows, const lab_timing *table, double bound) {
    /* task 12.3: among the rows within the bound, the highest batch / ms. */
    size_t best = 0;
    double rate = 0;
    for (size_t i = 0; i < rows; i++) {
        double here = (double)table[i].batch / table[i].ms;
        if (table[i].ms > bound || here < rate || (here == rate && table[i].batch > best)) continue;
        best = table[i].batch;
        rate = here;
    }
    return best;
    /* end of task 12.3 */
}

void lab_serve(const lab_server *s, size_t requests, const double *arrival, double *done) {
    /* task 12.4: batch by batch. Let request i be the oldest that waits. When are `most` waiting (if ever)? When has i
     * waited long enough? When is the worker free? These three times decide when the batch begins, and the beginning
     * decides which requests are in it. */
    double is_free = 0;
    for (size_t i = 0; i < requests;) {
        double full = i + s->most <= requests ? arrival[i + s->most - 1] : INFINITY;
        double begin = fmax(is_free, fmin(full, arrival[i] + s->wait));
        size_t n = 0;
        while (n < s->most && i + n < requests && arrival[i + n] <= begin) n++;
        is_free = begin + s->fixed + s->each * (double)n;
        for (; n > 0; n--) done[i++] = is_free;
    }
    /* end of task 12.4 */
}
