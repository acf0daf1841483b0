/* Lesson 3: the functions that you write in lab.c. */
#pragma once

#include <stddef.h>

/* Task 3.1. One update of `count` weights: for each i
 *
 *     g    = scale dw[i] + weight_decay w[i]
 *     v[i] = momentum v[i] + g
 *     w[i] = w[i] - lr v[i]
 *
 * With momentum 0, v may be NULL: then v[i] is g, and nothing is stored. The library also sets a v[i] of a size below
 * FLT_MIN to 0 (sgd_update in src/backend.h says why); yours need not. */
void lab_sgd(float *w, float *v, const float *dw, size_t count, float scale, float lr, float momentum,
             float weight_decay);

/* Task 3.2. A loader draws some samples more often than others. There are `samples` samples. A mini-batch is `batch`
 * independent draws, with the same probabilities each time. Row j of g (batch, params) is the gradient of draw j, and
 * probability[j] the probability of THIS sample. Writes an estimate of the whole gradient (the mean over all `samples`
 * samples) that is
 *
 *     unbiased    its average over all possible draws is the whole gradient, for any probabilities
 *     a mean      over all draws: each is an estimate of its own, and the result is the mean of these
 *
 * With equal probabilities it is the mean of the rows. All probabilities are above 0. */
void lab_unbiased(const float *g, const double *probability, size_t batch, size_t params, size_t samples,
                  double *estimate);

/* Task 3.3. g is (samples, params): row i is the gradient of sample i. A mini-batch is a choice of `batch` DIFFERENT
 * samples, all choices equally likely; its gradient is the mean of its rows. Returns the mean, over all
 * choices, of the squared distance |its gradient - the gradient of all samples|^2. 1 <= batch <= samples; there may be
 * only one sample. */
double lab_gradient_variance(const float *g, size_t samples, size_t params, size_t batch);

/* Task 3.4. The squared length of a mini-batch's gradient is, on average,
 *
 *     E |g_B|^2 = G + S / B
 *
 * where G is the squared length of the whole gradient and S the variance of a single sample's. Two batches of different
 * size give two equations: batches of `small` samples gave |g_B|^2 = small_squared, batches of `big` samples
 * gave big_squared, with small < big. Returns the noise scale S / G. Measured numbers scatter: an S below 0
 * counts as 0. If G is not above 0, everything is noise: the scale is INFINITY. */
double lab_noise_scale(double small, double small_squared, double big, double big_squared);
