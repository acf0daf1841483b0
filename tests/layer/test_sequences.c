/* Sequences of tokens: properties of operators and layers that the tables of cases and models do not cover. */
#include <math.h>
#include "layer/make.h"
#include "tests/support/on_devices.h"
#include "tests/support/operators.h"
#include "tests/support/training.h"
#include "train/evaluate.h"

/* ---- the same bits ---- */

static const char *const operators[] = {"layer_norm", "embedding", "positions", "attention",
                                        "attention_cached"};

static void keep_outputs(instance *t) {
    instance_forward(t);
    instance_backward(t);
    for (int i = Y; i < TENSORS; i++) instance_read(t, (tensor)i);
}

static void check_bits(const instance *t, const instance *want, const char *how) {
    for (int i = Y; i < TENSORS; i++)
        if (memcmp(t->host[i], want->host[i], t->count[i] * sizeof(float)) != 0)
            fail_msg("%s on %s, %s: the bits of %s differ", operator_case_name(t->c), t->device->name, how,
                     tensor_names[i]);
}

static void same_bits_of(const operator_case *c, gs_device *first, gs_device *second, const char *how) {
    instance want, t;
    instance_open(&want, first, c, 0);
    instance_open(&t, second, c, 0);
    keep_outputs(&want);
    keep_outputs(&t);
    check_bits(&t, &want, how);
}

/* True for linear layers whose products we compute, not OpenBLAS (cpu/linear.h). */
static bool is_linear_of_many_tokens(const operator_case *c) {
    const int n = c->arg[0], in = c->arg[1], out = c->arg[2];
    return gs_cpu_has_avx512() && n > 128 && in >= 64 && out >= 64 && in % 16 == 0 && out % 16 == 0;
}

/* Sums have a fixed order, so repeated runs give the same bits, with any number of threads. */
static void same_bits(gs_device *first, gs_device *second, const char *how) {
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        for (const operator_case *c = next_case(operators[i], NULL); c; c = next_case(operators[i], c))
            same_bits_of(c, first, second, how);
    for (const operator_case *c = next_case("linear", NULL); c; c = next_case("linear", c))
        if (is_linear_of_many_tokens(c)) same_bits_of(c, first, second, how);
}

static void the_same_bits_twice_on(gs_device *d) {
    gs_test_need_whole();
    same_bits(d, d, "a second time");
}
ON_EVERY_DEVICE(the_same_bits_twice)

TEST(the_same_bits_with_any_number_of_threads) {
    gs_device *one = gs_test_device("cpu", 1), *some;
    for (int threads = 2; threads <= 5; threads += 3) {
        some = gs_test_device("cpu", threads);
        same_bits(one, some, "with more threads");
    }
}

/* ---- layer_norm ---- */

/* A row far from 0, a row of equal numbers, and one with a NaN. */
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
}
ON_EVERY_DEVICE(layer_norm_of_odd_rows)

/* ---- embedding ---- */

/* A token number without a row in the table gives NaN, affects nothing else, and is skipped by backward. */
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
    assert_ok(d->ops->embedding_forward(d, my, mx, mw, N, ROWS, C, 0, NAN));
    assert_ok(d->ops->embedding_backward(d, gs_at(mdw, GUARD), mdy, mx, N, ROWS, C, 0, false));
    assert_ok(d->ops->read(d, y, my, sizeof y));
    for (int i = 0; i < N; i++)
        for (int k = 0; k < C; k++) assert_true(row[i] < 0 ? isnan(y[i][k]) : y[i][k] == w[row[i]][k]);
    gs_test_check_floats(d, gs_at(mdw, GUARD), &want[0][0], (size_t)(ROWS * C), "embedding_backward");
    gs_test_check_floats(d, mdw, dw, GUARD, "before dw");
    gs_test_check_floats(d, gs_at(mdw, GUARD + ROWS * C), dw, GUARD, "after dw");
}
ON_EVERY_DEVICE(tokens_without_a_row)

