/* State that is not learned: with every strategy it is the same on all workers, and a mean over all samples. */
#include <math.h>
#include "data/order.h"
#include "layer/leaves.h"
#include "layer/make.h"
#include "tests/support/ranks.h"
#include "tests/support/training.h"

enum { WIDTH = 3, SAMPLES = 60, BATCH = 7, EPOCHS = 2, CLASSES = 4, WORKERS = 3, LABELS = SAMPLES };

/* ---- a layer with a running mean: y = x - mean, then mean = mean / 2 + (mean of x over all tokens) / 2 ---- */

static gs_status centre_plan(gs_layer *l, gs_shape in) {
    l->out = in;
    return gs_layer_state(l, "mean", 1, (int[]){in.c}, 0.25f);
}

static gs_status centre_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const gs_param *p = &l->param[0];
    float mean[WIDTH], next[WIDTH], each = 1 / (float)gs_shape_tokens(l->in);
    size_t bytes = gs_layer_tokens(l, pass) * sizeof mean;
    float *v = gs_test_malloc(bytes);
    if (!v) return gs_fail(GS_E_MEMORY, "no memory for a test");
    gs_device *d = l->device;
    gs_status status = d->ops->read(d, mean, p->w, sizeof mean);
    if (status == GS_OK) status = d->ops->read(d, next, p->dw, sizeof next);
    if (status == GS_OK) status = d->ops->read(d, v, x, bytes);
    if (pass->fresh) memset(next, 0, sizeof next);
    for (size_t i = 0; status == GS_OK && i < bytes / sizeof *v; i++) {
        next[i % WIDTH] += each * (0.5f * mean[i % WIDTH] + 0.5f * v[i]);
        v[i] -= mean[i % WIDTH];
    }
    if (status == GS_OK) status = d->ops->write(d, l->y, v, bytes);
    if (status == GS_OK && pass->training) status = d->ops->write(d, p->dw, next, sizeof next);
    *y = l->y;
    return status;
}

static gs_status centre_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    (void)l, (void)pass;
    *dx = dy;
    return GS_OK;
}

static void centre_describe(const gs_layer *l, char *text, size_t size) {
    (void)l;
    snprintf(text, size, "centre");
}

static const gs_layer_ops centre = {.name = "centre",
                                    .buffers = GS_OWN,
                                    .plan = centre_plan,
                                    .forward = centre_forward,
                                    .backward = centre_backward,
                                    .describe = centre_describe};

/* ---- a run of workers with this layer ---- */

typedef struct training {
    gs_settings settings;
    gs_dataset *set;
    gs_result result[WORKERS];
} training;

static float input(size_t i) {
    return sinf((float)i) + 0.1f * (float)(i % WIDTH);
}

/* A set of SAMPLES tokens, with `tokens` per sample. */
static gs_dataset *make_set(int tokens) {
    float x[SAMPLES * WIDTH];
    int32_t labels[LABELS];
    gs_dataset *set;
    for (size_t i = 0; i < SAMPLES * WIDTH; i++) x[i] = input(i);
    for (size_t i = 0; i < LABELS; i++) labels[i] = (int32_t)(i * i % CLASSES);
    gs_shape in = {WIDTH, 1, 1, tokens};
    size_t count = SAMPLES / (size_t)tokens;
    return gs_test_set(gs_dataset_from_token_labels("waves", count, in, x, tokens, labels, &set), &set);
}

/* Gives a worker a model that no settings can express. */
static gs_status change_model(gs_worker *w) {
    gs_layer *const layers[] = {gs_linear(WIDTH, true), gs_layer_new(&centre, sizeof(gs_layer), 0),
                                gs_linear(CLASSES, true)};
    gs_layer *const first[] = {gs_layer_new(&centre, sizeof(gs_layer), 0), gs_sequential(3, layers)};
    const gs_settings *s = w->settings;
    gs_optimizer_free(w->optimizer);
    w->optimizer = NULL;
    gs_model_free(w->model);
    gs_model_config config = {.net = gs_sequential(2, first), .in = w->train_set->shape, .seed = s->seed};
    config.max_batch = w->input.most;
    GS_TRY(gs_model_create(w->device, &config, &w->model));
    if (w->schedule.leaves > 1) GS_TRY(gs_layer_make_leaves(w->model->net, w->schedule.leaves));
    gs_partition_free(&w->partition);
    GS_TRY(gs_partition_plan(w, w->comm->rank, &w->partition));
    w->sync_most = w->model->saved + GS_STATS;
    const gs_hyperparameters n = gs_settings_numbers(s);
    return gs_optimizer_create(s->optimizer, w->model, n.lr, n.momentum, n.weight_decay, &w->optimizer);
}

static gs_status train(gs_comm *comm, void *context) {
    training *t = context;
    gs_worker w;
    GS_TRY(gs_worker_create(&w, &t->settings, "cpu", comm, 1, GS_NOT_SCALED, t->set, t->set));
    gs_status status = change_model(&w);
    if (status == GS_OK) status = gs_train_epochs(&w, &t->result[comm->rank]);
    gs_worker_free(&w);
    return status;
}

