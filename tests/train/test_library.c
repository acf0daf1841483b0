/* Features for programs that use the library directly: models built from layers, data from memory, targets. */
#include <math.h>
#include "layer/make.h"
#include "model/model_text.h"
#include "tests/support/on_devices.h"
#include "tests/support/operators.h"
#include "tests/support/training.h"

/* ---- a model of layers ---- */

static const gs_shape image = {2, 8, 8, 0};

/* A net that is parsed, printed as text and parsed again has the same text and the same parameters. */
TEST(text_of_a_net) {
    const char *texts[] = {
        "linear 10",
        "conv 6 5x5 pad 2, relu, max_pool 2, conv 8 3x2 stride 2x1 pad 1x0 no_bias, tanh, avg_pool 2 "
        "stride 1 pad 1, flatten, dropout 0.25, linear 5 no_bias, sigmoid",
        "residual (conv 2 3x3 pad 1, relu), residual (residual (relu | tanh) | conv 2 1x1), global_avg_pool",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        gs_layer *net = gs_test_net(texts[i]);
        char *text = gs_model_text_of(net);
        assert_string_equal(text, texts[i]);
        free(text);
    }
}

static gs_layer *small_net(void) {
    gs_layer *shortcut[] = {gs_conv2d(2, 1, 1, 1, 1, 0, 0, false)};
    return gs_sequential(4, (gs_layer *[]){gs_residual(gs_tanh(), gs_sequential(1, shortcut)), gs_flatten(),
                                           gs_relu(), gs_linear(3, true)});
}

TEST(model_of_layers_is_that_of_the_text) {
    const char *text = "residual (tanh | conv 2 1x1 no_bias), flatten, relu, linear 3";
    gs_device *const *devices = gs_test_devices(NULL);
    gs_model *a = gs_test_model(devices[0], .text = text, .in = image, .max_batch = 4, .seed = 9);
    gs_model *b = gs_test_model(devices[0], .net = small_net(), .in = image, .max_batch = 4, .seed = 9);
    assert_string_equal(b->text, text);
    assert_int_equal(a->params, b->params);
    float w[2][400];
    assert_in_range(a->params, 1, 400);
    assert_ok(gs_model_read_weights(a, w[0]));
    assert_ok(gs_model_read_weights(b, w[1]));
    assert_memory_equal(w[0], w[1], a->params * sizeof(float));
    for (int p = 0; p < a->param_count; p++) assert_string_equal(a->param[p]->name, b->param[p]->name);
}

/* The model owns the net even if creating the model fails; AddressSanitizer would report a leak. */
TEST(nets_that_cannot_be) {
    gs_device *cpu = gs_test_devices(NULL)[0];
    assert_no_model(GS_E_MEMORY, "layers of a model", NULL, .net = NULL, .in = image);
    assert_no_model(GS_E_SHAPE, "layer 0 (linear 3): the input is (2,8,8)", NULL,
                    .net = gs_sequential(1, (gs_layer *[]){gs_linear(3, true)}), .in = image);
    assert_no_model(GS_E_SHAPE, "a loss needs a flat vector", cpu, .net = gs_tanh(), .in = image,
                    .max_batch = 1, .loss = GS_REGRESSION);
}

/* ---- targets ---- */

/* A model, three samples and their targets on a device. */
typedef struct fit {
    gs_device *device;
    gs_model *model;
    gs_pass pass;
    gs_mem x, targets;
} fit;

enum { FIT_INPUTS = 4, FIT_OUTPUTS = 3, FIT_SAMPLES = 3, FIT_PARAMS = 5 * 4 + 5 + 3 * 5 + 3 };

static void fit_open(fit *f, gs_device *d) {
    gs_layer *net =
        gs_sequential(3, (gs_layer *[]){gs_linear(5, true), gs_tanh(), gs_linear(FIT_OUTPUTS, true)});
    float x[FIT_SAMPLES * FIT_INPUTS], targets[FIT_SAMPLES * FIT_OUTPUTS];
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = test_value(i, SALT_X);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) targets[i] = 3 * test_value(i, SALT_DY);
    *f = (fit){.device = d, .pass = {.n = FIT_SAMPLES, .training = true}};
    f->model = gs_test_model(d, .net = net, .in = {FIT_INPUTS, 1, 1, 0}, .max_batch = FIT_SAMPLES,
                             .loss = GS_REGRESSION, .seed = 3);
    assert_int_equal(f->model->params, FIT_PARAMS);
    f->x = gs_test_put(d, x, sizeof x);
    f->targets = gs_test_put(d, targets, sizeof targets);
}