/* The gradient with respect to token numbers is set to 0, although no caller needs it. */
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
}
ON_EVERY_DEVICE(tokens_have_no_gradient)

/* ---- attention ---- */

enum { TOKENS_MOST = 70, WIDTH = 6, HEADS = 2 };

static void attend(gs_device *d, const float *x, int length, int causal, float *y) {
    const gs_attention_sizes s = {length, WIDTH, HEADS, causal};
    const size_t out = (size_t)(length * WIDTH);
    gs_mem from = gs_test_new_mem(d, x, 3 * out), to = gs_test_new_mem(d, NULL, out),
           softmax = gs_test_new_mem(d, NULL, (size_t)(length * 2 * HEADS));
    assert_ok(d->ops->attention_forward(d, to, softmax, from, 1, &s));
    assert_ok(d->ops->read(d, y, to, out * sizeof *y));
}

/* Scores up to about 30, as in trained networks: compares results with sums in double. */
static void attention_of_large_scores_on(gs_device *d) {
    static float x[TOKENS_MOST][3][WIDTH], y[TOKENS_MOST][WIDTH];
    enum { D = WIDTH / HEADS };
    for (int causal = 0; causal < 2; causal++) {
        for (size_t i = 0; i < sizeof x / sizeof(float); i++) (&x[0][0][0])[i] = 5 * test_value(i, SALT_X);
        attend(d, &x[0][0][0], TOKENS_MOST, causal, &y[0][0]);
        for (int i = 0; i < TOKENS_MOST; i++)
            for (int h = 0; h < WIDTH; h += D) {
                double sum = 0, want[D] = {0};
                for (int j = 0; j < (causal ? i + 1 : TOKENS_MOST); j++) {
                    double score = 0;
                    for (int k = h; k < h + D; k++)
                        score += (double)x[i][0][k] * (double)x[j][1][k] / sqrt(D);
                    sum += exp(score);
                    for (int k = 0; k < D; k++) want[k] += exp(score) * (double)x[j][2][h + k];
                }
                for (int k = 0; k < D; k++) assert_near(y[i][h + k], want[k] / sum, 1e-5, 1e-5);
            }
    }
}
ON_EVERY_DEVICE(attention_of_large_scores)

/* Scores far beyond the range of exp: the largest gets all the weight, at any position. */
static void attention_to_one_token_on(gs_device *d) {
    static float x[TOKENS_MOST][3][WIDTH], y[TOKENS_MOST][WIDTH];
    const int found = 67;
    for (int i = 0; i < TOKENS_MOST; i++)
        for (int k = 0; k < WIDTH; k++) {
            x[i][0][k] = 100;
            x[i][1][k] = i == found ? 100 : (float)-i;
            x[i][2][k] = test_value((size_t)(i * WIDTH + k), SALT_X);
        }
    attend(d, &x[0][0][0], TOKENS_MOST, 0, &y[0][0]);
    for (int i = 0; i < TOKENS_MOST; i++)
        for (int k = 0; k < WIDTH; k++) assert_near(y[i][k], (double)x[found][2][k], 1e-6, 0);
}
ON_EVERY_DEVICE(attention_to_one_token)

/* dx of one sample, in double, by the formula in backend.h. */
static void attend_backward(const float (*x)[3][WIDTH], const float (*dy)[WIDTH], int length, int causal,
                            double (*dx)[3][WIDTH]) {
    enum { D = WIDTH / HEADS };
    memset(dx, 0, (size_t)length * sizeof *dx);
    for (int i = 0; i < length; i++)
        for (int h = 0; h < WIDTH; h += D) {
            double p[TOKENS_MOST], passed[TOKENS_MOST], most = -INFINITY, sum = 0, mean = 0;
            const int end = causal ? i + 1 : length;
            for (int j = 0; j < end; j++) {
                p[j] = passed[j] = 0;
                for (int k = h; k < h + D; k++) {
                    p[j] += (double)x[i][0][k] * (double)x[j][1][k] / sqrt(D);
                    passed[j] += (double)dy[i][k] * (double)x[j][2][k];
                }
                most = fmax(most, p[j]);
            }
            for (int j = 0; j < end; j++) sum += p[j] = exp(p[j] - most);
            for (int j = 0; j < end; j++) mean += (p[j] /= sum) * passed[j];
            for (int j = 0; j < end; j++)
                for (int k = h; k < h + D; k++) {
                    const double ds = p[j] * (passed[j] - mean) / sqrt(D);
                    dx[i][0][k] += ds * (double)x[j][1][k];
                    dx[j][1][k] += ds * (double)x[i][0][k];
                    dx[j][2][k] += p[j] * (double)dy[i][k];
                }
        }
}

