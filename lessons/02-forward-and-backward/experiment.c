/* How far finite differences with each step h are from backward's gradient.
 *
 *     make build/lessons/02/experiment && build/lessons/02/experiment
 *     build/lessons/02/experiment seeds       only the best h, for 7 seeds
 *     build/lessons/02/experiment wrong       training with wrong gradients, with 7 seeds
 *
 * The loss is that of a small network (tanh, so that it has no kinks) over 32 images; the weight is the one with the
 * largest gradient. The network computes in f32; the loss is summed from its logits in double. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "train/train.h"

enum { N = 32, CLASSES = 10, PIXELS = 784, STEPS = 20 /* h = 1/2 ... 2^-20 */, SEEDS = 7 };
static const char MODEL[] = "flatten, linear 64, tanh, linear 10";

typedef struct experiment {
    gs_device *device;
    gs_model *model;
    gs_mem x, labels;
    int32_t host_labels[N];
    gs_pass pass;
} experiment;

static gs_status prepare(experiment *e, uint64_t seed) {
    gs_dataset *set;
    static unsigned char bytes[N * PIXELS];
    static float images[N * PIXELS];
    GS_TRY(gs_device_open("cpu", 1, &e->device));
    const gs_backend *ops = e->device->ops;
    GS_TRY(gs_dataset_load("fashion-mnist-small", GS_TRAIN, &set));
    gs_scaling s = gs_dataset_scaling(set);
    const gs_model_config config = {.text = MODEL, .in = set->shape, .max_batch = N, .seed = seed};
    GS_TRY(gs_model_create(e->device, &config, &e->model));
    gs_dataset_gather(set, NULL, 0, N, bytes, e->host_labels);
    gs_dataset_free(set);
    for (int i = 0; i < N * PIXELS; i++) images[i] = ((float)bytes[i] / 255 - s.mean.of[0]) / s.std.of[0];
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

/* The two quotients of one weight, for each h: how far off they are, in parts of backward's gradient. */
typedef struct errors {
    size_t weight;
    double gradient, one_sided[STEPS + 1], central[STEPS + 1]; /* [k]: h = 2^-k, from 1 on */
} errors;

static gs_status measure(experiment *e, uint64_t seed, errors *r) {
    double here, above, below;
    GS_TRY(prepare(e, seed));
    GS_TRY(backward(e));
    const float *gradients = e->model->gradients.base;
    r->weight = 0;
    for (size_t i = 1; i < e->model->params; i++)
        if (fabsf(gradients[i]) > fabsf(gradients[r->weight])) r->weight = i;
    r->gradient = (double)gradients[r->weight];
    float *w = (float *)e->model->weights.base + r->weight;
    GS_TRY(loss(e, &here));
    for (int k = 1; k <= STEPS; k++) {
        const float h = ldexpf(1, -k), kept = *w, up = kept + h, down = kept - h;
        *w = up;
        GS_TRY(loss(e, &above));
        *w = down;
        GS_TRY(loss(e, &below));
        *w = kept;
        double one_sided = (above - here) / ((double)up - (double)kept);
        double central = (above - below) / ((double)up - (double)down);
        r->one_sided[k] = fabs(one_sided / r->gradient - 1);
        r->central[k] = fabs(central / r->gradient - 1);
    }
    return GS_OK;
}

static gs_status measure_alone(uint64_t seed, errors *r) {
    experiment e = {0};
    gs_status status = measure(&e, seed, r);
    if (e.device) e.device->ops->free(e.device, e.x);
    if (e.device) e.device->ops->free(e.device, e.labels);
    gs_model_free(e.model);
    gs_device_close(e.device);
    return status;
}

static gs_status show_all(void) {
    errors r;
    GS_TRY(measure_alone(1, &r));
    printf("# weight %zu, backward's gradient %.7g\n", r.weight, r.gradient);
    printf("# how far the quotients are off, in parts of it\n");
    printf("# %-12s %-12s %s\n", "h", "one-sided", "central");
    for (int k = 1; k <= STEPS; k++)
        printf("  %-12.3g %-12.2e %.2e\n", ldexp(1, -k), r.one_sided[k], r.central[k]);
    return GS_OK;
}

static int best_of(const double *error) {
    int best = 1;
    for (int k = 2; k <= STEPS; k++)
        if (error[k] < error[best]) best = k;
    return best;
}

static gs_status show_best(void) {
    printf("# %-6s %-31s %s\n", "seed", "one-sided: best h, error", "central: best h, error");
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        errors r;
        GS_TRY(measure_alone(seed, &r));
        int one_sided = best_of(r.one_sided), central = best_of(r.central);
        printf("  %-6d %-14.3g %-16.2e %-14.3g %.2e\n", (int)seed, ldexp(1, -one_sided),
               r.one_sided[one_sided], ldexp(1, -central), r.central[central]);
    }
    return GS_OK;
}

