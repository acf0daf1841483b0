/* Trains one small GPT with right and wrong weights of tokens, for each of five seeds.
 *
 *     make build/lessons/19/experiment && build/lessons/19/experiment
 *
 * Two workers have WINDOWS windows of the text each. On worker 0 all tokens count, on worker 1 only the last of each
 * window, as when a model learns to answer and the question does not count. This program computes both workers in turn;
 * only the weight of a token in the gradient differs.
 *
 *     over all tokens     1 / (tokens of both)
 *     mean of means       1 / 2 x 1 / (tokens of its worker)
 *
 * The test uses all tokens of windows that are not in the training set. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "data/order.h"
#include "train/train.h"

enum { CONTEXT = 32, WINDOWS = 8, TOKENS = CONTEXT * WINDOWS, STEPS = 200, TESTS = 400, SEEDS = 5 };
static const char MODEL[] = "embedding 155 32 std 0.02, positions std 0.02, "
                            "residual (layer_norm, linear 96, attention 2 causal, linear 32), "
                            "residual (layer_norm, linear 128, gelu, linear 32), layer_norm, tied";

typedef struct experiment {
    gs_device *device;
    gs_dataset *train, *test;
    gs_model *model;
    gs_optimizer *optimizer;
    gs_mem x, labels;
    uint32_t *order;
} experiment;

/* ---- what a token weighs ---- */

static float weight[TOKENS]; /* of each token of the current pass */
static gs_status (*library)(gs_device *, gs_mem, gs_mem, gs_mem, size_t, int, float);

/* dx[i] = weight[i] (p[i] - one at the label) */
static gs_status weighed(gs_device *d, gs_mem dx, gs_mem p, gs_mem labels, size_t n, int classes,
                         float smoothing) {
    GS_TRY(library(d, dx, p, labels, n, classes, smoothing));
    float *row = (float *)dx.base + dx.at; /* on "cpu" the memory is the host's */
    for (size_t i = 0; i < n; i++, row += classes)
        for (int k = 0; k < classes; k++) row[k] *= weight[i];
    return GS_OK;
}

static void edit(gs_backend *table) {
    library = table->softmax_cross_entropy_backward;
    table->softmax_cross_entropy_backward = weighed;
}

/* Worker 1 counts one token of each window. */
static size_t tokens_of(int worker) {
    return worker == 0 ? TOKENS : WINDOWS;
}

static void weigh(int worker, bool mean_of_means) {
    const double all = (double)(tokens_of(0) + tokens_of(1)), own = 2.0 * (double)tokens_of(worker);
    for (int i = 0; i < TOKENS; i++) {
        const bool counts = worker == 0 || i % CONTEXT == CONTEXT - 1;
        weight[i] = counts ? (float)(1 / (mean_of_means ? own : all)) : 0;
    }
}

/* ---- training and test ---- */

static gs_status forward(experiment *e, const gs_dataset *set, const uint32_t *order, size_t first,
                         gs_pass *pass, gs_mem *logits) {
    GS_TRY(gs_dataset_gather(set, order, first, pass->n, e->x.base, e->labels.base));
    GS_TRY(gs_model_forward(e->model, pass, e->x, logits));
    return gs_model_loss(e->model, pass, *logits, e->labels);
}

static gs_status train(experiment *e, uint64_t seed, bool mean_of_means) {
    gs_epoch_order(seed, 1, e->train->count, e->order);
    for (size_t step = 0; step < STEPS; step++) {
        GS_TRY(gs_model_clear_gradients(e->model));
        for (int worker = 0; worker < 2; worker++) {
            gs_pass pass = {.n = WINDOWS, .training = true};
            gs_mem logits;
            weigh(worker, mean_of_means);
            GS_TRY(forward(e, e->train, e->order + (2 * step + (size_t)worker) * WINDOWS, 0, &pass, &logits));
            GS_TRY(gs_model_backward(e->model, &pass, logits, e->labels));
        }
        GS_TRY(gs_optimizer_update(e->optimizer, 1)); /* the weights already divide */
    }
    return GS_OK;
}

static gs_status test(experiment *e, double *loss) {
    double sum = 0, tokens = 0;
    for (size_t first = 0; first < TESTS; first += WINDOWS) {
        gs_pass pass = {.n = WINDOWS};
        gs_mem logits;
        float stats[GS_STATS];
        GS_TRY(gs_model_clear_stats(e->model));
        GS_TRY(forward(e, e->test, NULL, first, &pass, &logits));
        GS_TRY(e->device->ops->read(e->device, stats, gs_model_stats(e->model), sizeof stats));
        sum += (double)stats[GS_STAT_LOSS];
        tokens += (double)stats[GS_STAT_SAMPLES];
    }
    *loss = sum / tokens;
    return GS_OK;
}

static gs_status run(experiment *e, uint64_t seed, bool mean_of_means, double *loss) {
    gs_model_free(e->model);
    gs_optimizer_free(e->optimizer);
    e->optimizer = NULL;
    const gs_model_config config = {.text = MODEL, .in = e->train->shape, .max_batch = WINDOWS, .seed = seed};
    GS_TRY(gs_model_create(e->device, &config, &e->model));
    GS_TRY(gs_optimizer_create(&gs_adamw, e->model, 3e-3f, 0, 0.01f, &e->optimizer));
    GS_TRY(train(e, seed, mean_of_means));
    return test(e, loss);
}

static gs_status run_all(experiment *e) {
    const gs_text_options options = {.context = CONTEXT};
    gs_backend_replace(edit);
    GS_TRY(gs_device_open("cpu", 1, &e->device));
    GS_TRY(gs_dataset_load_with("jargon", GS_TRAIN, GS_LABELS_FINE, &options, NULL, &e->train));
    GS_TRY(gs_dataset_load_with("jargon", GS_TEST, GS_LABELS_FINE, &options, NULL, &e->test));
    GS_TRY(e->device->ops->alloc(e->device, sizeof(float) * TOKENS, &e->x));
    GS_TRY(e->device->ops->alloc(e->device, sizeof(int32_t) * TOKENS, &e->labels));
    e->order = malloc(e->train->count * sizeof *e->order);
    if (!e->order) return gs_fail(GS_E_MEMORY, "no memory for %zu windows", e->train->count);
    printf("# tokens that count: worker 0 %zu, worker 1 %zu; perplexity of the test after %d steps\n",
           tokens_of(0), tokens_of(1), STEPS);
    printf("# seed   over all tokens   mean of means\n");
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        double right, wrong;
        GS_TRY(run(e, seed, false, &right));
        GS_TRY(run(e, seed, true, &wrong));
        printf("  %-8d %-17.2f %.2f\n", (int)seed, exp(right), exp(wrong));
    }
    return GS_OK;
}

int main(void) {
    experiment e = {0};
    const gs_status status = run_all(&e);
    if (status != GS_OK) fprintf(stderr, "experiment: %s\n", gs_message());
    free(e.order);
    gs_model_free(e.model);
    gs_optimizer_free(e.optimizer);
    if (e.device) e.device->ops->free(e.device, e.x);
    if (e.device) e.device->ops->free(e.device, e.labels);
    gs_device_close(e.device);
    gs_dataset_free(e.train);
    gs_dataset_free(e.test);
    return status == GS_OK ? 0 : 1;
}
