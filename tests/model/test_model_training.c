/* Whole models: trains them for a few steps and compares with PyTorch. */
#include "layer/layer.h"
#include "tests/support/on_devices.h"
#include "tests/support/golden.h"
#include "tests/support/operators.h"

typedef struct model_case {
    const char *name;
    size_t n;
    gs_shape in;
    gs_loss loss;
    const char *text;
} model_case;

static const model_case cases[] = {
#define MODEL(name, n, c, h, w, loss, text) {#name, n, {c, h, w, 0}, loss, text},
#include "tests/support/model_cases.h"
#undef MODEL
};
enum { CASES = sizeof cases / sizeof *cases };

/* A model on a device with one global batch. */
typedef struct trainer {
    const model_case *c;
    gs_device *device;
    gs_model *model;
    gs_optimizer *optimizer;
    size_t part; /* samples per micro-batch */
    gs_mem x, labels;
    float *logits, *floats; /* (n, classes); params + GS_STATS */
} trainer;

static void trainer_open(trainer *t, gs_device *device, const model_case *c, size_t part) {
    *t = (trainer){.c = c, .device = device, .part = part};
    t->model =
        gs_test_model(device, .text = c->text, .in = c->in, .max_batch = part, .loss = c->loss, .seed = 1);
    assert_ok(gs_optimizer_create(&gs_sgd, t->model, 0.1f, 0.9f, 0.01f, &t->optimizer));
    t->x = gs_test_alloc(device, c->n * gs_shape_size(c->in) * sizeof(float));
    t->labels = gs_test_alloc(device, c->n * sizeof(int32_t));
    t->logits = gs_test_malloc(c->n * gs_shape_size(t->model->out) * sizeof(float));
    t->floats = gs_test_malloc((t->model->saved + GS_STATS) * sizeof(float));
    gs_model_initial_values(t->model, 1, t->floats); /* which include the state */
    for (int p = 0; p < t->model->param_count; p++)
        for (size_t i = 0; i < t->model->param[p]->count; i++)
            t->floats[t->model->param[p]->at + i] = test_value(i, 100 + (uint32_t)p) / 4;
    assert_ok(gs_model_write_weights(t->model, t->floats));
}

static void trainer_close(trainer *t) {
    gs_optimizer_free(t->optimizer);
}

/* Forward and backward of this step's batch, in micro-batches; reads `logits` back. */
static void trainer_gradients(trainer *t, uint32_t step) {
    size_t size = gs_shape_size(t->c->in), classes = gs_shape_size(t->model->out), n = t->c->n;
    float *x = gs_test_malloc(n * size * sizeof *x);
    int32_t *labels = gs_test_malloc(n * sizeof *labels);
    const uint32_t vocabulary = (uint32_t)gs_layer_vocabulary(t->model->net), salt = SALT_X + 10 * step;
    for (size_t i = 0; i < n * size; i++)
        x[i] = vocabulary > 0 ? (float)(test_hash(i, salt) % vocabulary) : test_value(i, salt);
    for (size_t i = 0; i < n; i++) labels[i] = (int32_t)(test_hash(i, SALT_LABELS + 10 * step) % classes);
    assert_ok(t->device->ops->write(t->device, t->x, x, n * size * sizeof *x));
    assert_ok(t->device->ops->write(t->device, t->labels, labels, n * sizeof *labels));
    assert_ok(gs_model_clear_gradients(t->model));
    for (size_t first = 0; first < n; first += t->part) {
        gs_pass pass = {
            .n = n - first < t->part ? n - first : t->part, .training = true, .seed = 5, .step = step};
        gs_mem logits, here = gs_at(t->labels, first);
        assert_ok(gs_model_forward(t->model, &pass, gs_at(t->x, first * size), &logits));
        assert_ok(gs_model_loss(t->model, &pass, logits, here));
        assert_ok(t->device->ops->read(t->device, t->logits + first * classes, logits,
                                       pass.n * classes * sizeof(float)));
        assert_ok(gs_model_backward(t->model, &pass, logits, here));
    }
}

/* Checks the first `count` tensors: the parameters, followed by the state. */
static void check_tensors(const trainer *t, const char *prefix, int count) {
    for (int p = 0; p < count; p++) {
        const gs_param *param = t->model->param[p];
        const char *name = gs_test_format("%s%s", prefix, param->name);
        golden_check("model", t->c->name, name, t->floats + param->at, param->count, 1e-5, t->device->name);
    }
}

static void check_training(gs_device *device, const model_case *c, size_t part) {
    trainer t;
    trainer_open(&t, device, c, part);
    size_t saved = t.model->saved;
    for (uint32_t step = 0; step < 3; step++) {
        trainer_gradients(&t, step);
        if (step == 0) {
            golden_check("model", c->name, "logits", t.logits, c->n * gs_shape_size(t.model->out), 1e-5,
                         device->name);
            assert_ok(
                device->ops->read(device, t.floats, t.model->gradients, (saved + GS_STATS) * sizeof(float)));
            golden_check("model", c->name, "stats", t.floats + saved, LOSS_STATS, 1e-5, device->name);
            check_tensors(&t, "gradient:", t.model->param_count);
        }
        assert_ok(gs_optimizer_update(t.optimizer, (double)c->n));
    }
    assert_ok(gs_model_read_weights(t.model, t.floats));
    check_tensors(&t, "", t.model->saved_count);
    trainer_close(&t);
}

static bool is_of_batch(const model_case *c) {
    gs_layer *net = gs_test_net(c->text);
    bool found = gs_layer_depends_on_batch(net);
    return found;
}

/* Trains with whole batches and, unless results depend on it, with micro-batches, of which the last one is smaller. */
TEST(training) {
    FOR_EACH_DEVICE (d)
        for (int i = 0; i < CASES; i++) {
            check_training(d, &cases[i], cases[i].n);
            if (!is_of_batch(&cases[i])) check_training(d, &cases[i], 2);
        }
}

/* A batch without samples: a worker that gets none in the last batch of an epoch still takes part in the step. */
TEST(empty_batch) {
    FOR_EACH_DEVICE (d)
        for (int i = 0; i < CASES; i++) {
            trainer t;
            trainer_open(&t, d, &cases[i], 2);
            gs_pass pass = {.n = 0, .training = true};
            gs_mem logits;
            assert_ok(gs_model_clear_gradients(t.model));
            assert_ok(gs_model_forward(t.model, &pass, t.x, &logits));
            assert_ok(gs_model_loss(t.model, &pass, logits, t.labels));
            assert_ok(gs_model_backward(t.model, &pass, logits, t.labels));
            size_t floats = t.model->saved + GS_STATS;
            assert_ok(d->ops->read(d, t.floats, t.model->gradients, floats * sizeof(float)));
            for (size_t k = 0; k < floats; k++) assert_true(t.floats[k] == 0);
            trainer_close(&t);
        }
}
