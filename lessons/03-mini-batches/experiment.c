/* How much does a mini-batch's gradient scatter, and is it right on average? Measured on a real network, beside the
 * formula of task 3.3.
 *
 *     make build/lessons/03/experiment && build/lessons/03/experiment
 *     build/lessons/03/experiment seeds
 *
 * The gradients g_i of all single samples give S, the variance of one. Then the program draws mini-batches and measures
 * two squared distances from the whole gradient: the mean distance of a mini-batch's gradient, and the distance of the
 * mean of all drawn gradients, which a bias would keep from shrinking. It does so at the initial weights and after some
 * epochs of training. With the word "seeds": only the noise scale, for 7 seeds. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "data/order.h"
#include "train/train.h"

enum { SAMPLES = 6000, PIXELS = 784, MOST = 250, EPOCHS = 5, SEEDS = 7 };
static const char MODEL[] = "flatten, linear 32, relu, linear 10";

typedef struct experiment {
    gs_device *device;
    gs_dataset *set;
    gs_model *model;
    gs_mem x, labels;
    float *images;              /* all samples, scaled */
    double *sum, *whole, *mean; /* of gradients */
    uint32_t *order;
    uint64_t seed;
} experiment;

/* e->sum = the sum of the gradients of samples order[first .. first + n - 1] */
static gs_status gradient(experiment *e, size_t first, size_t n) {
    const gs_backend *ops = e->device->ops;
    gs_mem logits;
    GS_TRY(gs_model_clear_gradients(e->model));
    for (size_t done = 0; done < n; done += MOST) {
        gs_pass pass = {.n = n - done < MOST ? n - done : MOST, .training = true};
        float *x = e->x.base; /* on "cpu" the memory is the host's */
        int32_t *label = e->labels.base;
        for (size_t i = 0; i < pass.n; i++) {
            uint32_t sample = e->order[first + done + i];
            for (int p = 0; p < PIXELS; p++) x[i * PIXELS + p] = e->images[(size_t)sample * PIXELS + p];
            label[i] = e->set->labels[sample];
        }
        GS_TRY(gs_model_forward(e->model, &pass, e->x, &logits));
        GS_TRY(gs_model_loss(e->model, &pass, logits, e->labels));
        GS_TRY(gs_model_backward(e->model, &pass, logits, e->labels));
    }
    GS_TRY(ops->finish(e->device));
    for (size_t p = 0; p < e->model->params; p++) e->sum[p] = (double)((float *)e->model->gradients.base)[p];
    return GS_OK;
}

/* |sum / n - whole gradient|^2 */
static double distance(const experiment *e, const double *sum, double n) {
    double squares = 0;
    for (size_t p = 0; p < e->model->params; p++) squares += pow(sum[p] / n - e->whole[p], 2);
    return squares;
}

/* The whole gradient, its squared length, and the variance of a single sample's. */
static gs_status measure_whole(experiment *e, double *length, double *single) {
    const double all = SAMPLES;
    *length = *single = 0;
    for (uint32_t i = 0; i < SAMPLES; i++) e->order[i] = i;
    GS_TRY(gradient(e, 0, SAMPLES));
    for (size_t p = 0; p < e->model->params; p++) {
        e->whole[p] = e->sum[p] / all;
        *length += e->whole[p] * e->whole[p];
    }
    for (size_t i = 0; i < SAMPLES; i++) {
        GS_TRY(gradient(e, i, 1));
        *single += distance(e, e->sum, 1) / (all - 1);
    }
    return GS_OK;
}

static gs_status measure_batch(experiment *e, size_t batch, double single) {
    size_t draws = batch < 32 ? 256 : 8192 / batch + 8;
    double squares = 0, b = (double)batch, n = (double)draws;
    for (size_t p = 0; p < e->model->params; p++) e->mean[p] = 0;
    for (size_t k = 0; k < draws; k++) {
        gs_epoch_order(e->seed + 4, k, SAMPLES, e->order); /* its first samples are a random choice */
        GS_TRY(gradient(e, 0, batch));
        squares += distance(e, e->sum, b) / n;
        for (size_t p = 0; p < e->model->params; p++) e->mean[p] += e->sum[p] / b / n;
    }
    double formula = single / b * (1 - b / SAMPLES);
    printf("  %-8zu %-12.4g %-12.4g %-8zu %-12.4g %.4g\n", batch, squares, formula, draws,
           distance(e, e->mean, 1), formula / n);
    return GS_OK;
}

