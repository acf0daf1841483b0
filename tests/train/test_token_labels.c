/* Samples with a label for each token, with every strategy, compared with a loop in this test. */
#include <math.h>
#include "data/order.h"
#include "tests/support/training.h"

enum { SAMPLES = 50, TOKENS = 3, INPUTS = 4, CLASSES = 5, BATCH = 7, EPOCHS = 2 };
enum { WEIGHTS = CLASSES * INPUTS, PARAMS = WEIGHTS + CLASSES };

static float x[SAMPLES][TOKENS][INPUTS];
static int32_t label[SAMPLES][TOKENS];

static gs_dataset *make_set(void) {
    gs_dataset *set;
    for (int s = 0; s < SAMPLES; s++)
        for (int t = 0; t < TOKENS; t++) {
            label[s][t] = (s * s + 2 * t) % CLASSES;
            for (int i = 0; i < INPUTS; i++)
                x[s][t][i] = sinf((float)(s * 11 + t * 5 + i)) + 0.3f * (float)(label[s][t] == i);
        }
    gs_shape in = {INPUTS, 1, 1, TOKENS};
    return gs_test_set(
        gs_dataset_from_token_labels("words", SAMPLES, in, &x[0][0][0], TOKENS, &label[0][0], &set), &set);
}

static gs_settings settings_of(const gs_dataset *set, const char *devices) {
    gs_settings s = gs_test_options("--model 'linear 5' --devices %s", devices);
    s.train_set = s.test_set = set;
    s = gs_test_with(s, "--batch %d --epochs %d --threads 1", BATCH, EPOCHS);
    return s;
}

/* ---- the plain loop: softmax regression of each token, with momentum ---- */

typedef struct plain {
    double w[PARAMS], v[PARAMS], loss, correct; /* means over all labels, with the current weights */
} plain;

static int largest(const double *p) {
    int best = 0;
    for (int k = 1; k < CLASSES; k++)
        if (p[k] > p[best]) best = k;
    return best;
}

/* p = softmax(W x + b); returns -log p[wanted] */
static double forward(const double *w, const float *in, int wanted, double *p) {
    double sum = 0;
    for (int k = 0; k < CLASSES; k++) {
        p[k] = w[WEIGHTS + k];
        for (int i = 0; i < INPUTS; i++) p[k] += w[k * INPUTS + i] * (double)in[i];
        sum += p[k] = exp(p[k]);
    }
    for (int k = 0; k < CLASSES; k++) p[k] /= sum;
    return -log(p[wanted]);
}

static void add_gradient(const plain *m, uint32_t sample, double *dw) {
    double p[CLASSES];
    for (int t = 0; t < TOKENS; t++) {
        forward(m->w, x[sample][t], label[sample][t], p);
        for (int k = 0; k < CLASSES; k++) {
            double d = p[k] - (k == label[sample][t]);
            dw[WEIGHTS + k] += d;
            for (int i = 0; i < INPUTS; i++) dw[k * INPUTS + i] += d * (double)x[sample][t][i];
        }
    }
}

static void test_plain(plain *m) {
    double p[CLASSES];
    m->loss = m->correct = 0;
    for (int s = 0; s < SAMPLES; s++)
        for (int t = 0; t < TOKENS; t++) {
            m->loss += forward(m->w, x[s][t], label[s][t], p) / (SAMPLES * TOKENS);
            m->correct += (largest(p) == label[s][t]) / (double)(SAMPLES * TOKENS);
        }
}

static plain train_plain(const gs_settings *s) {
    plain m = {0};
    float initial[PARAMS];
    uint32_t order[SAMPLES];
    gs_model *plan = gs_test_plan(s->model, s->train_set->shape);
    assert_int_equal(plan->params, PARAMS);
    gs_model_initial_values(plan, s->seed, initial);
    for (int i = 0; i < PARAMS; i++) m.w[i] = (double)initial[i];
    const gs_hyperparameters number = gs_settings_numbers(s);
    for (uint64_t epoch = 1; epoch <= EPOCHS; epoch++) {
        gs_epoch_order(s->seed, epoch, SAMPLES, order);
        for (size_t first = 0; first < SAMPLES; first += BATCH) {
            size_t n = SAMPLES - first < BATCH ? SAMPLES - first : BATCH;
            double dw[PARAMS] = {0};
            for (size_t i = 0; i < n; i++) add_gradient(&m, order[first + i], dw);
            for (int i = 0; i < PARAMS; i++) {
                m.v[i] = (double)number.momentum * m.v[i] + dw[i] / (double)(n * TOKENS);
                m.w[i] -= (double)number.lr * m.v[i];
            }
        }
    }
    test_plain(&m);
    return m;
}

