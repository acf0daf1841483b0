/* Lab 1: what limits a run, and when more workers help. See README.md, and tasks.h for what each function must do. */
#include "tasks.h"

#include <math.h>
#include "lab.h"

double lab_together(double loader, double step, double *waits) {
    /* task 1.1: both happen at the same time, and the slower one sets the pace. Set *waits, return samples/s. */
    double rate = loader < step ? loader : step;
    *waits = 1 - rate / step; /* of each second it computes rate / step */
    return rate;
    /* end of task 1.1 */
}

double lab_amdahl(double serial, int workers) {
    /* task 1.2: one worker takes time 1. Return 1 divided by the time of `workers`. */
    return 1 / (serial + (1 - serial) / workers);
    /* end of task 1.2 */
}

double lab_speed_up(double loader, double step, int workers, bool shared) {
    /* task 1.3: the samples/s of `workers`, divided by those of one worker. */
    double one = fmin(loader, step);
    double all = shared ? fmin(loader, workers * step) : workers * one;
    return all / one;
    /* end of task 1.3 */
}

int lab_data_bound_from(double loader, double step, bool shared) {
    /* task 1.4: find the smallest number of workers that need MORE than the disk supplies. Think of a disk that is
     * too slow for one worker, of one that is never too slow, and of one that supplies exactly enough for 4. */
    if (loader < step) return 1;
    if (!shared || isinf(loader)) return 0;
    return (int)floor(loader / step) + 1;
    /* end of task 1.4 */
}

size_t lab_crossover(double step, int workers, double sum_seconds) {
    /* task 1.5: write the time of a step of one worker and of `workers`, for a batch of B; then find the smallest
     * B. It may be in the millions. */
    if (workers < 2) return 0;
    size_t n = (size_t)workers, batch = 1;
    while (!((double)((batch + n - 1) / n) / step + sum_seconds < (double)batch / step)) batch++;
    return batch;
    /* end of task 1.5 */
}
