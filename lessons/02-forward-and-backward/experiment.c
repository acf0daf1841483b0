/* Finite differences with every step h, beside the gradient of backward: how far off are they?
 *
 *     make build/lessons/02/experiment && build/lessons/02/experiment
 *
 * The loss is that of a small network (tanh, so that it has no kinks) over 32 images; the weight is the one with the
 * largest gradient. The network computes in f32; the loss is summed from its logits in double. */
#include <math.h>
#include <stdio.h>
#include "gradsum.h"

enum { N = 32, CLASSES = 10, PIXELS = 784 };

typedef struct experiment {
    gs_device *device;
    gs_model *model;
    gs_mem x, labels;
    int32_t host_labels[N];
    gs_pass pass;
} experiment;

static gs_status prepare(experiment *e) {
    gs_dataset *set;
    static unsigned char bytes[N * PIXELS];
    static float images[N * PIXELS];
    GS_TRY(gs_device_open("cpu", 1, &e->device));
    const gs_backend *ops = e->device->ops;
    GS_TRY(gs_dataset_load("fashion-mnist-small", GS_TRAIN, &set));
    gs_scaling s = gs_dataset_scaling(set);
    GS_TRY(gs_model_create(e->device, "flatten, linear 64, tanh, linear 10", set->shape, N,
                           GS_SOFTMAX_CROSS_ENTROPY, 1, &e->model));
    gs_dataset_gather(set, NULL, 0, N, bytes, e->host_labels);
    gs_dataset_free(set);
    for (int i = 0; i < N * PIXELS; i++) images[i] = ((float)bytes[i] / 255 - s.mean) / s.std;
    GS_TRY(ops->alloc(e->device, sizeof images, &e->x));
    GS_TRY(ops->alloc(e->device, sizeof e->host_labels, &e->labels));
    GS_TRY(ops->write(e->device, e->x, images, sizeof images));
    GS_TRY(ops->write(e->device, e->labels, e->host_labels, sizeof e->host_labels));
    e->pass = (gs_pass){.n = N, .training = true};
    return GS_OK;
}

static gs_status backward(experiment *e) {
    gs_mem logits;
    GS_TRY(gs_model_clear_gradients(e->model));
    GS_TRY(gs_model_forward(e->model, &e->pass, e->x, &logits));
    GS_TRY(gs_model_loss(e->model, &e->pass, logits, e->labels));
    return gs_model_backward(e->model, &e->pass, logits, e->labels);
}

static gs_status loss(experiment *e, double *sum) {
    gs_mem logits;
    float y[N * CLASSES];
    GS_TRY(gs_model_forward(e->model, &e->pass, e->x, &logits));
    GS_TRY(e->device->ops->read(e->device, y, logits, sizeof y));
    *sum = 0;
    for (int i = 0; i < N; i++) {
        double exps = 0, at_label = (double)y[i * CLASSES + e->host_labels[i]];
        for (int k = 0; k < CLASSES; k++) exps += exp((double)y[i * CLASSES + k] - at_label);
        *sum += log(exps);
    }
    return GS_OK;
}

static gs_status run(experiment *e) {
    double here;
    GS_TRY(prepare(e));
    GS_TRY(backward(e));
    const float *gradients = e->model->gradients.base; /* on "cpu" the memory is the host's */
    size_t largest = 0;
    for (size_t i = 1; i < e->model->params; i++)
        if (fabsf(gradients[i]) > fabsf(gradients[largest])) largest = i;
    double gradient = (double)gradients[largest];
    float *w = (float *)e->model->weights.base + largest;
    GS_TRY(loss(e, &here));
    printf("# weight %zu, backward's gradient %.7g\n", largest, gradient);
    printf("# how far the quotients are off, in parts of it\n");
    printf("# %-12s %-12s %s\n", "h", "one-sided", "central");
    for (int k = 1; k <= 20; k++) {
        const float h = ldexpf(1, -k), kept = *w, up = kept + h, down = kept - h;
        double above, below;
        *w = up;
        GS_TRY(loss(e, &above));
        *w = down;
        GS_TRY(loss(e, &below));
        *w = kept;
        double one_sided = (above - here) / ((double)up - (double)kept);
        double central = (above - below) / ((double)up - (double)down);
        printf("  %-12.3g %-12.2e %.2e\n", (double)h, fabs(one_sided / gradient - 1),
               fabs(central / gradient - 1));
    }
    return GS_OK;
}

int main(int argc, char **argv) {
    (void)argc;
    gs_cpu_choose_kernels(argv);
    experiment e = {0};
    gs_status status = run(&e);
    if (status != GS_OK) fprintf(stderr, "experiment: %s\n", gs_message());
    if (e.device) e.device->ops->free(e.device, e.x);
    if (e.device) e.device->ops->free(e.device, e.labels);
    gs_model_free(e.model);
    gs_device_close(e.device);
    return status == GS_OK ? 0 : 1;
}
