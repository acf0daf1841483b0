/* Four bugs that do not crash. Three workers with unequal parts, simulated in this process, train a network five times
 * on the same images: once correctly, and once with each bug.
 *
 *     make build/lessons/05/experiment && build/lessons/05/experiment
 *
 * Of 6,000 images 1,000 are held out. The workers have 60, 30 and 10 samples of each global batch of 100; 5 epochs. The
 * "test" images are others. Each number is the mean of 20 seeds. The last columns count the seeds whose validation
 * accuracy is higher, and whose test accuracy is lower, than without a bug. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "data/order.h"
#include "train/train.h"

enum { BATCH = 100, WORKERS = 3, EPOCHS = 5, HELD_OUT = 1000, SEEDS = 20, ROOM = 1000 };
static const size_t part[WORKERS] = {60, 30, 10};

typedef enum bug { NONE, SAME_ORDER, NOT_CLEARED, MEAN_OF_MEANS, OVERLAP, BUGS } bug;
static const char *const names[BUGS] = {"none", "one order for all epochs", "gradients not cleared",
                                        "mean of means", "validation overlaps training"};

typedef struct run {
    gs_device *device;
    gs_dataset *train, *test;
    gs_scaling scaling;
    gs_model *model;
    gs_mem x, labels;
    float *dw[WORKERS], *sum; /* each worker's gradient, and that of all */
    unsigned char *bytes;
    float *images;
    int32_t *host_labels;
} run;

/* The logits of `n` samples; order NULL: samples first .. */
static gs_status forward(run *r, const gs_dataset *set, const uint32_t *order, size_t first, size_t n,
                         gs_pass *pass, gs_mem *logits) {
    const gs_backend *ops = r->device->ops;
    size_t pixels = gs_shape_size(set->shape);
    GS_TRY(gs_dataset_gather(set, order, first, n, r->bytes, r->host_labels));
    for (size_t i = 0; i < n * pixels; i++)
        r->images[i] = ((float)r->bytes[i] / 255 - r->scaling.mean.of[0]) / r->scaling.std.of[0];
    GS_TRY(ops->write(r->device, r->x, r->images, n * pixels * sizeof(float)));
    GS_TRY(ops->write(r->device, r->labels, r->host_labels, n * sizeof *r->host_labels));
    return gs_model_forward(r->model, pass, r->x, logits);
}

/* The share of right answers. */
static gs_status accuracy(run *r, const gs_dataset *set, const uint32_t *order, size_t count, double *out) {
    gs_mem logits;
    GS_TRY(gs_model_clear_gradients(r->model));
    for (size_t at = 0; at < count; at += ROOM) {
        gs_pass pass = {.n = count - at < ROOM ? count - at : ROOM};
        GS_TRY(forward(r, set, order ? order + at : NULL, at, pass.n, &pass, &logits));
        GS_TRY(gs_model_loss(r->model, &pass, logits, r->labels));
    }
    float stats[GS_STATS];
    GS_TRY(r->device->ops->read(r->device, stats, gs_model_stats(r->model), sizeof stats));
    *out = (double)stats[GS_STAT_CORRECT] / (double)count;
    return GS_OK;
}

/* One global batch, cut into the workers' parts: forward, backward, sum, update. */
static gs_status step(run *r, const uint32_t *order, bug b) {
    const gs_backend *ops = r->device->ops;
    gs_model *m = r->model;
    float *gradients = m->gradients.base; /* on "cpu" the memory is the host's */
    memset(r->sum, 0, m->params * sizeof(float));
    for (int w = 0; w < WORKERS; w++) {
        gs_pass pass = {.n = part[w], .training = true};
        gs_mem logits;
        GS_TRY(gs_model_clear_gradients(m));
        GS_TRY(forward(r, r->train, order, 0, part[w], &pass, &logits));
        GS_TRY(gs_model_loss(m, &pass, logits, r->labels));
        GS_TRY(gs_model_backward(m, &pass, logits, r->labels));
        float scale = 1.0f / BATCH;
        if (b == MEAN_OF_MEANS) scale = 1.0f / (WORKERS * (float)part[w]);
        for (size_t i = 0; i < m->params; i++) {
            r->dw[w][i] = (b == NOT_CLEARED ? r->dw[w][i] : 0) + gradients[i];
            r->sum[i] += scale * r->dw[w][i];
        }
        order += part[w];
    }
    memcpy(gradients, r->sum, m->params * sizeof(float));
    return ops->sgd_update(r->device, m->weights, GS_NONE, m->gradients, m->params, 1, 0.1f, 0, 0);
}