/* Runs forward and the loss, then computes the sum of losses again here from the outputs, in double. */
static double loss_of(fit *f, gs_mem *logits) {
    float y[FIT_SAMPLES * FIT_OUTPUTS], stats[GS_STATS];
    double sum = 0;
    assert_ok(gs_model_clear_stats(f->model));
    assert_ok(gs_model_forward(f->model, &f->pass, f->x, logits));
    assert_ok(gs_model_loss(f->model, &f->pass, *logits, f->targets));
    assert_ok(f->device->ops->read(f->device, y, *logits, sizeof y));
    assert_ok(f->device->ops->read(f->device, stats, gs_model_stats(f->model), sizeof stats));
    for (size_t i = 0; i < sizeof y / sizeof *y; i++) {
        double off = (double)y[i] - (double)(3 * test_value(i, SALT_DY));
        sum += off * off / FIT_OUTPUTS;
    }
    assert_near(stats[GS_STAT_LOSS], sum, 0, 1e-6);
    assert_near(stats[GS_STAT_SAMPLES], FIT_SAMPLES, 0, 0);
    return sum;
}

TEST(targets_by_finite_differences) {
    FOR_EACH_DEVICE (d) {
        fit f;
        gs_mem logits;
        float weights[FIT_PARAMS], got[FIT_PARAMS];
        const float h = 1 / 64.0f, steps[4] = {-2 * h, -h, h, 2 * h};
        fit_open(&f, d);
        assert_ok(gs_model_read_weights(f.model, weights));
        assert_ok(gs_model_clear_gradients(f.model));
        loss_of(&f, &logits);
        assert_ok(gs_model_backward(f.model, &f.pass, logits, f.targets));
        assert_ok(d->ops->read(d, got, f.model->gradients, sizeof got));
        for (size_t i = 0; i < FIT_PARAMS; i++) {
            float kept = weights[i];
            double value[4];
            for (int k = 0; k < 4; k++) {
                weights[i] = kept + steps[k];
                assert_ok(gs_model_write_weights(f.model, weights));
                value[k] = loss_of(&f, &logits);
            }
            weights[i] = kept;
            double want = (8 * (value[2] - value[1]) - (value[3] - value[0])) / (12 * (double)h);
            assert_near(got[i], want, 2e-5, 1e-4); /* the rounding of y, divided by h */
        }
    }
}

/* ---- data from memory ---- */

enum { LINE = 200, LINE_INPUTS = 2 };

/* Points on the plane t = 3 a - 2 b + 1, and on a second plane t = a + b. */
static gs_dataset *plane(int outputs, size_t count, uint32_t salt) {
    float x[LINE * LINE_INPUTS], t[LINE * 2];
    for (size_t i = 0; i < count; i++) {
        float a = x[2 * i] = test_value(2 * i, salt), b = x[2 * i + 1] = test_value(2 * i + 1, salt);
        t[i * (size_t)outputs] = 3 * a - 2 * b + 1;
        if (outputs > 1) t[i * (size_t)outputs + 1] = a + b;
    }
    gs_dataset *set;
    return gs_test_set(
        gs_dataset_from_targets("plane", count, (gs_shape){LINE_INPUTS, 1, 1, 0}, x, outputs, t, &set), &set);
}

static gs_settings plane_settings(const gs_dataset *train, const gs_dataset *test, const char *devices) {
    gs_settings s = gs_test_options("--model 'linear 2' --devices %s --threads 1", devices);
    s.train_set = train;
    s.test_set = test;
    s.loss = GS_REGRESSION;
    s.batch = 30; /* the last batch of an epoch has 20 */
    s = gs_test_with(s, "--epochs 60 --lr 0.2");
    return s;
}

