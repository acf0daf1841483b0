/* Sequences of tokens: what the tables of cases and of models cannot see of their operators and layers. */
#include <math.h>
#include "tests/on_devices.h"
#include "tests/operators.h"
#include "tests/training.h"

/* ---- the same bits ---- */

static const char *const operators[] = {"layer_norm", "embedding", "positions"};

static void keep_outputs(instance *t) {
    instance_forward(t);
    instance_backward(t);
    for (int i = Y; i < TENSORS; i++) instance_read(t, (tensor)i);
}

static void check_bits(const instance *t, const instance *want, const char *how) {
    for (int i = Y; i < TENSORS; i++)
        if (memcmp(t->host[i], want->host[i], t->count[i] * sizeof(float)) != 0)
            fail_msg("%s on %s, %s: %s has other bits", operator_case_name(t->c), t->device->name, how,
                     tensor_names[i]);
}

/* Sums are added in a fixed order: a second time, and with any number of threads. */
static void same_bits(gs_device *first, gs_device *second, const char *how) {
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        for (const operator_case *c = next_case(operators[i], NULL); c; c = next_case(operators[i], c)) {
            instance want, t;
            instance_open(&want, first, c, 0);
            instance_open(&t, second, c, 0);
            keep_outputs(&want);
            keep_outputs(&t);
            check_bits(&t, &want, how);
            instance_close(&t);
            instance_close(&want);
        }
}

static void the_same_bits_twice_on(gs_device *d) {
    gs_test_need_whole();
    same_bits(d, d, "a second time");
}
ON_EVERY_DEVICE(the_same_bits_twice)

static void the_same_bits_with_any_number_of_threads(void **state) {
    (void)state;
    gs_device *one, *some;
    assert_ok(gs_device_open("cpu", 1, &one));
    for (int threads = 2; threads <= 5; threads += 3) {
        assert_ok(gs_device_open("cpu", threads, &some));
        same_bits(one, some, "with more threads");
        gs_device_close(some);
    }
    gs_device_close(one);
}

/* ---- layer_norm ---- */

/* Rows far from 0, rows whose numbers are all the same, and one with a NaN. */
static void layer_norm_of_odd_rows_on(gs_device *d) {
    enum { ROWS = 3, C = 37 };
    float x[ROWS][C], w[C], b[C], y[ROWS][C], kept[2 * ROWS];
    double sum = 0, squares = 0;
    for (size_t k = 0; k < C; k++) {
        x[0][k] = 4000 + test_value(k, SALT_X);
        x[1][k] = 7.3f;
        x[2][k] = k == 5 ? NAN : 1;
        w[k] = 2;
        b[k] = 0.5f;
        sum += (double)x[0][k];
    }
    for (size_t k = 0; k < C; k++) squares += ((double)x[0][k] - sum / C) * ((double)x[0][k] - sum / C);
    gs_mem mx = gs_test_new_mem(d, x, (size_t)(ROWS * C)), mw = gs_test_new_mem(d, w, C),
           mb = gs_test_new_mem(d, b, C), my = gs_test_new_mem(d, NULL, (size_t)(ROWS * C)),
           mk = gs_test_new_mem(d, NULL, (size_t)(2 * ROWS));
    assert_ok(d->ops->layer_norm_forward(d, my, mk, gs_at(mk, ROWS), mx, mw, mb, ROWS, C, 1e-5f));
    assert_ok(d->ops->read(d, y, my, sizeof y));
    assert_ok(d->ops->read(d, kept, mk, sizeof kept));
    assert_near(kept[0], sum / C, 0, 1e-7);
    assert_near(kept[ROWS], 1 / sqrt(squares / C + 1e-5), 0, 2e-6);
    for (int k = 0; k < C; k++) {
        assert_near(y[1][k], 0.5, 1e-3, 0); /* 7.3 - 7.3, times 1 / sqrt(1e-5) */
        assert_true(isnan(y[2][k]));
    }
    gs_mem all[] = {mx, mw, mb, my, mk};
    for (int i = 0; i < 5; i++) d->ops->free(d, all[i]);
}
ON_EVERY_DEVICE(layer_norm_of_odd_rows)

/* ---- embedding ---- */

