/* Lab 3: mini-batches. See README.md, and tasks.h for what each function must do. */
#include "tasks.h"

#include <math.h>
#include "lab.h"

void lab_sgd(float *w, float *v, const float *dw, size_t count, float scale, float lr, float momentum,
             float weight_decay) {
    /* task 3.1: for each i < count: g = scale dw[i] + weight_decay w[i]; v[i] = momentum v[i] + g;
     * w[i] -= lr v[i]. With momentum 0 v may be NULL, and v[i] is g. */
    (void)w, (void)v, (void)dw, (void)count, (void)scale, (void)lr, (void)momentum, (void)weight_decay;
    lab_blank("3.1");
    /* end of task 3.1 */
}

void lab_unbiased(const float *g, const double *probability, size_t batch, size_t params, size_t samples,
                  double *estimate) {
    /* task 3.2: a weighted mean of the rows. How much must a sample count that is drawn twice as often as with equal
     * probabilities? Write down the average over all draws for a batch of one, and make it the whole gradient. */
    (void)g, (void)probability, (void)batch, (void)params, (void)samples, (void)estimate;
    lab_blank("3.2");
    /* end of task 3.2 */
}

double lab_gradient_variance(const float *g, size_t samples, size_t params, size_t batch) {
    /* task 3.3: first S, the variance of a single sample's gradient: the sum over the samples of the squared
     * distance from the mean, divided by samples - 1. Then the variance of a batch's gradient. */
    (void)g, (void)samples, (void)params, (void)batch;
    lab_blank("3.3");
    return 0;
    /* end of task 3.3 */
}

double lab_noise_scale(double small, double small_squared, double big, double big_squared) {
    /* task 3.4: solve small_squared = G + S / small, big_squared = G + S / big for S and G. */
    (void)small, (void)small_squared, (void)big, (void)big_squared;
    lab_blank("3.4");
    return 0;
    /* end of task 3.4 */
}