TEST(gs_train_finds_the_plane) {
    gs_dataset *train = plane(2, LINE, 1), *test = plane(2, 50, 2);
    const char *workers[] = {"cpu", "cpu,cpu,cpu", "cl", "cpu,cl"};
    const float want[] = {3, -2, 1, 1, 1, 0}; /* weight (2,2), bias (2) */
    for (size_t k = 0; k < sizeof workers / sizeof *workers; k++) {
        gs_settings s = plane_settings(train, test, workers[k]);
        gs_result result = gs_test_train(&s);
        assert_int_equal(result.steps, 60 * 7);
        assert_int_equal(result.params, 6);
        for (size_t i = 0; i < sizeof want / sizeof *want; i++)
            assert_near(result.weights[i], want[i], 1e-3, 0);
        assert_near(result.test_loss, 0, 1e-6, 0);
        assert_trains_to(&result, &s, workers[k]);
    }
}

/* Two clouds that a line separates. */
TEST(labels_from_memory) {
    float x[LINE * LINE_INPUTS];
    int32_t labels[LINE];
    for (size_t i = 0; i < LINE; i++) {
        labels[i] = (int32_t)(i % 2);
        x[2 * i] = test_value(2 * i, 5) + (labels[i] ? 2 : -2);
        x[2 * i + 1] = test_value(2 * i + 1, 5);
    }
    gs_dataset *set;
    assert_ok(gs_dataset_from_labels("clouds", LINE, (gs_shape){LINE_INPUTS, 1, 1, 0}, x, labels, &set));
    assert_int_equal(set->classes, 2);
    gs_settings s = gs_test_with(plane_settings(set, set, "cpu,cpu"), "--loss cross_entropy");
    gs_result result = gs_test_train(&s);
    assert_near(result.test_accuracy, 1, 0, 0);

    uint32_t order[] = {7, 2};
    float got[4];
    int32_t answers[2];
    gs_dataset_gather(set, order, 0, 2, got, answers);
    assert_memory_equal(got, x + 14, 2 * sizeof(float));
    assert_memory_equal(got + 2, x + 4, 2 * sizeof(float));
    assert_int_equal(answers[0], 1);
    assert_int_equal(answers[1], 0);
    gs_dataset_free(set);
}

TEST(sets_that_cannot_be) {
    const gs_shape shape = {1, 1, 1, 0};
    const float x[3] = {0};
    gs_dataset *set;
    assert_fails(GS_E_USAGE, "none: there are no samples",
                 gs_dataset_from_labels("none", 0, shape, x, (int32_t[]){0}, &set));
    assert_null(set);
    assert_fails(GS_E_USAGE, "a sample is (1,0,1)",
                 gs_dataset_from_labels("flat", 3, (gs_shape){1, 0, 1, 0}, x, (int32_t[]){0, 0, 0}, &set));
    assert_fails(GS_E_FORMAT, "many: the label of sample 2 is 256; wanted 0 to 255",
                 gs_dataset_from_labels("many", 3, shape, x, (int32_t[]){0, 255, 256}, &set));
    assert_fails(GS_E_FORMAT, "the label of sample 0 is -1",
                 gs_dataset_from_labels("low", 3, shape, x, (int32_t[]){-1, 0, 0}, &set));
    assert_fails(GS_E_USAGE, "0 targets per sample", gs_dataset_from_targets("no", 3, shape, x, 0, x, &set));
    assert_null(set);
}

TEST(settings_that_do_not_fit_the_data) {
    gs_dataset *one = plane(1, LINE, 1), *images;
    images = gs_test_load("fashion-mnist-small", GS_TEST);
    gs_result r;
    gs_settings s = plane_settings(one, NULL, "cpu");
    assert_train_fails(GS_E_USAGE, "there is a train_set but no test_set", &s);
    s = plane_settings(one, one, "cpu");
    assert_train_fails(GS_E_SHAPE, "plane has 1 target for each sample, but the model has 2 outputs", &s);
    s.loss = GS_MEAN_SQUARED_ERROR;
    assert_train_fails(GS_E_USAGE, "plane has targets, but this loss needs labels", &s);
    s = gs_test_with(plane_settings(one, one, "cpu"), "--model 'linear 1' --confusion");
    assert_fails(GS_E_USAGE, "a confusion matrix needs classes", gs_eval(&s, NULL, &r));
    s = plane_settings(images, images, "cpu");
    s.model = "softmax";
    assert_train_fails(GS_E_USAGE, "has labels, but this loss needs targets", &s);
    s = plane_settings(one, images, "cpu");
    assert_train_fails(GS_E_FORMAT, "training images are (2,1,1), test images (1,28,28)", &s);
}
