/* Lesson 14: batch normalisation over workers. tasks.h and README.md say what to write.
 *
 * This file and given.c replace the library's layer batch_norm, and its cut of a batch into ghost batches:
 * `build/lessons/14/gradsum train --model resnet20 --data colour-fashion-small` normalises with these functions. */
#include "tasks.h"

#include <math.h>

/* ---- colours ---- */

gs_status colour_scaling(gs_comm *c, const uint8_t *images, size_t n, size_t plane, double mean[COLOURS],
                         double deviation[COLOURS]) {
    double numbers[1 + 2 * COLOURS] = {0}; /* bytes per colour; sums of x; sums of x^2 */
    /* task 14.1: sum over this worker's images, then over all workers; then divide. Sums of whole bytes are exact in
     * double, so divide by 255 at the end. */
    (void)c, (void)images, (void)n, (void)plane, (void)mean, (void)deviation, (void)numbers;
    return lab_blank("14.1");
    /* end of task 14.1 */
}

/* ---- forward: statistics of all workers ---- */

gs_status shared_statistics(gs_comm *c, double mine, size_t channels, float *mean, float *var, double *all,
                            double *numbers) {
    double *sum = numbers + 1, *squares = sum + channels;
    /* task 14.2: counts, sums and sums of squares can be added. Compute them from mine, mean and var, in double; sum
     * them over the workers; compute mean and var from the result. */
    (void)c, (void)mine, (void)channels, (void)mean, (void)var, (void)all, (void)sum, (void)squares;
    return lab_blank("14.2");
    /* end of task 14.2 */
}

/* ---- backward: the second sum ---- */

/* Given: the channel and the u of number j of x, dy and dx. */
static inline size_t channel_of(const norm *b, size_t j) {
    return j / b->plane % b->channels;
}

static inline double deviation_of(const norm *b, size_t k) {
    return sqrt((double)b->var[k] + (double)b->eps);
}

static inline double u_of(const norm *b, size_t j) {
    size_t k = channel_of(b, j);
    return ((double)b->x[j] - (double)b->mean[k]) / deviation_of(b, k);
}

gs_status shared_backward(gs_comm *c, const norm *b, float *dx, float *dweight, float *dbias,
                          double *numbers) {
    double *sum_dy = numbers, *sum_dyu = numbers + b->channels;
    size_t count = b->n * b->channels * b->plane;
    /* task 14.3: both sums of each channel over this worker's numbers, for dbias and dweight. Then the sums over all
     * workers, and dx. `numbers` holds anything at first. */
    (void)c, (void)dx, (void)dweight, (void)dbias, (void)sum_dy, (void)sum_dyu, (void)count;
    (void)u_of;
    return lab_blank("14.3");
    /* end of task 14.3 */
}

/* ---- for evaluation ---- */

void running_part(const group *g, size_t channels, const float *mean, const float *var,
                  const float *running_mean, const float *running_var, float momentum, float *next_mean,
                  float *next_var, bool first) {
    /* task 14.4: var was divided by `numbers`; the unbiased variance divides by one less. How much does a group of 3
     * samples weigh beside one of 5? */
    (void)g, (void)channels, (void)mean, (void)var, (void)running_mean, (void)running_var, (void)momentum;
    (void)next_mean, (void)next_var, (void)first;
    lab_blank("14.4");
    /* end of task 14.4 */
}

/* ---- ghost batches ---- */

gs_shard gs_schedule_cut(size_t total, int i, int n, size_t together) {
    /* task 14.5: distribute ghost batches instead of samples, as evenly as gs_shard_of does. Where does a worker's
     * first ghost batch begin, where does its last one end? */
    (void)together;
    lab_blank("14.5");
    return gs_shard_of(total, i, n);
    /* end of task 14.5 */
}
