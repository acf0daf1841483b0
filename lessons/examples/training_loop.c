/* A training loop by hand: images to the device, forward, loss, backward, update; then the accuracy on the test
 * images. `./training_loop cl` does all of it on the first OpenCL device.
 *
 *     cc training_loop.c $(pkg-config --cflags --libs gradsum) -o training_loop && ./training_loop
 */
#include <gradsum.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 100, EPOCHS = 3, MOST_PIXELS = 28 * 28 };

typedef struct trainer {
    gs_dataset *train, *test;
    gs_device *device;
    gs_model *model;
    gs_optimizer *optimizer;
    gs_mem x, labels; /* a batch in the device's memory */
    uint32_t *order;  /* of the training set in this epoch */
} trainer;

static gs_status open_all(trainer *t, const char *device) {
    GS_TRY(gs_dataset_load("fashion-mnist-small", GS_TRAIN, &t->train));
    GS_TRY(gs_dataset_load("fashion-mnist-small", GS_TEST, &t->test));
    GS_TRY(gs_device_open(device, 1, &t->device));
    /* Constructors make the layers. Their shapes follow from that of an image, and are checked. */
    gs_layer *layers[] = {gs_flatten(), gs_linear(64, true), gs_relu(), gs_linear(10, true)};
    gs_layer *net = gs_sequential(4, layers);
    const gs_model_config config = {.net = net, .in = t->train->shape, .max_batch = BATCH, .seed = 1};
    GS_TRY(gs_model_create(t->device, &config, &t->model));
    GS_TRY(gs_optimizer_create(&gs_sgd, t->model, 0.05f, 0.9f, 0, &t->optimizer));
    GS_TRY(t->device->ops->alloc(t->device, sizeof(float) * BATCH * MOST_PIXELS, &t->x));
    GS_TRY(t->device->ops->alloc(t->device, sizeof(int32_t) * BATCH, &t->labels));
    t->order = malloc(t->train->count * sizeof *t->order);
    return t->order ? GS_OK : gs_fail(GS_E_MEMORY, "no memory for an order of %zu samples", t->train->count);
}

static void close_all(trainer *t) {
    free(t->order);
    gs_optimizer_free(t->optimizer);
    gs_model_free(t->model);
    if (t->device) t->device->ops->free(t->device, t->x);
    if (t->device) t->device->ops->free(t->device, t->labels);
    gs_device_close(t->device);
    gs_dataset_free(t->train);
    gs_dataset_free(t->test);
}

/* Copy samples order[0..n-1], or first..first+n-1 if order is NULL, to the device. */
static gs_status load(trainer *t, const gs_dataset *set, const uint32_t *order, size_t first, size_t n) {
    static unsigned char bytes[BATCH * MOST_PIXELS];
    static float x[BATCH * MOST_PIXELS];
    int32_t labels[BATCH];
    size_t pixels = gs_shape_size(set->shape);
    GS_TRY(gs_dataset_gather(set, order, first, n, bytes, labels));
    for (size_t i = 0; i < n * pixels; i++)
        x[i] = (float)bytes[i] / 255 - 0.3f; /* the mean of all pixels is about 0.3 */
    GS_TRY(t->device->ops->write(t->device, t->x, x, n * pixels * sizeof *x));
    return t->device->ops->write(t->device, t->labels, labels, n * sizeof *labels);
}

/* Add one batch's loss, correct predictions and number of samples to `sum`. The loss operators count them on the
 * device. */
static gs_status add_counts(trainer *t, double sum[GS_STATS]) {
    float counts[GS_STATS];
    GS_TRY(t->device->ops->read(t->device, counts, gs_model_stats(t->model), sizeof counts));
    for (int i = 0; i < GS_STATS; i++) sum[i] += (double)counts[i];
    return GS_OK;
}

static gs_status train_epoch(trainer *t, uint64_t epoch, double sum[GS_STATS]) {
    gs_epoch_order(1, epoch, t->train->count, t->order);
    for (size_t first = 0; first < t->train->count; first += BATCH) {
        size_t left = t->train->count - first;
        gs_pass pass = {.n = left < BATCH ? left : BATCH, .training = true};
        gs_mem logits;
        GS_TRY(load(t, t->train, t->order + first, 0, pass.n));
        GS_TRY(gs_model_clear_gradients(t->model));
        GS_TRY(gs_model_forward(t->model, &pass, t->x, &logits));
        GS_TRY(gs_model_loss(t->model, &pass, logits, t->labels));
        GS_TRY(gs_model_backward(t->model, &pass, logits, t->labels));
        /* Gradients are sums over the batch: the update divides by the number of samples. */
        GS_TRY(gs_optimizer_update(t->optimizer, (double)pass.n));
        GS_TRY(add_counts(t, sum));
    }
    return GS_OK;
}

static gs_status test(trainer *t, double sum[GS_STATS]) {
    for (size_t first = 0; first < t->test->count; first += BATCH) {
        size_t left = t->test->count - first;
        gs_pass pass = {.n = left < BATCH ? left : BATCH, .training = false};
        gs_mem logits;
        GS_TRY(load(t, t->test, NULL, first, pass.n));
        GS_TRY(gs_model_clear_stats(t->model));
        GS_TRY(gs_model_forward(t->model, &pass, t->x, &logits));
        GS_TRY(gs_model_loss(t->model, &pass, logits, t->labels));
        GS_TRY(add_counts(t, sum));
    }
    return GS_OK;
}

static gs_status run(trainer *t, const char *device) {
    GS_TRY(open_all(t, device));
    for (uint64_t epoch = 1; epoch <= EPOCHS; epoch++) {
        double seen[GS_STATS] = {0}, tested[GS_STATS] = {0};
        GS_TRY(train_epoch(t, epoch, seen));
        GS_TRY(test(t, tested));
        printf("epoch %d: train loss %.3f, test accuracy %.1f %%\n", (int)epoch,
               seen[GS_STAT_LOSS] / seen[GS_STAT_SAMPLES],
               100 * tested[GS_STAT_CORRECT] / tested[GS_STAT_SAMPLES]);
    }
    return GS_OK;
}

int main(int argc, char **argv) {
    trainer t = {0};
    gs_status status = run(&t, argc > 1 ? argv[1] : "cpu");
    if (status != GS_OK) fprintf(stderr, "%s\n", gs_message());
    close_all(&t);
    return status == GS_OK ? 0 : 1;
}
