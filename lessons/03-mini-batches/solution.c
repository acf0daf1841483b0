/* Lab 3: mini-batches. See README.md, and tasks.h for what each function must do. */
#include "tasks.h"

#include <math.h>
#include "lab.h"

void lab_sgd(float *w, float *v, const float *dw, size_t count, float scale, float lr, float momentum,
             float weight_decay) {
    /* task 3.1: for each i < count: g = scale dw[i] + weight_decay w[i]; v[i] = momentum v[i] + g;
     * w[i] -= lr v[i]. With momentum 0 v may be NULL, and v[i] is g. */
    for (size_t i = 0; i < count; i++) {
        float g = scale * dw[i] + weight_decay * w[i];
        if (momentum != 0) g = v[i] = momentum * v[i] + g;
        w[i] -= lr * g;
    }
    /* end of task 3.1 */
}

void lab_unbiased(const float *g, const double *probability, size_t batch, size_t params, size_t samples,
                  double *estimate) {
    /* task 3.2: a weighted mean of the rows. How much must a sample count that is drawn twice as often as with equal
     * probabilities? Write down the average over all draws for a batch of one, and make it the whole gradient. */
    for (size_t p = 0; p < params; p++) estimate[p] = 0;
    for (size_t i = 0; i < batch; i++) {
        double weight = 1 / (probability[i] * (double)samples * (double)batch);
        for (size_t p = 0; p < params; p++) estimate[p] += weight * (double)g[i * params + p];
    }
    /* end of task 3.2 */
}

double lab_gradient_variance(const float *g, size_t samples, size_t params, size_t batch) {
    /* task 3.3: first S, the variance of a single sample's gradient: the sum over the samples of the squared
     * distance from the mean, divided by samples - 1. Then the variance of a batch's gradient. */
    double squares = 0;
    for (size_t p = 0; p < params; p++) {
        double mean = 0;
        for (size_t i = 0; i < samples; i++) mean += (double)g[i * params + p] / (double)samples;
        for (size_t i = 0; i < samples; i++) squares += pow((double)g[i * params + p] - mean, 2);
    }
    if (samples == 1) return 0;
    double single = squares / (double)(samples - 1);
    return single / (double)batch * (1 - (double)batch / (double)samples);
    /* end of task 3.3 */
}

double lab_noise_scale(double small, double small_squared, double big, double big_squared) {
    /* task 3.4: solve small_squared = G + S / small, big_squared = G + S / big for S and G. */
    double s = (small_squared - big_squared) / (1 / small - 1 / big);
    double g = big_squared - s / big;
    if (!(g > 0)) return INFINITY;
    return s > 0 ? s / g : 0;
    /* end of task 3.4 */
}