/* The samples that an epoch holds out and trains on: all[] = (held out | train). All runs of a seed are judged by the
 * samples held out in the last epoch. */
static void split(uint64_t seed, uint64_t epoch, size_t n, bug b, uint32_t *all, uint32_t *order) {
    gs_epoch_order(seed, b == OVERLAP ? epoch : EPOCHS, n, all);
    gs_epoch_order(seed, b == SAME_ORDER ? 1 : epoch, n - HELD_OUT, order);
    for (size_t i = 0; i < n - HELD_OUT; i++) order[i] = all[HELD_OUT + order[i]];
}

static gs_status train(run *r, bug b, uint64_t seed, double *validation, double *test) {
    size_t n = r->train->count;
    static uint32_t all[60000], order[60000];
    gs_model_config config = {.text = "flatten, linear 64, relu, linear 10", .max_batch = ROOM, .seed = seed};
    config.in = r->train->shape;
    GS_TRY(gs_model_create(r->device, &config, &r->model));
    for (int w = 0; w < WORKERS; w++) r->dw[w] = calloc(r->model->params, sizeof(float));
    r->sum = malloc(r->model->params * sizeof(float));
    gs_status status = GS_OK;
    for (uint64_t epoch = 1; status == GS_OK && epoch <= EPOCHS; epoch++) {
        split(seed, epoch, n, b, all, order);
        for (size_t at = 0; status == GS_OK && at + BATCH <= n - HELD_OUT; at += BATCH)
            status = step(r, order + at, b);
    }
    if (status == GS_OK) status = accuracy(r, r->train, all, HELD_OUT, validation);
    if (status == GS_OK) status = accuracy(r, r->test, NULL, r->test->count, test);
    for (int w = 0; w < WORKERS; w++) free(r->dw[w]);
    free(r->sum);
    gs_model_free(r->model);
    return status;
}

static gs_status all_runs(run *r) {
    GS_TRY(gs_device_open("cpu", 1, &r->device));
    const gs_backend *ops = r->device->ops;
    GS_TRY(gs_dataset_load("fashion-mnist-small", GS_TRAIN, &r->train));
    GS_TRY(gs_dataset_load("fashion-mnist-small", GS_TEST, &r->test));
    r->scaling = gs_dataset_scaling(r->train);
    size_t pixels = gs_shape_size(r->train->shape);
    r->bytes = malloc(ROOM * pixels);
    r->images = malloc(ROOM * pixels * sizeof(float));
    r->host_labels = malloc(ROOM * sizeof(int32_t));
    GS_TRY(ops->alloc(r->device, ROOM * pixels * sizeof(float), &r->x));
    GS_TRY(ops->alloc(r->device, ROOM * sizeof(int32_t), &r->labels));
    printf("# %-30s %12s %8s   %s\n", "bug", "validation %", "test %", "than none: higher, lower");
    double right[SEEDS][2] = {{0}}; /* without a bug: validation, test */
    for (int b = 0; b < BUGS; b++) {
        double validation = 0, test = 0, v, t;
        int higher = 0, lower = 0;
        for (int k = 0; k < SEEDS; k++) {
            GS_TRY(train(r, (bug)b, (uint64_t)k + 1, &v, &t));
            if (b == NONE) right[k][0] = v, right[k][1] = t;
            validation += v / SEEDS;
            test += t / SEEDS;
            higher += v > right[k][0];
            lower += t < right[k][1];
        }
        printf("  %-30s %12.1f %8.1f", names[b], 100 * validation, 100 * test);
        if (b != NONE) printf("   %10d/%d %6d/%d", higher, SEEDS, lower, SEEDS);
        printf("\n");
    }
    return GS_OK;
}

int main(int argc, char **argv) {
    (void)argc;
    gs_cpu_choose_kernels(argv);
    run r = {0};
    gs_status status = all_runs(&r);
    if (status != GS_OK) fprintf(stderr, "experiment: %s\n", gs_message());
    if (r.device) r.device->ops->free(r.device, r.x);
    if (r.device) r.device->ops->free(r.device, r.labels);
    gs_device_close(r.device);
    gs_dataset_free(r.train);
    gs_dataset_free(r.test);
    free(r.bytes);
    free(r.images);
    free(r.host_labels);
    return status == GS_OK ? 0 : 1;
}