static gs_settings plain(void) {
    gs_settings s = gs_settings_default();
    s.model = "linear 4"; /* replaced by change_model */
    s = gs_test_with(s, "--batch %d --epochs %d --threads 1", BATCH, EPOCHS);
    return s;
}

enum { PARAMS = WIDTH * WIDTH + WIDTH + CLASSES * WIDTH + CLASSES, SAVED = PARAMS + 2 * WIDTH };

/* Trains; checks that all workers have the same weights and state, and returns them in this order. */
static void run_tokens(gs_settings settings, int workers, int tokens, float weights[SAVED]) {
    training t = {.settings = settings, .set = make_set(tokens)};
    gs_test_layout layout = {.name = "threads", .workers = {workers}};
    gs_test_ranks_ok(&layout, train, &t);
    for (int r = 0; r < workers; r++) {
        assert_int_equal(t.result[r].params, PARAMS);
        assert_memory_equal(t.result[r].weights, t.result[0].weights, SAVED * sizeof(float));
    }
    memcpy(weights, t.result[0].weights, SAVED * sizeof(float));
    for (int r = 0; r < workers; r++) gs_result_free(&t.result[r]);
}

static void run(gs_settings settings, int workers, float weights[SAVED]) {
    run_tokens(settings, workers, 1, weights);
}

/* The first layer's state, computed by a loop in the test. */
static void expect(size_t tokens, float mean[WIDTH]) {
    const size_t samples = SAMPLES / tokens;
    uint32_t order[SAMPLES];
    for (int j = 0; j < WIDTH; j++) mean[j] = 0.25f;
    for (uint64_t epoch = 1; epoch <= EPOCHS; epoch++) {
        gs_epoch_order(1, epoch, samples, order);
        for (size_t first = 0; first < samples; first += BATCH) {
            size_t n = samples - first < BATCH ? samples - first : BATCH;
            for (size_t j = 0; j < WIDTH; j++) {
                double sum = 0;
                for (size_t i = 0; i < n * tokens; i++)
                    sum += (double)input((order[first + i / tokens] * tokens + i % tokens) * WIDTH + j);
                mean[j] = (float)(0.5 * (double)mean[j] + 0.5 * sum / (double)(n * tokens));
            }
        }
    }
}

static void assert_close(const float *a, const float *b, size_t first, size_t end) {
    for (size_t i = first; i < end; i++) assert_near(a[i], b[i], 1e-5, 0);
}

static void is_close(gs_settings s, int workers, const float *wanted, size_t first, size_t end) {
    float x[SAVED];
    run(s, workers, x);
    assert_close(x, wanted, first, end);
}

TEST(state_is_the_mean_over_all_samples) {
    float mean[WIDTH], alone[SAVED];
    gs_settings s = plain();
    expect(1, mean);
    run(s, 1, alone);
    assert_close(alone + PARAMS, mean, 0, WIDTH);

    s.verify = 1; /* compares weights and state after each step */
    is_close(s, WORKERS, alone, 0, SAVED);
    s.accumulate = 2;
    is_close(s, 2, alone, 0, SAVED);
    s.accumulate = 0;
    s.bucket = 1;
    is_close(s, WORKERS, alone, 0, SAVED);
    s = gs_test_with(s, "--bucket 0 --sync ring");
    s.wire = GS_WIRE_F16; /* which must not round it */
    is_close(s, WORKERS, alone, PARAMS, PARAMS + WIDTH);
    s.bucket = 1;
    is_close(s, WORKERS, alone, PARAMS, PARAMS + WIDTH);
    s = gs_test_with(s, "--bucket 0 --wire f32 --sync allreduce --zero 1");
    is_close(s, WORKERS, alone, 0, SAVED);
}

TEST(state_to_the_bit) {
    float one[SAVED], two[SAVED], mean[WIDTH];
    gs_settings s = gs_test_with(plain(), "--exact --verify 1");
    run(s, 1, one);
    run(s, 2, two);
    assert_memory_equal(one, two, sizeof one);
    expect(1, mean);
    assert_close(one + PARAMS, mean, 0, WIDTH);
}

TEST(state_of_workers_that_are_apart) {
    float alone[SAVED], other[SAVED];
    gs_settings s = plain();
    run(s, 1, alone);
    s = gs_test_with(s, "--sync async --staleness 0");
    is_close(s, WORKERS, alone, 0, SAVED);
    s.staleness = 2;
    run(s, WORKERS, other);
    s = gs_test_with(s, "--sync local --every 1 --verify 1");
    s.staleness = -1;
    is_close(s, WORKERS, alone, 0, SAVED);
    s.every = s.verify = 4;
    run(s, WORKERS, other);
}

TEST(state_of_samples_with_tokens) {
    enum { TOKENS = 3 };
    float mean[WIDTH], alone[SAVED], other[SAVED];
    gs_settings s = plain();
    expect(TOKENS, mean);
    run_tokens(s, 1, TOKENS, alone);
    assert_close(alone + PARAMS, mean, 0, WIDTH);
    s.verify = 1;
    run_tokens(s, WORKERS, TOKENS, other);
    assert_close(other, alone, 0, SAVED);
    s = gs_test_with(s, "--sync async --staleness 0");
    s.verify = 0;
    run_tokens(s, WORKERS, TOKENS, other);
    assert_close(other, alone, 0, SAVED);
}