/* What names no row shows as NaN, touches nothing else, and is left out by backward. */
static void tokens_without_a_row_on(gs_device *d) {
    enum { N = 8, ROWS = 3, C = 5, GUARD = 4 };
    const float x[N] = {1, -1, 3, 0.5f, NAN, 1e30f, 2, -0.0f};
    const int row[N] = {1, -1, -1, -1, -1, -1, 2, 0};
    float w[ROWS][C], y[N][C], dy[N][C], dw[GUARD + ROWS * C + GUARD], want[ROWS][C] = {0};
    for (size_t i = 0; i < (size_t)(ROWS * C); i++) w[i / C][i % C] = test_value(i, SALT_W);
    for (size_t i = 0; i < (size_t)(N * C); i++) dy[i / C][i % C] = test_value(i, SALT_DY);
    for (int i = 0; i < N; i++)
        for (int k = 0; k < C && row[i] >= 0; k++) want[row[i]][k] += dy[i][k];
    for (size_t i = 0; i < sizeof dw / sizeof *dw; i++) dw[i] = 9;
    gs_mem mx = gs_test_new_mem(d, x, N), mw = gs_test_new_mem(d, w, (size_t)(ROWS * C)),
           my = gs_test_new_mem(d, NULL, (size_t)(N * C)), mdy = gs_test_new_mem(d, dy, (size_t)(N * C)),
           mdw = gs_test_new_mem(d, dw, sizeof dw / sizeof *dw);
    assert_ok(d->ops->embedding_forward(d, my, mx, mw, N, ROWS, C));
    assert_ok(d->ops->embedding_backward(d, gs_at(mdw, GUARD), mdy, mx, N, ROWS, C, false));
    assert_ok(d->ops->read(d, y, my, sizeof y));
    for (int i = 0; i < N; i++)
        for (int k = 0; k < C; k++) assert_true(row[i] < 0 ? isnan(y[i][k]) : y[i][k] == w[row[i]][k]);
    gs_test_check_floats(d, gs_at(mdw, GUARD), &want[0][0], (size_t)(ROWS * C), "embedding_backward");
    gs_test_check_floats(d, mdw, dw, GUARD, "before dw");
    gs_test_check_floats(d, gs_at(mdw, GUARD + ROWS * C), dw, GUARD, "after dw");
    gs_mem all[] = {mx, mw, my, mdy, mdw};
    for (int i = 0; i < 5; i++) d->ops->free(d, all[i]);
}
ON_EVERY_DEVICE(tokens_without_a_row)

/* Nobody may ask, but if somebody does, the gradient of token numbers is 0. */
static void tokens_have_no_gradient_on(gs_device *d) {
    float x[3] = {0, 2, 1}, dx[3] = {5, 5, 5};
    gs_layer *l = gs_embedding(3, 2);
    gs_pass pass = {.n = 1, .training = true};
    size_t params;
    gs_mem y, out;
    assert_ok(gs_layer_plan(l, (gs_shape){3, 1, 1, 0}, &params));
    assert_int_equal(params, 6);
    gs_mem w = gs_test_new_mem(d, NULL, params), dw = gs_test_new_mem(d, NULL, params),
           from = gs_test_new_mem(d, x, 3), dy = gs_test_new_mem(d, NULL, 6);
    assert_ok(gs_layer_bind(l, d, w, dw, 1, true));
    assert_ok(gs_layer_forward(l, &pass, from, &y));
    assert_ok(gs_layer_backward(l, &pass, dy, &out));
    assert_ok(d->ops->read(d, dx, out, sizeof dx));
    for (int i = 0; i < 3; i++) assert_true(dx[i] == 0);
    gs_layer_free(l);
    gs_mem all[] = {w, dw, from, dy};
    for (int i = 0; i < 4; i++) d->ops->free(d, all[i]);
}
ON_EVERY_DEVICE(tokens_have_no_gradient)

/* ---- shapes ---- */

static void check_out(const char *text, gs_shape in, gs_shape want, size_t params) {
    gs_model *m;
    assert_ok(gs_model_plan(text, in, &m));
    if (!gs_shape_same(m->out, want)) fail_msg("%s: the output is %s", text, gs_shape_tuple(m->out).text);
    assert_int_equal(m->params, params);
    gs_model_free(m);
}

/* Token numbers may be a row, or tokens of one number each. */
static void shapes_of_sequences(void **state) {
    (void)state;
    const gs_shape row = {9, 1, 1, 0}, tokens = {1, 1, 1, 9}, out = {4, 1, 1, 9};
    check_out("embedding 7 4", row, out, 28);
    check_out("embedding 7 4", tokens, out, 28);
    check_out("embedding 7 4, positions", row, out, 28 + 36);
    check_out("embedding 7 4, layer_norm", row, out, 28 + 8);
    check_out("embedding 7 3, linear 4", row, out, 21 + 16);
    check_out("embedding 7 4, flatten, linear 2", row, (gs_shape){2, 1, 1, 0}, 28 + 74);
    check_out("positions", (gs_shape){4, 1, 1, 0}, (gs_shape){4, 1, 1, 0}, 4);
}