/* Scores of 1e4 to 1e10 whose probabilities are still known: 1 for a single token, and equal ones for tokens with the
 * same key. Exponentials of scores around 70 vanish next to a largest score of 1e10. Where one token has all the
 * weight, dy v - dy y must be exactly 0: the two sums must not differ by rounding. */
static void gradients_of_huge_scores_on(gs_device *d) {
    static float x[TOKENS_MOST][3][WIDTH], dy[TOKENS_MOST][WIDTH], dx[TOKENS_MOST][3][WIDTH];
    static double want[TOKENS_MOST][3][WIDTH];
    enum { ONE_TOKEN, SAME_KEYS, ONE_LARGE_KEY, CASES };
    for (int c = 0; c < 2 * CASES; c++) {
        const int length = c / 2 == ONE_TOKEN ? 1 : TOKENS_MOST;
        const gs_attention_sizes s = {length, WIDTH, HEADS, c % 2};
        const size_t out = (size_t)(length * WIDTH);
        for (int i = 0; i < length; i++)
            for (int k = 0; k < WIDTH; k++) {
                const size_t number = (size_t)(i * WIDTH + k);
                x[i][0][k] = c / 2 == ONE_LARGE_KEY ? 100 : 1e5f;
                x[i][1][k] = c / 2 != ONE_LARGE_KEY ? 1e5f : i == 67 ? 100 : (float)-i;
                x[i][2][k] = 1e5f * test_value(number, SALT_X);
                dy[i][k] = test_value(number, SALT_DY);
            }
        gs_mem from = gs_test_new_mem(d, x, 3 * out), y = gs_test_new_mem(d, NULL, out),
               softmax = gs_test_new_mem(d, NULL, (size_t)(length * 2 * HEADS)),
               mdy = gs_test_new_mem(d, dy, out), to = gs_test_new_mem(d, NULL, 3 * out);
        assert_ok(d->ops->attention_forward(d, y, softmax, from, 1, &s));
        assert_ok(d->ops->attention_backward(d, to, mdy, from, y, softmax, 1, &s));
        assert_ok(d->ops->read(d, dx, to, 3 * out * sizeof(float)));
        attend_backward((const float(*)[3][WIDTH])x, (const float(*)[WIDTH])dy, length, c % 2, want);
        double largest = 0;
        for (size_t i = 0; i < 3 * out; i++) largest = fmax(largest, fabs((&want[0][0][0])[i]));
        for (size_t i = 0; i < 3 * out; i++)
            assert_near((&dx[0][0][0])[i], (&want[0][0][0])[i], 2e-6 * largest, 0);
    }
}
ON_EVERY_DEVICE(gradients_of_huge_scores)

/* In causal attention, changing a later token changes no bit of the results before it. */
static void later_tokens_are_not_seen_on(gs_device *d) {
    static float x[TOKENS_MOST * 3 * WIDTH], before[TOKENS_MOST * WIDTH], after[TOKENS_MOST * WIDTH];
    const size_t token = 33, first = token * WIDTH;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = 4 * test_value(i, SALT_X);
    attend(d, x, TOKENS_MOST, 1, before);
    for (size_t k = 0; k < WIDTH; k++) assert_near(before[k], (double)x[2 * WIDTH + k], 1e-6, 0);
    for (size_t k = 0; k < (size_t)(3 * WIDTH); k++) x[token * 3 * WIDTH + k] += 1;
    attend(d, x, TOKENS_MOST, 1, after);
    assert_memory_equal(before, after, first * sizeof *after);
    assert_memory_not_equal(before + first, after + first, WIDTH * sizeof *after);
    assert_memory_not_equal(before + first + WIDTH, after + first + WIDTH, WIDTH * sizeof *after);
}
ON_EVERY_DEVICE(later_tokens_are_not_seen)

