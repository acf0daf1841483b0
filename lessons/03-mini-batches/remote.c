/* How the calls of lab 3 travel. */
#include "tasks.h"

#include "remote/remote.h"

enum { SGD, UNBIASED, VARIANCE, NOISE_SCALE };

typedef struct sgd_call {
    float *w, *v;
    const float *dw;
    size_t count;
    float scale, lr, momentum, weight_decay;
} sgd_call;

static void pass_sgd(lab_wire *w, void *arguments) {
    sgd_call *a = arguments;
    LAB_VALUE(w, a->count);
    LAB_INOUT(w, a->w, a->count);
    LAB_INOUT(w, a->v, a->count);
    LAB_IN(w, a->dw, a->count);
    LAB_VALUES(w, a->scale, a->lr, a->momentum, a->weight_decay);
}

typedef struct unbiased_call {
    const float *g;
    const double *probability;
    size_t batch, params, samples;
    double *estimate;
} unbiased_call;

static void pass_unbiased(lab_wire *w, void *arguments) {
    unbiased_call *a = arguments;
    LAB_VALUES(w, a->batch, a->params, a->samples);
    LAB_IN(w, a->g, a->batch * a->params);
    LAB_IN(w, a->probability, a->batch);
    LAB_INOUT(w, a->estimate, a->params);
}

typedef struct variance_call {
    const float *g;
    size_t samples, params, batch;
    double variance;
} variance_call;

static void pass_variance(lab_wire *w, void *arguments) {
    variance_call *a = arguments;
    LAB_VALUES(w, a->samples, a->params, a->batch);
    LAB_IN(w, a->g, a->samples * a->params);
    LAB_RESULT(w, a->variance);
}

typedef struct noise_call {
    double small, small_squared, big, big_squared, scale;
} noise_call;

static void pass_noise(lab_wire *w, void *arguments) {
    noise_call *a = arguments;
    LAB_VALUES(w, a->small, a->small_squared, a->big, a->big_squared);
    LAB_RESULT(w, a->scale);
}

#ifdef LAB_HAND_IN

LAB_CALLER(call_sgd, sgd_call,
           lab_sgd(a->w, a->v, a->dw, a->count, a->scale, a->lr, a->momentum, a->weight_decay))
LAB_CALLER(call_unbiased, unbiased_call,
           lab_unbiased(a->g, a->probability, a->batch, a->params, a->samples, a->estimate))
LAB_CALLER(call_variance, variance_call,
           a->variance = lab_gradient_variance(a->g, a->samples, a->params, a->batch))
LAB_CALLER(call_noise, noise_call,
           a->scale = lab_noise_scale(a->small, a->small_squared, a->big, a->big_squared))

#else

void lab_sgd(float *w, float *v, const float *dw, size_t count, float scale, float lr, float momentum,
             float weight_decay) {
    lab_remote(SGD, &(sgd_call){w, v, dw, count, scale, lr, momentum, weight_decay});
}

void lab_unbiased(const float *g, const double *probability, size_t batch, size_t params, size_t samples,
                  double *estimate) {
    lab_remote(UNBIASED, &(unbiased_call){g, probability, batch, params, samples, estimate});
}

double lab_gradient_variance(const float *g, size_t samples, size_t params, size_t batch) {
    LAB_ASK(VARIANCE, variance_call, variance, g, samples, params, batch, 0);
}

double lab_noise_scale(double small, double small_squared, double big, double big_squared) {
    LAB_ASK(NOISE_SCALE, noise_call, scale, small, small_squared, big, big_squared, 0);
}
#endif

const lab_function lab_functions[] = {
    {sizeof(sgd_call), pass_sgd, LAB_THEIRS(call_sgd)},
    {sizeof(unbiased_call), pass_unbiased, LAB_THEIRS(call_unbiased)},
    {sizeof(variance_call), pass_variance, LAB_THEIRS(call_variance)},
    {sizeof(noise_call), pass_noise, LAB_THEIRS(call_noise)},
    {0},
};