static void shapes_that_are_no_sequences(void **state) {
    (void)state;
    const gs_shape row = {9, 1, 1, 0};
    const struct {
        const char *text;
        gs_shape in;
        const char *message;
    } wrong[] = {
        {"embedding 7 4", {1, 28, 28, 0}, "layer 0 (embedding 7 4): the input is (1,28,28), embedding needs"},
        {"embedding 7 4", {2, 1, 1, 9}, "the input is (9,2,1,1), embedding needs a row of token numbers"},
        {"relu, embedding 7 4", row, "layer 1 (embedding 7 4): another layer comes before it"},
        {"embedding 7 4, flatten, embedding 7 4", row, "layer 2 (embedding 7 4): another layer comes before"},
        {"positions", {1, 28, 28, 0}, "layer 0 (positions): the input is (1,28,28), positions needs"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gs_model *m;
        assert_fails(GS_E_SHAPE, wrong[i].message, gs_model_plan(wrong[i].text, wrong[i].in, &m));
    }
    gs_layer *l = gs_embedding((1 << 24) + 1, 1);
    size_t params;
    assert_fails(GS_E_SHAPE, "the number of vectors is 16777217; wanted 1 to 16777216",
                 gs_layer_plan(l, row, &params));
    gs_layer_free(l);
}

/* ---- training ---- */

enum { SAMPLES = 60, LENGTH = 9, VOCABULARY = 7 };

/* Random tokens; the label of each is the one before it. */
static gs_dataset *make_set(size_t harmed, float harm) {
    static float x[SAMPLES * LENGTH];
    static int32_t label[SAMPLES * LENGTH];
    gs_dataset *set;
    for (size_t i = 0; i < (size_t)(SAMPLES * LENGTH); i++) {
        const int token = (int)(test_hash(i, SALT_X) % VOCABULARY);
        label[i] = i % LENGTH > 0 ? (int32_t)x[i - 1] : 0;
        x[i] = (float)token;
    }
    if (harm != 0) x[harmed] = harm;
    assert_ok(
        gs_dataset_from_token_labels("text", SAMPLES, (gs_shape){LENGTH, 1, 1, 0}, x, LENGTH, label, &set));
    return set;
}

static const char MODEL[] = "embedding 7 12, positions, 2 x (layer_norm, linear 24, gelu, linear 12), "
                            "dropout 0.1, layer_norm, linear 7";

static gs_settings settings_of(const gs_dataset *set, const char *devices) {
    gs_settings s = gs_settings_default();
    s.model = MODEL;
    s.devices = devices;
    s.train_set = s.test_set = set;
    s.batch = 13;
    s.epochs = 3;
    s.threads = 1;
    return s;
}

static void exact_for_sequences(void **state) {
    (void)state;
    static const char *const counts[] = {"cpu", "cpu,cpu", "cpu,cpu,cpu,cpu",
                                         "cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu"};
    gs_dataset *set = make_set(0, 0);
    gs_settings s = settings_of(set, "cpu");
    gs_result plain = gs_test_train(&s), first = {0};
    s.exact = true;
    for (int i = 0; i < 4; i++) {
        s.devices = counts[i];
        gs_result r = gs_test_train(&s);
        if (i == 0) {
            first = r;
            assert_same_within_rounding(&plain, &r, "--exact against plain training");
            continue;
        }
        assert_same_bits(&first, &r, counts[i]);
        gs_result_free(&r);
    }
    gs_result_free(&first);
    gs_result_free(&plain);
    gs_dataset_free(set);
}

static void tokens_are_checked_where_they_enter(void **state) {
    (void)state;
    const struct {
        size_t place;
        float harm;
        const char *message;
    } wrong[] = {
        {2 * LENGTH + 3, 7,
         "text: number 3 of sample 2 is 7; the model's embedding takes whole numbers from 0 to 6"},
        {0, -1, "text: number 0 of sample 0 is -1;"},
        {LENGTH, 2.5f, "text: number 0 of sample 1 is 2.5;"},
        {1, NAN, "text: number 1 of sample 0 is "},
    };
    gs_result r = {0};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gs_dataset *set = make_set(wrong[i].place, wrong[i].harm);
        gs_settings s = settings_of(set, "cpu");
        assert_fails(GS_E_FORMAT, wrong[i].message, gs_train(&s, NULL, &r));
        gs_dataset_free(set);
    }
    gs_test_program_prints(1, "embedding needs a row of token numbers", "train --model 'embedding 9 4'");
}

GS_TESTS(sequences, cmocka_unit_test(the_same_bits_twice),
         cmocka_unit_test(the_same_bits_with_any_number_of_threads), cmocka_unit_test(layer_norm_of_odd_rows),
         cmocka_unit_test(tokens_without_a_row), cmocka_unit_test(tokens_have_no_gradient),
         cmocka_unit_test(shapes_of_sequences), cmocka_unit_test(shapes_that_are_no_sequences),
         cmocka_unit_test(exact_for_sequences), cmocka_unit_test(tokens_are_checked_where_they_enter))
