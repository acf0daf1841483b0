/* The tasks of lesson 14, for lab.c: statistics of channels when N workers hold the samples.
 *
 * You need one call of src/comm/comm.h, which all workers must make in the same order:
 *
 *     gs_comm_all_reduce(c, numbers, count, GS_F64, GS_SUM)     numbers[i] = the sum of all workers' numbers[i]
 *
 * The call can fail: pass its failure on with GS_TRY(call). A worker without samples calls too, with numbers that are
 * 0. At least one worker has a sample. */
#pragma once

#include "lab.h"
#include "comm/comm.h"
#include "data/schedule.h"

enum { COLOURS = 3 };

/* Task 14.1. This worker has n images, each COLOURS planes of `plane` bytes: red, then green, then blue. A byte encodes
 * the number byte / 255. Set mean and standard deviation of each colour over the images of all workers:
 * sqrt(mean of x^2 - (mean of x)^2), or 1 if all numbers are equal. One all-reduce. */
gs_status colour_scaling(gs_comm *c, const uint8_t *images, size_t n, size_t plane, double mean[COLOURS],
                         double deviation[COLOURS]);

/* Task 14.2. For each channel, mean and var hold the statistics of this worker's own `mine` numbers:
 *
 *     mean = sum x / mine        var = sum (x - mean)^2 / mine        (0 and 0 if mine is 0)
 *
 * Replace them by the statistics over the numbers of all workers, and set *all to the number of these. One all-reduce;
 * numbers: room for 1 + 2 channels. */
gs_status shared_statistics(gs_comm *c, double mine, size_t channels, float *mean, float *var, double *all,
                            double *numbers);

/* Backward of a layer batch_norm on one worker. Its forward was, with mean and var of task 14.2:
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
 * so
 *
 *     dx = weight / sqrt(var + eps) (dy - sum dy / all - u sum(dy u) / all)        sums over all workers
 *
 * Add this worker's own sum of dy u to dweight, and of dy to dbias. (These gradients are summed over the workers with
 * all others at the end of the step.) One all-reduce; numbers: room for 2 channels. */
gs_status shared_backward(gs_comm *c, const norm *b, float *dx, float *dweight, float *dbias,
                          double *numbers);

/* Samples that share statistics: the global batch, those of one worker, or a ghost batch. A worker may have a part of
 * them, or none. */
typedef struct group {
    size_t samples; /* of this worker */
    double numbers; /* in each channel, over all workers that share the statistics */
} group;

/* Task 14.4. With this group alone the running statistics would become, for each channel,
 *
 *     (1 - momentum) running_mean + momentum mean
 *     (1 - momentum) running_var + momentum var'        var': the unbiased variance, sum (x - mean)^2 / (numbers - 1)
 *
 * (A single number has no variance: use running_var for var'.) The next running statistics are the mean over all
 * samples of the global batch: next_mean and next_var are summed over groups here and over workers with the gradients,
 * then divided by the samples of the batch. Add this group's part in float: its samples times the numbers above. If
 * `first`, next_mean and next_var hold nothing yet: write. */
void running_part(const group *g, size_t channels, const float *mean, const float *var,
                  const float *running_mean, const float *running_var, float momentum, float *next_mean,
                  float *next_var, bool first);

/* Task 14.5. src/data/schedule.h: the part of worker i of n in a batch of `total` samples. From the first sample on,
 * each `together` samples are a ghost batch; the last may be smaller. No ghost batch is divided. gs_shard_of(total, i,
 * n) is the part if nothing must stay together. Also called with `together` 0 or 1. */
gs_shard gs_schedule_cut(size_t total, int i, int n, size_t together);

/* given.c; remote.c in a checker: gs_schedule_cut for the check, even if the part is wrong. */
gs_shard lab_cut(size_t total, int i, int n, size_t together);
