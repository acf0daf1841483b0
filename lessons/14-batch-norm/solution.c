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
    numbers[0] = (double)(n * plane);
    for (size_t i = 0; i < n * COLOURS * plane; i++) {
        size_t k = i / plane % COLOURS;
        numbers[1 + k] += images[i];
        numbers[1 + COLOURS + k] += (double)images[i] * images[i];
    }
    GS_TRY(gs_comm_all_reduce(c, numbers, 1 + 2 * COLOURS, GS_F64, GS_SUM));
    for (size_t k = 0; k < COLOURS; k++) {
        double m = numbers[1 + k] / numbers[0], var = numbers[1 + COLOURS + k] / numbers[0] - m * m;
        mean[k] = m / 255;
        deviation[k] = var > 0 ? sqrt(var) / 255 : 1;
    }
    return GS_OK;
    /* end of task 14.1 */
}

/* ---- forward: statistics of all workers ---- */

gs_status shared_statistics(gs_comm *c, double mine, size_t channels, float *mean, float *var, double *all,
                            double *numbers) {
    double *sum = numbers + 1, *squares = sum + channels;
    /* task 14.2: counts, sums and sums of squares can be added. Compute them from mine, mean and var, in double; sum
     * them over the workers; compute mean and var from the result. */
    numbers[0] = mine;
    for (size_t k = 0; k < channels; k++) {
        double m = (double)mean[k];
        sum[k] = mine * m;
        squares[k] = mine * ((double)var[k] + m * m);
    }
    GS_TRY(gs_comm_all_reduce(c, numbers, 1 + 2 * channels, GS_F64, GS_SUM));
    *all = numbers[0];
    for (size_t k = 0; k < channels; k++) {
        double m = sum[k] / *all;
        mean[k] = (float)m;
        var[k] = (float)fmax(squares[k] / *all - m * m, 0);
    }
    return GS_OK;
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
    for (size_t k = 0; k < 2 * b->channels; k++) numbers[k] = 0;
    for (size_t j = 0; j < count; j++) {
        sum_dy[channel_of(b, j)] += (double)b->dy[j];
        sum_dyu[channel_of(b, j)] += (double)b->dy[j] * u_of(b, j);
    }
    for (size_t k = 0; k < b->channels; k++) {
        dbias[k] += (float)sum_dy[k];
        dweight[k] += (float)sum_dyu[k];
    }
    GS_TRY(gs_comm_all_reduce(c, numbers, 2 * b->channels, GS_F64, GS_SUM));
    for (size_t j = 0; j < count; j++) {
        size_t k = channel_of(b, j);
        double common = (sum_dy[k] + u_of(b, j) * sum_dyu[k]) / b->all;
        dx[j] = (float)((double)b->weight[k] / deviation_of(b, k) * ((double)b->dy[j] - common));
    }
    return GS_OK;
    /* end of task 14.3 */
}

/* ---- for evaluation ---- */

void running_part(const group *g, size_t channels, const float *mean, const float *var,
                  const float *running_mean, const float *running_var, float momentum, float *next_mean,
                  float *next_var, bool first) {
    /* task 14.4: var was divided by `numbers`; the unbiased variance divides by one less. How much does a group of 3
     * samples weigh beside one of 5? */
    float samples = (float)g->samples;
    for (size_t k = 0; k < channels; k++) {
        float unbiased = running_var[k];
        if (g->numbers > 1) unbiased = (float)((double)var[k] * g->numbers / (g->numbers - 1));
        float m = samples * ((1 - momentum) * running_mean[k] + momentum * mean[k]);
        float v = samples * ((1 - momentum) * running_var[k] + momentum * unbiased);
        next_mean[k] = first ? m : next_mean[k] + m;
        next_var[k] = first ? v : next_var[k] + v;
    }
    /* end of task 14.4 */
}

/* ---- ghost batches ---- */

gs_shard gs_schedule_cut(size_t total, int i, int n, size_t together) {
    /* task 14.5: distribute ghost batches instead of samples, as evenly as gs_shard_of does. Where does a worker's
     * first ghost batch begin, where does its last one end? */
    if (together < 1) together = 1;
    gs_shard ghosts = gs_shard_of((total + together - 1) / together, i, n);
    size_t first = ghosts.first * together, end = first + ghosts.count * together;
    if (end > total) end = total;
    if (first > end) first = end;
    return (gs_shard){first, end - first};
    /* end of task 14.5 */
}