/* ---- the runs ---- */

static void assert_as_plain(const gs_settings *s, const char *what) {
    plain expected = train_plain(s);
    gs_result r = gs_test_train(s);
    assert_int_equal(r.params, PARAMS);
    for (int i = 0; i < PARAMS; i++)
        if (fabs((double)r.weights[i] - expected.w[i]) > 1e-5)
            fail_msg("%s: weight %d is %g, wanted %g", what, i, (double)r.weights[i], expected.w[i]);
    assert_near(r.test_loss, expected.loss, 1e-5, 0);
    assert_near(r.test_accuracy, expected.correct, 1e-9, 0);
}

TEST(many_labels_in_every_way_to_train) {
    static const char *const ways[] = {"--devices cpu",
                                       ON_3,
                                       ON_3 "--zero 1",
                                       ON_3 "--sync async --staleness 0",
                                       ON_3 "--sync local --every 1",
                                       ON_3 "--bucket 1 --accumulate 2",
                                       "--exact"};
    gs_dataset *set = make_set();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const gs_settings s = gs_test_with(settings_of(set, "cpu"), "%s", ways[i]);
        assert_as_plain(&s, ways[i]);
    }
    gs_test_ways(true, gs_test_with(settings_of(set, "cpu"), "--exact"), WAYS(ON_2));
}

/* Accuracy and confusion count labels; the weights file stores the shape. */
TEST(many_labels_are_tested_and_saved) {
    gs_weights_info saved;
    gs_dataset *set = make_set();
    gs_settings s = settings_of(set, "cpu,cpu");
    const char *path = gs_test_format("%s/tokens.safetensors", gs_test_folder());
    s.save = path;
    plain expected = train_plain(&s);
    gs_result r = gs_test_train(&s);
    assert_ok(gs_safetensors_read_info(path, &saved));
    assert_true(gs_shape_same(saved.in, (gs_shape){INPUTS, 1, 1, TOKENS}));
    gs_weights_info_free(&saved);

    s = gs_test_with(s, "--load %s --confusion", path);
    s.save = NULL;
    r = gs_test_eval(&s);
    double all = 0, diagonal = 0;
    for (int i = 0; i < CLASSES * CLASSES; i++) {
        all += r.confusion[i];
        if (i % (CLASSES + 1) == 0) diagonal += r.confusion[i];
    }
    assert_near(all, SAMPLES * TOKENS, 0, 0);
    assert_near(diagonal / all, expected.correct, 1e-9, 0);
    assert_near(r.test_accuracy, expected.correct, 1e-9, 0);
    float *logits;
    size_t rows;
    int columns;
    double p[CLASSES], y[CLASSES];
    assert_ok(gs_predict_all(&s, NULL, &logits, &rows, &columns));
    assert_int_equal(rows, SAMPLES);
    assert_int_equal(columns, TOKENS * CLASSES);
    forward(expected.w, x[SAMPLES - 1][TOKENS - 1], 0, p);
    for (int k = 0; k < CLASSES; k++) y[k] = (double)logits[SAMPLES * TOKENS * CLASSES - CLASSES + k];
    for (int k = 1; k < CLASSES; k++) assert_near(y[k] - y[0], log(p[k] / p[0]), 1e-4, 0);
    free(logits);
}

TEST(labels_must_suit_the_model) {
    gs_dataset *set = make_set(), *wrong;
    gs_settings s = settings_of(set, "cpu");
    s.model = "flatten, linear 5";
    assert_train_fails(GS_E_SHAPE, "words has 3 labels for each sample, but the model answers 1", &s);
    s.model = "linear 4";
    assert_train_fails(GS_E_FORMAT, "words: the label of sample 0 is 4", &s);
    gs_shape in = {INPUTS, 1, 1, TOKENS};
    assert_fails(GS_E_USAGE, "0 labels per sample",
                 gs_dataset_from_token_labels("none", 2, in, &x[0][0][0], 0, &label[0][0], &wrong));
    int32_t bad[] = {0, 1, 2, 3, 256, 0};
    assert_fails(GS_E_FORMAT, "bad: the label of sample 1 is 256",
                 gs_dataset_from_token_labels("bad", 2, in, &x[0][0][0], TOKENS, bad, &wrong));
}
