/* Lesson 3: the functions that you write in lab.c. (sgd_update has its contract in src/backend.h, gs_epoch_order in
 * src/data/order.h.) */
#pragma once

#include <stddef.h>

/* Task 3.3. g is (samples, params): row i is the gradient of sample i. A mini-batch is a choice of `batch` DIFFERENT
 * samples, each choice as likely as any other; its gradient is the mean of its rows. Returns the mean, over all
 * choices, of the squared distance |its gradient - the gradient of all samples|^2. 1 <= batch <= samples; there may be
 * only one sample. */
double lab_gradient_variance(const float *g, size_t samples, size_t params, size_t batch);

/* Task 3.4. The squared length of a mini-batch's gradient is, in the mean,
 *
 *     E |g_B|^2 = G + S / B
 *
 * where G is the squared length of the whole gradient and S the variance of a single sample's. Two batches of different
 * size give two equations: batches of `small` samples gave |g_B|^2 = small_squared, batches of `big` samples
 * gave big_squared, with small < big. Returns the noise scale S / G. Measured numbers scatter, so S may come out below
 * 0: then it counts as 0. If G is not above 0, there is nothing but noise: the scale is INFINITY. */
double lab_noise_scale(double small, double small_squared, double big, double big_squared);
