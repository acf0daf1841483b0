/* Training on windows of a text, with any number of workers, compared with a loop in this test. */
#include <math.h>
#include "data/order.h"
#include "data/text_set.h"
#include "tests/support/some_text.h"
#include "tests/support/training.h"

/* The model predicts the next token only from the last one, with a table row per token, and softmax. */
enum { WEIGHTS = KINDS * KINDS };

typedef struct plain {
    double w[WEIGHTS], v[WEIGHTS], loss; /* loss: of the test windows, per token */
} plain;

static double softmax(const double *row, double *p, int wanted) {
    double sum = 0;
    for (int k = 0; k < KINDS; k++) sum += p[k] = exp(row[k]);
    for (int k = 0; k < KINDS; k++) p[k] /= sum;
    return -log(p[wanted]);
}

static void test_plain(plain *m, const gs_dataset *test) {
    double p[KINDS];
    const size_t tokens = test->count * CONTEXT;
    m->loss = 0;
    for (size_t i = 0; i < tokens; i++)
        m->loss += softmax(m->w + test->text->token[i] * KINDS, p, test->text->token[i + 1]) / (double)tokens;
}

static void train_plain(plain *m, const gs_settings *s, const gs_dataset *train) {
    static const int shift[] = {6, 7, 1}; /* from Python, for seed 1 */
    uint32_t order[100];
    double p[KINDS];
    const gs_hyperparameters number = gs_settings_numbers(s);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        gs_epoch_order(s->seed, (uint64_t)epoch + 1, train->count, order);
        for (size_t first = 0; first < train->count; first += BATCH) {
            const size_t n = train->count - first < BATCH ? train->count - first : BATCH;
            double dw[WEIGHTS] = {0};
            for (size_t i = 0; i < n * CONTEXT; i++) {
                const size_t at = order[first + i / CONTEXT] * CONTEXT + (size_t)shift[epoch] + i % CONTEXT;
                const int x = train->text->token[at], y = train->text->token[at + 1];
                softmax(m->w + x * KINDS, p, y);
                for (int k = 0; k < KINDS; k++)
                    dw[x * KINDS + k] += (p[k] - (k == y)) / (double)(n * CONTEXT);
            }
            for (int i = 0; i < WEIGHTS; i++) {
                m->v[i] = (double)number.momentum * m->v[i] + dw[i];
                m->w[i] -= (double)number.lr * m->v[i];
            }
        }
    }
}

TEST(as_a_plain_loop) {
    static const char *const devices[] = {"cpu", "cpu,cpu", "cpu,cpu,cpu"};
    const char *where = text_file();
    gs_dataset *train = load_text(where, GS_TRAIN, SMALL), *test = load_text(where, GS_TEST, SMALL);
    gs_settings s = text_settings(where, "cpu");
    static plain m;
    float initial[WEIGHTS];
    assert_int_not_equal(train->count % BATCH, 0);
    gs_model *plan = gs_test_plan(s.model, train->shape);
    gs_model_initial_values(plan, s.seed, initial);
    for (int i = 0; i < WEIGHTS; i++) m.w[i] = (double)initial[i];
    train_plain(&m, &s, train);
    test_plain(&m, test);
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        s = text_settings(where, devices[i]);
        gs_result r = gs_test_train(&s);
        assert_int_equal(r.params, WEIGHTS);
        for (int k = 0; k < WEIGHTS; k++) assert_near(r.weights[k], m.w[k], 1e-5, 0);
        assert_near(r.test_loss, m.loss, 1e-5, 0);
    }
}

TEST(the_same_for_all_numbers_of_workers) {
    gs_settings s = gs_test_with(text_settings(text_file(), "cpu"), "--optimizer sgd --lr 0.05 --model '%s'",
                                 TRANSFORMER);
    gs_test_ways(false, s, WAYS(ON_2, ON_4, ON_3));
    gs_test_ways(true, gs_test_with(s, "--exact"), WAYS(ON_2, ON_4)); /* 8 shards are not divisible by 3 */
}

static double losses[20], accuracies[20];

static void note_epoch(void *context, const gs_epoch_report *r) {
    (void)context;
    losses[r->epoch] = r->test_loss;
    accuracies[r->epoch] = r->test_accuracy;
}

/* The epoch that is kept has the lowest loss, although another one has the highest accuracy. */
TEST(keeps_the_lowest_loss) {
    gs_settings s = text_settings(text_file(), "cpu");
    const gs_observer observer = {.epoch = note_epoch};
    gs_result r;
    int lowest = 1, most_accurate = 1;
    s = gs_test_with(s, "--epochs 12 --lr 3 --keep best");
    assert_ok(gs_train(&s, &observer, &r));
    for (int e = 2; e <= s.epochs; e++) {
        if (losses[e] < losses[lowest]) lowest = e;
        if (accuracies[e] > accuracies[most_accurate]) most_accurate = e;
    }
    assert_int_not_equal(lowest, most_accurate);
    assert_int_equal(r.kept_epoch, lowest);
    assert_near(r.kept_loss, losses[lowest], 0, 0);
    gs_result_free(&r);
}