/* Twice the length takes twice the memory. */
static void memory_grows_with_the_length_on(gs_device *d) {
    enum { LINES = 4 * 64 /* y and dx fill whole cache lines, with free ones at the end (buffer_plan.c) */ };
    size_t bytes[2], params;
    for (int i = 0; i < 2; i++) {
        const int length = 1000 << i;
        gs_layer *l = gs_attention(HEADS, true);
        assert_ok(gs_layer_plan(l, (gs_shape){3 * WIDTH, 1, 1, length}, &params));
        assert_ok(gs_layer_bind(l, d, GS_NONE, GS_NONE, 3, true));
        bytes[i] = l->bytes;
        const size_t numbers = 3 * (size_t)length * (WIDTH + 3 * WIDTH + 2 * HEADS) * sizeof(float);
        assert_true(bytes[i] >= numbers && bytes[i] <= numbers + 2 * LINES);
        gs_layer_free(l);
    }
    assert_true(bytes[1] <= 2 * bytes[0] && bytes[1] + 2 * LINES >= 2 * bytes[0]);
}
ON_EVERY_DEVICE(memory_grows_with_the_length)

/* ---- training ---- */

enum { SAMPLES = 60, LENGTH = 9, VOCABULARY = 7 };

/* Random tokens; the label of each token is the previous token. */
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
    return gs_test_set(
        gs_dataset_from_token_labels("text", SAMPLES, (gs_shape){LENGTH, 1, 1, 0}, x, LENGTH, label, &set),
        &set);
}

static const char MODEL[] = "embedding 7 12, positions, residual (layer_norm, linear 36, attention 3 "
                            "causal, linear 12), residual (layer_norm, linear 24, gelu, linear 12), dropout "
                            "0.1, layer_norm, linear 7";

static gs_settings settings_of(const gs_dataset *set, const char *devices) {
    gs_settings s = gs_test_options("--model '%s' --devices %s", MODEL, devices);
    s.train_set = s.test_set = set;
    s = gs_test_with(s, "--batch 13 --epochs 3 --threads 1");
    return s;
}

TEST(exact_for_sequences) {
    gs_dataset *set = make_set(0, 0);
    gs_test_exact(settings_of(set, "cpu"));
}

/* Inference runs in blocks of GS_EVAL_BLOCK samples, or of half, a quarter, ... as many, so that the outputs of all
 * layers fit into GS_EVAL_BYTES. */
TEST(blocks_of_large_outputs) {
    const struct {
        const char *model;
        gs_shape in;
        size_t block;
    } cases[] = {{"mlp", {1, 28, 28, 0}, 128},      {"cnn", {1, 28, 28, 0}, 128},
                 {"gpt", {1, 1, 1, 64}, 32},        {"gpt", {1, 1, 1, 1024}, 2},
                 {"resnet50", {3, 224, 224, 0}, 1}, {"gpt2", {1, 1, 1, 1024}, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t block;
        assert_ok(gs_eval_block(cases[i].model, cases[i].in, &block));
        if (block != cases[i].block) fail_msg("%s: %zu, wanted %zu", cases[i].model, block, cases[i].block);
    }
}

TEST(tokens_are_checked_where_they_enter) {
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
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gs_dataset *set = make_set(wrong[i].place, wrong[i].harm);
        gs_settings s = settings_of(set, "cpu");
        assert_train_fails(GS_E_FORMAT, wrong[i].message, &s);
    }
    assert_prints(1, "embedding needs a row of token numbers", "train --model 'embedding 9 4'");
}
