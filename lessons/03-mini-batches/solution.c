/* Lesson 3: mini-batches. The blanks are marked "task 3.1" to "task 3.4".
 *
 *     make lab-03                                                  builds and grades this file
 *     build/lessons/03/gradsum train --model softmax --epochs 2    the whole program, with your parts in it
 */
#include "tasks.h"

#include <math.h>
#include "core/philox.h" /* random numbers: gs_philox */
#include "cpu/cpu.h"     /* gs_cpu_floats(m): where the floats of a gs_mem begin; NULL for GS_NONE */
#include "data/order.h"
#include "lab.h"

/* An operator of the backend, see src/backend.h. */
static gs_status sgd_update(gs_device *d, gs_mem w_mem, gs_mem v_mem, gs_mem dw_mem, size_t count,
                            float scale, float lr, float momentum, float weight_decay) {
    float *w = gs_cpu_floats(w_mem), *v = gs_cpu_floats(v_mem);
    const float *dw = gs_cpu_floats(dw_mem);
    (void)d;
    /* task 3.1: for each i < count: g = scale dw[i] + weight_decay w[i]; v[i] = momentum v[i] + g;
     * w[i] -= lr v[i]. With momentum 0 there may be no v (NULL), and v[i] is g. Return GS_OK. */
    for (size_t i = 0; i < count; i++) {
        float g = scale * dw[i] + weight_decay * w[i];
        if (momentum != 0) g = v[i] = momentum * v[i] + g;
        w[i] -= lr * g;
    }
    return GS_OK;
    /* end of task 3.1 */
}

/* From here on: what takes the place of src/data/order.c. */

/* A random whole number in 0 .. below-1, the same for the same (seed, epoch, i). */
static size_t random_below(uint64_t seed, uint64_t epoch, uint64_t i, size_t below) {
    uint32_t word[4];
    gs_philox(seed, gs_stream_hi(GS_STREAM_ORDER, epoch), i, word);
    return (size_t)((uint64_t)word[0] * below >> 32);
}

void gs_epoch_order(uint64_t seed, uint64_t epoch, size_t n, uint32_t *order) {
    for (size_t i = 0; i < n; i++) order[i] = (uint32_t)i;
    /* task 3.2: put order[0 .. n-1] into an order that still has every sample once; all n! orders
     * are equally likely. Each epoch and seed has a different one, always the same for the same two. random_below gives
     * random numbers; use it with a different i each time. n may be 0. */
    for (size_t i = n; i-- > 1;) {
        size_t j = random_below(seed, epoch, i, i + 1);
        uint32_t kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    /* end of task 3.2 */
}

double lab_gradient_variance(const float *g, size_t samples, size_t params, size_t batch) {
    /* task 3.3: first S, the variance of a single sample's gradient: the sum over the samples of the squared
     * distance from the mean, divided by samples - 1. Then what becomes of it in a batch. */
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

static void edit(gs_backend *table) {
    table->sgd_update = sgd_update;
}

void lab_install(void) {
    gs_backend_replace(edit);
}