static gs_status measure(experiment *e, const char *when) {
    double length, single;
    GS_TRY(measure_whole(e, &length, &single));
    printf("# %s: G = |whole gradient|^2 = %.4g, S = %.4g\n", when, length, single);
    printf("# noise scale S / G = %.4g\n", single / length);
    printf("# %-8s %-12s %-12s %-8s %-12s %s\n", "batch", "measured", "formula", "draws", "their mean",
           "formula");
    for (size_t batch = 1; batch <= SAMPLES; batch = batch < 4096 ? 2 * batch : batch + 1904)
        GS_TRY(measure_batch(e, batch, single));
    return GS_OK;
}

static gs_status train(experiment *e) {
    gs_settings s = gs_settings_default();
    gs_result result;
    s.model = MODEL;
    s.epochs = EPOCHS;
    s.seed = e->seed;
    GS_TRY(gs_train(&s, NULL, &result));
    gs_status status = gs_model_write_weights(e->model, result.weights);
    gs_result_free(&result);
    return status;
}

static gs_status measure_twice(experiment *e) {
    char when[40];
    GS_TRY(measure(e, "at the beginning"));
    GS_TRY(train(e));
    snprintf(when, sizeof when, "after %d epochs", EPOCHS);
    printf("\n\n");
    return measure(e, when);
}

static gs_status new_model(experiment *e, uint64_t seed) {
    gs_model_free(e->model);
    e->seed = seed;
    const gs_model_config config = {.text = MODEL, .in = e->set->shape, .max_batch = MOST, .seed = seed};
    return gs_model_create(e->device, &config, &e->model);
}

static gs_status measure_seeds(experiment *e) {
    double length, single;
    printf("# seed     noise scale at the beginning     after %d epochs\n", EPOCHS);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        GS_TRY(new_model(e, seed));
        GS_TRY(measure_whole(e, &length, &single));
        printf("  %-8d %-32.4g ", (int)seed, single / length);
        GS_TRY(train(e));
        GS_TRY(measure_whole(e, &length, &single));
        printf("%.4g\n", single / length);
    }
    return GS_OK;
}

static gs_status run(experiment *e, bool seeds) {
    GS_TRY(gs_device_open("cpu", 1, &e->device));
    GS_TRY(gs_dataset_load("fashion-mnist-small", GS_TRAIN, &e->set));
    gs_scaling s = gs_dataset_scaling(e->set);
    GS_TRY(new_model(e, 1));
    GS_TRY(e->device->ops->alloc(e->device, sizeof(float) * MOST * PIXELS, &e->x));
    GS_TRY(e->device->ops->alloc(e->device, sizeof(int32_t) * MOST, &e->labels));
    e->images = malloc(sizeof(float) * SAMPLES * PIXELS);
    e->sum = malloc(sizeof(double) * e->model->params);
    e->whole = malloc(sizeof(double) * e->model->params);
    e->mean = malloc(sizeof(double) * e->model->params);
    e->order = malloc(sizeof(uint32_t) * SAMPLES);
    if (!e->images || !e->sum || !e->whole || !e->mean || !e->order)
        return gs_fail(GS_E_MEMORY, "out of memory");
    for (size_t i = 0; i < (size_t)SAMPLES * PIXELS; i++)
        e->images[i] = ((float)e->set->images[i] / 255 - s.mean.of[0]) / s.std.of[0];
    return seeds ? measure_seeds(e) : measure_twice(e);
}

int main(int argc, char **argv) {
    bool seeds = argc == 2 && strcmp(argv[1], "seeds") == 0;
    if (argc > 1 && !seeds) {
        fprintf(stderr, "usage: experiment [seeds]\n");
        return 2;
    }
    gs_cpu_choose_kernels(argv);
    experiment e = {0};
    gs_status status = run(&e, seeds);
    if (status != GS_OK) fprintf(stderr, "experiment: %s\n", gs_message());
    if (e.device) e.device->ops->free(e.device, e.x);
    if (e.device) e.device->ops->free(e.device, e.labels);
    gs_model_free(e.model);
    gs_device_close(e.device);
    gs_dataset_free(e.set);
    free(e.images);
    free(e.sum);
    free(e.whole);
    free(e.mean);
    free(e.order);
    return status == GS_OK ? 0 : 1;
}
