/* A training loop by hand, with the calls that a trainer makes for you: images to the device, forward, loss, backward,
 * update; then the accuracy on the test images. `./training_loop cl` runs it on the first OpenCL device.
 *
 *     cc training_loop.c $(pkg-config --cflags --libs gradsum) -o training_loop && ./training_loop */
#include <data/order.h>
#include <gradsum.h>
#include <layer/make.h>
#include <optim/optimizer.h>
#include <stdio.h>

enum { BATCH = 100, EPOCHS = 3, IMAGES = 6000, PIXELS = 28 * 28 };

typedef struct loop {
    gs_dataset *train, *test;
    gs_device *device;
    gs_model *model;
    gs_optimizer *optimizer;
    gs_mem x, labels; /* a batch in the device's memory */
} loop;

static gs_status open_all(loop *l, const char *device) {
    GS_TRY(gs_dataset_load("fashion-mnist-small", GS_TRAIN, &l->train));
    GS_TRY(gs_dataset_load("fashion-mnist-small", GS_TEST, &l->test));
    GS_TRY(gs_device_open(device, 1, &l->device));
    /* Constructors create the layers, and derive and check their shapes from that of an image. */
    gs_layer *layers[] = {gs_flatten(), gs_linear(64, true), gs_relu(), gs_linear(10, true)};
    gs_model_config config = {.net = gs_sequential(4, layers), .in = gs_dataset_shape(l->train)};
    config.max_batch = BATCH;
    config.seed = 1;
    GS_TRY(gs_model_create(l->device, &config, &l->model));
    GS_TRY(gs_optimizer_create(&gs_sgd, l->model, 0.05f, 0.9f, 0, &l->optimizer));
    GS_TRY(l->device->ops->alloc(l->device, sizeof(float) * BATCH * (PIXELS + 1), &l->x));
    l->labels = gs_at(l->x, BATCH * PIXELS); /* as many numbers further on */
    return GS_OK;
}

static void close_all(loop *l) {
    gs_optimizer_free(l->optimizer);
    gs_model_free(l->model);
    if (l->device) l->device->ops->free(l->device, l->x);
    gs_device_close(l->device);
    gs_dataset_free(l->train);
    gs_dataset_free(l->test);
}

/* Copies samples order[0..n-1] to the device. */
static gs_status load(loop *l, const gs_dataset *set, const uint32_t *order, size_t n) {
    static unsigned char bytes[BATCH * PIXELS];
    static float x[BATCH * PIXELS];
    int32_t labels[BATCH];
    GS_TRY(gs_dataset_gather(set, order, 0, n, bytes, labels));
    for (size_t i = 0; i < n * PIXELS; i++)
        x[i] = (float)bytes[i] / 255 - 0.3f; /* 0.3: about the mean of all pixels */
    GS_TRY(l->device->ops->write(l->device, l->x, x, n * PIXELS * sizeof *x));
    return l->device->ops->write(l->device, l->labels, labels, n * sizeof *labels);
}

/* Runs through a set once. sum: loss, correct predictions and samples, which the loss counts on the device. */
static gs_status go_through(loop *l, const gs_dataset *set, uint64_t epoch, bool training,
                            double sum[GS_STATS]) {
    static uint32_t order[IMAGES];
    const size_t count = gs_dataset_count(set);
    gs_epoch_order(1, epoch, count, order);
    for (size_t first = 0; first < count; first += BATCH) {
        gs_pass pass = {.n = count - first < BATCH ? count - first : BATCH, .training = training};
        float counts[GS_STATS];
        gs_mem logits;
        GS_TRY(load(l, set, order + first, pass.n));
        GS_TRY(gs_model_clear_gradients(l->model));
        GS_TRY(gs_model_forward(l->model, &pass, l->x, &logits));
        GS_TRY(gs_model_loss(l->model, &pass, logits, l->labels));
        if (training) {
            GS_TRY(gs_model_backward(l->model, &pass, logits, l->labels));
            /* Gradients are sums over the batch: the update divides by the number of samples. */
            GS_TRY(gs_optimizer_update(l->optimizer, (double)pass.n));
        }
        GS_TRY(l->device->ops->read(l->device, counts, gs_model_stats(l->model), sizeof counts));
        for (int i = 0; i < GS_STATS; i++) sum[i] += (double)counts[i];
    }
    return GS_OK;
}

static gs_status run(loop *l, const char *device) {
    GS_TRY(open_all(l, device));
    for (uint64_t epoch = 1; epoch <= EPOCHS; epoch++) {
        double seen[GS_STATS] = {0}, tested[GS_STATS] = {0};
        GS_TRY(go_through(l, l->train, epoch, true, seen));
        GS_TRY(go_through(l, l->test, epoch, false, tested));
        printf("epoch %d: train loss %.3f, test accuracy %.1f %%\n", (int)epoch,
               seen[GS_STAT_LOSS] / seen[GS_STAT_SAMPLES],
               100 * tested[GS_STAT_CORRECT] / tested[GS_STAT_SAMPLES]);
    }
    return GS_OK;
}

int main(int argc, char **argv) {
    loop l = {0};
    gs_status status = run(&l, argc > 1 ? argv[1] : "cpu");
    if (status != GS_OK) fprintf(stderr, "%s\n", gs_message());
    close_all(&l);
    return status == GS_OK ? 0 : 1;
}
