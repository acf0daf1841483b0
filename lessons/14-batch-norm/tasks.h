/* What lesson 14 asks for, in lab.c: statistics of channels, when N workers have the samples.
 *
 * From src/comm/comm.h you need one call, of which all workers must make the same ones in the same order:
 *
 *     gs_comm_all_reduce(c, numbers, count, GS_F64, GS_SUM)     numbers[i] = the sum of all workers' numbers[i]
 *
 * It can fail: GS_TRY(call) passes its failure on, and so must yours. A worker may have no samples at all. Its numbers
 * are then 0, and it calls nevertheless. Some worker has a sample. */
#pragma once

#include "lab.h"
#include "comm/comm.h"
#include "data/schedule.h"

enum { COLOURS = 3 };

/* Task 14.1. This worker has n images, each of them COLOURS planes of `plane` bytes: all red ones, then all green ones,
 * then all blue ones. A byte stands for the number byte / 255. Afterwards every worker has mean and standard deviation
 * of the numbers of each colour, over the images of all workers: sqrt(mean of x^2 - (mean of x)^2), and 1 where all
 * numbers are equal. One all-reduce. */
gs_status colour_scaling(gs_comm *c, const uint8_t *images, size_t n, size_t plane, double mean[COLOURS],
                         double deviation[COLOURS]);

/* Task 14.2. For each of `channels` channels, mean and var hold what this worker has found over its own `mine` numbers:
 *
 *     mean = sum x / mine        var = sum (x - mean)^2 / mine        (0 and 0, where mine is 0)
 *
 * Afterwards they hold the same over the numbers of all workers, and *all is how many these are. One all-reduce;
 * numbers: room for 1 + 2 channels. */
gs_status shared_statistics(gs_comm *c, double mine, size_t channels, float *mean, float *var, double *all,
                            double *numbers);

/* What backward of a layer batch_norm has on one worker. Its forward was, with mean and var of task 14.2:
 *
 *     y = weight u + bias        u = (x - mean) / sqrt(var + eps) */
typedef struct norm {
    size_t n, channels, plane; /* samples of this worker; x[(i channels + k) plane + p] is one number */
    const float *x, *dy;       /* n x channels x plane */
    const float *weight, *mean, *var; /* of each channel */
    float eps;
    double all; /* numbers of a channel, over all workers */
} norm;

/* Task 14.3. dx = the gradient of x, as if one worker had all samples. u's mean and var depend on every x of a channel,
 * so that
 *
 *     dx = weight / sqrt(var + eps) (dy - sum dy / all - u sum(dy u) / all)        sums over all workers
 *
 * dweight and dbias are added to: this worker's own sum of dy u, and of dy. (They are gradients, and are summed over
 * the workers with all others at the end of the step.) One all-reduce; numbers: room for 2 channels. */
gs_status shared_backward(gs_comm *c, const norm *b, float *dx, float *dweight, float *dbias,
                          double *numbers);

/* Samples that have shared statistics: those of the global batch, of one worker, or a ghost batch. A worker may have a
 * part of them, or none. */
typedef struct group {
    size_t samples; /* those that this worker has */
    double numbers; /* in each channel, over all workers that share the statistics */
} group;

/* Task 14.4. By this group alone the running statistics would become, for each channel,
 *
 *     (1 - momentum) running_mean + momentum mean
 *     (1 - momentum) running_var + momentum var'        var': the unbiased variance, sum (x - mean)^2 / (numbers - 1)
 *
 * (Of a single number there is no variance: running_var stays as it is.) They shall become the mean over all samples of
 * the global batch, whoever computed them. So next_mean and next_var are summed over groups here, and over workers with
 * the gradients; then all is divided by the samples of the batch. Add this group's part to them, in float; if `first`
 * they hold nothing yet, and you write. */
void running_part(const group *g, size_t channels, const float *mean, const float *var,
                  const float *running_mean, const float *running_var, float momentum, float *next_mean,
                  float *next_var, bool first);

/* Task 14.5. src/data/schedule.h: the part of worker i of n in a batch of `total` samples, of which each `together`,
 * counted from the first, are a ghost batch, the last one perhaps smaller. No ghost batch is divided.
 * gs_shard_of(total, i, n) is the part where nothing must stay together. Also called with `together` 0 or 1. */
gs_shard gs_schedule_cut(size_t total, int i, int n, size_t together);

/* given.c; remote.c in a checker: gs_schedule_cut, for the check: the part as it is. */
gs_shard lab_cut(size_t total, int i, int n, size_t together);