/* ---- wrong gradients: common mistakes ---- */

static gs_backend library;

/* On "cpu" the memory is the host's. */
static float *host(gs_mem m) {
    return (float *)m.base + m.at;
}

/* The factor 1 - y^2 is forgotten. */
static gs_status tanh_without_slope(gs_device *d, gs_mem dx, gs_mem dy, gs_mem y, size_t count) {
    (void)d, (void)y;
    memmove(host(dx), host(dy), count * sizeof(float));
    return GS_OK;
}

/* Biases never change. */
static gs_status linear_without_db(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                   gs_mem w, size_t n, int in, int out, bool add, const gs_epilogue *then) {
    GS_TRY(library.linear_backward(d, dx, dw, db, dy, x, w, n, in, out, add, then));
    return db.base ? d->ops->fill(d, db, 0, (size_t)out) : GS_OK;
}

/* Only the label's logit is pushed, and none of the others. */
static gs_status label_alone(gs_device *d, gs_mem dx, gs_mem p, gs_mem labels, size_t n, int classes,
                             float smoothing) {
    GS_TRY(library.softmax_cross_entropy_backward(d, dx, p, labels, n, classes, smoothing));
    const int32_t *label = (const int32_t *)(const void *)host(labels);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < classes; k++)
            if (k != label[i]) host(dx)[i * (size_t)classes + (size_t)k] = 0;
    return GS_OK;
}

static void right(gs_backend *table) {
    library = *table;
}

static void forget_slope(gs_backend *table) {
    table->tanh_backward = tanh_without_slope;
}

static void forget_db(gs_backend *table) {
    table->linear_backward = linear_without_db;
}

static void forget_others(gs_backend *table) {
    table->softmax_cross_entropy_backward = label_alone;
}

static gs_status show_wrong(void) {
    static void (*const edit[])(gs_backend *) = {right, forget_slope, forget_db, forget_others};
    enum { GRADIENTS = sizeof edit / sizeof *edit };
    int worse[GRADIENTS] = {0};
    printf("# test accuracy in %% after 5 epochs of \"%s\", batch 128, lr 0.05\n", MODEL);
    printf("# seed     right   tanh: dx = dy   db = 0   dx at the label alone\n");
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        double accuracy[GRADIENTS] = {0};
        for (int i = 0; i < GRADIENTS; i++) {
            gs_settings s = gs_settings_default();
            gs_result result = {0};
            s.model = MODEL;
            s.devices = "cpu";
            s.threads = 1;
            s.epochs = 5;
            s.seed = seed;
            gs_backend_replace(edit[i]);
            GS_TRY(gs_train(&s, NULL, &result));
            accuracy[i] = result.test_accuracy;
            worse[i] += accuracy[i] < accuracy[0];
            gs_result_free(&result);
        }
        printf("  %-6d %7.1f %15.1f %8.1f %23.1f\n", (int)seed, 100 * accuracy[0], 100 * accuracy[1],
               100 * accuracy[2], 100 * accuracy[3]);
    }
    printf("# worse than right:  %2d of %d   %d of %d %18d of %d\n", worse[1], SEEDS, worse[2], SEEDS,
           worse[3], SEEDS);
    return GS_OK;
}

int main(int argc, char **argv) {
    gs_cpu_choose_kernels(argv);
    const char *word = argc > 1 ? argv[1] : "";
    gs_status status = strcmp(word, "seeds") == 0   ? show_best()
                       : strcmp(word, "wrong") == 0 ? show_wrong()
                                                    : show_all();
    if (status != GS_OK) fprintf(stderr, "experiment: %s\n", gs_message());
    return status == GS_OK ? 0 : 1;
}
