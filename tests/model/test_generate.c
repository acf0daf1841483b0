/* Generating text: passes over parts of sequences, the draw, the window. test_generate_command.c tests the command. */
#include <math.h>
#include "model/generate.h"
#include "tests/support/on_devices.h"
#include "tests/support/operators.h"

enum { CONTEXT = 12, VOCABULARY = 7, TEXTS = 2 };

/* Every layer that a language model may contain. */
static const char MODEL[] =
    "embedding 7 12, positions, residual (layer_norm, linear 36, attention 3 causal, linear 12), "
    "residual (layer_norm, linear 24, gelu tanh, linear 12), dropout 0.3, linear 20 no_bias, "
    "relu, silu, linear 36, attention 2 causal, tanh, sigmoid, gelu, linear 12, layer_norm, tied";

static gs_model *make_model(gs_device *d, const char *text, int context, size_t texts) {
    gs_model *m = gs_test_model(d, .text = text, .in = {context, 1, 1, 0}, .max_batch = texts, .seed = 5);
    return m;
}

/* ---- parts of sequences ---- */

static int token_at(size_t i) {
    return (int)(test_hash(i, SALT_X) % VOCABULARY);
}

/* Computes y (texts, CONTEXT, VOCABULARY) in consecutive parts of these lengths. */
static void forward_parts(gs_model *m, const int *parts, float *y) {
    gs_mem x = gs_test_new_mem(m->device, NULL, TEXTS * CONTEXT), logits;
    float tokens[TEXTS * CONTEXT], got[TEXTS * CONTEXT * VOCABULARY];
    size_t past = 0;
    for (; past < CONTEXT; past += (size_t)*parts++) {
        const size_t count = (size_t)*parts;
        for (size_t t = 0; t < TEXTS; t++)
            for (size_t i = 0; i < count; i++)
                tokens[t * count + i] = (float)token_at(t * CONTEXT + past + i);
        assert_ok(m->device->ops->write(m->device, x, tokens, TEXTS * count * sizeof *tokens));
        const gs_pass pass = {.n = TEXTS, .tokens = count, .past = past};
        assert_ok(gs_model_forward(m, &pass, x, &logits));
        assert_ok(m->device->ops->read(m->device, got, logits, TEXTS * count * VOCABULARY * sizeof *got));
        for (size_t t = 0; t < TEXTS; t++)
            memcpy(y + (t * CONTEXT + past) * VOCABULARY, got + t * count * VOCABULARY,
                   count * VOCABULARY * sizeof *y);
    }
    assert_int_equal(past, CONTEXT);
}

static void parts_give_what_the_whole_gives_on(gs_device *d) {
    static const int cuts[][CONTEXT + 1] = {
        {12}, {5, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 11}, {4, 3, 5}, {11, 1}};
    static float want[TEXTS * CONTEXT * VOCABULARY], got[TEXTS * CONTEXT * VOCABULARY];
    float tokens[TEXTS * CONTEXT];
    gs_model *m = make_model(d, MODEL, CONTEXT, TEXTS);
    for (size_t i = 0; i < TEXTS * CONTEXT; i++) tokens[i] = (float)token_at(i);
    gs_mem x = gs_test_new_mem(d, tokens, TEXTS * CONTEXT), logits;
    assert_ok(gs_model_forward(m, &(gs_pass){.n = TEXTS}, x, &logits));
    assert_ok(d->ops->read(d, want, logits, sizeof want));
    assert_ok(gs_model_cache(m));
    assert_ok(gs_model_cache(m)); /* a second call changes nothing */
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        memset(got, 0, sizeof got);
        forward_parts(m, cuts[c], got);
        for (size_t i = 0; i < sizeof want / sizeof *want; i++)
            if (!(fabsf(got[i] - want[i]) <= 1e-5f * (1 + fabsf(want[i]))))
                fail_msg("%s, cut %zu: logit %zu is %.9g, but %.9g from the whole sequence", d->name, c, i,
                         (double)got[i], (double)want[i]);
    }
    /* whole samples give the same bits with and without the cache */
    assert_ok(gs_model_forward(m, &(gs_pass){.n = TEXTS}, x, &logits));
    gs_test_check_floats(d, logits, want, sizeof want / sizeof *want, "the whole, again");
}
ON_EVERY_DEVICE(parts_give_what_the_whole_gives)

TEST(models_that_run_only_whole_are_refused) {
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"linear 5", "the model takes (12,1,1), not tokens: wanted a language model"},
        {"embedding 7 4, linear 6", "takes tokens from 0 to 6, but gives 6 numbers for each"},
        {"embedding 7 4, flatten, linear 7",
         "the model gives (7,1,1) for 12 tokens: wanted a language model"},
        {"embedding 7 4, linear 12, attention 2, linear 7",
         "layer 2 (attention 2): it cannot take the tokens of a sequence one at a time: each of them "
         "attends to those that come later too: wanted attention 2 causal"},
        {"embedding 7 4, batch_norm, linear 7", "layer 1 (batch_norm): it cannot take the tokens"},
    };
    gs_generator *g;
    gs_device *d = gs_test_device("cpu", 1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gs_model *m = make_model(d, wrong[i].text, CONTEXT, 1);
        assert_fails(GS_E_SHAPE, wrong[i].message, gs_generator_create(m, &(gs_sampling){1, 0, 1}, &g));
        assert_null(g);
    }
}

/* ---- the draw ---- */

TEST(the_likeliest_and_the_first_of_equals) {
    const float x[][5] = {{1, 3, 2, 3, -4}, {-1, -0.0f, -2, 0, -4}};
    const gs_sampling greedy = {0, 0, 1}, one = {2, 1, 1};
    for (uint64_t token = 0; token < 50; token++) {
        assert_int_equal(gs_sample(&greedy, x[token % 2], 5, 0, token), 1);
        assert_int_equal(gs_sample(&one, x[token % 2], 5, 0, token), 1);
    }
}

/* Compares how often each token is drawn with softmax(x / T) over the top_k largest. */
static void check_shares(const float *x, int count, gs_sampling s, const double *share) {
    enum { DRAWS = 40000 };
    int drawn[8] = {0};
    for (uint64_t i = 0; i < DRAWS; i++) drawn[gs_sample(&s, x, count, 3, i)]++;
    for (int i = 0; i < count; i++) {
        const double deviation = sqrt(DRAWS * share[i] * (1 - share[i]));
        if (fabs(drawn[i] - DRAWS * share[i]) > 4.5 * deviation)
            fail_msg("T %g, top_k %d: token %d was drawn %d times of %d, wanted about %.0f",
                     (double)s.temperature, s.top_k, i, drawn[i], DRAWS, DRAWS * share[i]);
    }
}

TEST(shares_are_those_of_softmax) {
    const float x[] = {0, 1, -2, 1, 0.5f};
    for (int temperature = 1; temperature <= 2; temperature++)
        for (int top_k = 0; top_k <= 5; top_k++) {
            /* in descending order: tokens 1 3 4 0 2, of which 1 and 3 are equal */
            static const int rank[] = {3, 0, 4, 1, 2};
            double share[5], all = 0;
            for (size_t i = 0; i < sizeof rank / sizeof *rank; i++) {
                share[i] = top_k && rank[i] >= top_k ? 0 : exp((double)x[i] / temperature);
                all += share[i];
            }
            for (int i = 0; i < 5; i++) share[i] /= all;
            check_shares(x, 5, (gs_sampling){(float)temperature, top_k, 9}, share);
        }
}

/* Compares top_k with sorting, with many equal values. */
TEST(top_k_of_many) {
    enum { COUNT = 400 };
    float x[COUNT];
    for (int levels = 1; levels <= 1000; levels *= 10)
        for (int top_k = 1; top_k <= COUNT; top_k += 37) {
            bool seen[COUNT] = {false};
            for (size_t i = 0; i < COUNT; i++) x[i] = (float)(test_hash(i, SALT_W) % (uint32_t)levels);
            const gs_sampling hot = {1e6f, top_k, 2};
            for (uint64_t i = 0; i < 2000; i++) seen[gs_sample(&hot, x, COUNT, 0, i)] = true;
            for (int i = 0; i < COUNT; i++) {
                int before = 0; /* tokens that rank higher */
                for (int j = 0; j < COUNT; j++) before += x[j] > x[i] || (!(x[j] < x[i]) && j < i);
                if (seen[i] && before >= top_k) fail_msg("%d levels, top_k %d: token %d", levels, top_k, i);
            }
        }
}

TEST(extreme_logits) {
    const float far[] = {-3e38f, 3e38f, 0}, same[] = {-3e38f, -3e38f, -3e38f};
    bool seen[3] = {false};
    assert_int_equal(gs_sample(&(gs_sampling){1e-30f, 0, 1}, far, 3, 0, 0), 1);
    assert_int_equal(gs_sample(&(gs_sampling){1, 0, 1}, far, 3, 0, 0), 1);
    for (uint64_t i = 0; i < 100; i++) seen[gs_sample(&(gs_sampling){1, 0, 1}, same, 3, 0, i)] = true;
    assert_true(seen[0] && seen[1] && seen[2]);
}

/* These numbers must not change: a seed reproduces its text. */
TEST(the_same_seed_draws_the_same) {
    static const int want[] = {72, 13, 64, 7, 34, 33, 64, 38, 76, 96, 58, 84};
    float x[100];
    for (int i = 0; i < 100; i++) x[i] = 0;
    for (uint64_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_int_equal(gs_sample(&(gs_sampling){1, 0, 42}, x, 100, i % 2, i), want[i]);
}

/* ---- texts ---- */

/* Draws `count` tokens for each text, but the model processes only whole sequences: the end of the window is padded
 * with zeros, which causal attention ignores. */
static void texts_by_recomputation(gs_model *m, const gs_sampling *s, const int *prompt, size_t prompts,
                                   size_t count, int *tokens) {
    const size_t context = (size_t)gs_model_targets(m), outputs = (size_t)m->out.c, texts = m->max_batch;
    gs_mem x = gs_test_new_mem(m->device, NULL, texts * context), y;
    float in[64], *logits = calloc(texts * context * outputs, sizeof *logits);
    int window[8][64];
    size_t length = prompts;
    assert_non_null(logits);
    for (size_t t = 0; t < texts; t++) memcpy(window[t], prompt, prompts * sizeof *prompt);
    for (size_t i = 0; i < count; i++) {
        memset(in, 0, sizeof in);
        for (size_t t = 0; t < texts; t++)
            for (size_t k = 0; k < length; k++) in[t * context + k] = (float)window[t][k];
        assert_ok(m->device->ops->write(m->device, x, in, texts * context * sizeof *in));
        assert_ok(gs_model_forward(m, &(gs_pass){.n = texts}, x, &y));
        assert_ok(m->device->ops->read(m->device, logits, y, texts * context * outputs * sizeof *logits));
        for (size_t t = 0; t < texts; t++) {
            const float *last = logits + (t * context + length - 1) * outputs;
            tokens[t * count + i] = gs_sample(s, last, (int)outputs, t, i);
        }
        if (length == context) {
            for (size_t t = 0; t < texts; t++)
                memmove(window[t], window[t] + context - context / 2, context / 2 * sizeof **window);
            length = context / 2;
        }
        for (size_t t = 0; t < texts; t++) window[t][length] = tokens[t * count + i];
        length++;
    }
    free(logits);
}

static void texts_as_by_recomputation_on(gs_device *d) {
    enum { LENGTH = 45 };
    static const int contexts[] = {12, 7, 1, 2};
    const int prompt[] = {3, 1, 4, 1, 5, 2, 6, 5, 3, 5, 0, 2};
    int want[TEXTS * LENGTH], got[TEXTS];
    for (size_t c = 0; c < sizeof contexts / sizeof *contexts; c++)
        for (size_t prompts = 1; prompts <= (size_t)contexts[c]; prompts += 5) {
            gs_model *m = make_model(d, MODEL, contexts[c], TEXTS);
            const gs_sampling s = {1.3f, prompts == 1 ? 0 : 5, 17};
            gs_generator *g;
            texts_by_recomputation(m, &s, prompt, prompts, LENGTH, want);
            assert_ok(gs_generator_create(m, &s, &g));
            assert_ok(gs_generator_feed(g, prompt, prompts / 2)); /* in two parts */
            assert_ok(gs_generator_feed(g, prompt + prompts / 2, prompts - prompts / 2));
            for (size_t i = 0; i < LENGTH; i++) {
                assert_ok(gs_generator_next(g, got));
                for (size_t t = 0; t < TEXTS; t++)
                    if (got[t] != want[t * LENGTH + i])
                        fail_msg("%s, context %d, prompt of %zu: token %zu of text %zu is %d, wanted %d",
                                 d->name, contexts[c], prompts, i, t, got[t], want[t * LENGTH + i]);
            }
            gs_generator_free(g);
        }
}
ON_EVERY_DEVICE(texts_as_by_recomputation)

/* Not only are the texts the same; the logits have the same bits. */
TEST(any_number_of_threads) {
    enum { LENGTH = 80, WIDE = 300 };
    static float want[LENGTH][WIDE];
    for (int threads = 1; threads <= 5; threads += 2) {
        gs_generator *g;
        int token;
        gs_device *d = gs_test_device("cpu", threads);
        gs_model *m =
            make_model(d,
                       "embedding 300 128, positions, residual (layer_norm, linear 384, attention 4 causal, "
                       "linear 128), residual (layer_norm, linear 512, gelu, linear 128), linear 300",
                       64, 1);
        assert_ok(gs_generator_create(m, &(gs_sampling){1, 40, 3}, &g));
        assert_ok(gs_generator_feed(g, (int[]){7, 8, 9, 10, 11}, 5));
        for (int i = 0; i < LENGTH; i++) {
            assert_ok(gs_generator_next(g, &token));
            if (threads == 1)
                memcpy(want[i], gs_generator_logits(g), sizeof want[i]);
            else
                assert_memory_equal(want[i], gs_generator_logits(g), sizeof want[i]);
        }
        gs_generator_free(g);
    }
}

TEST(wrong_calls_are_explained) {
    gs_generator *g;
    int token, many[CONTEXT + 1] = {0};
    gs_device *d = gs_test_device("cpu", 1);
    gs_model *m = make_model(d, MODEL, CONTEXT, 1);
    const gs_sampling senseless[] = {{-1, 0, 1}, {NAN, 0, 1}, {INFINITY, 0, 1}, {1, -1, 1}};
    for (size_t i = 0; i < sizeof senseless / sizeof *senseless; i++)
        assert_fails(GS_E_USAGE, i < 3 ? "the temperature is" : "top-k is -1",
                     gs_generator_create(m, &senseless[i], &g));
    assert_ok(gs_generator_create(m, &(gs_sampling){1, 0, 1}, &g));
    assert_fails(GS_E_USAGE, "13 tokens are more than the model's context, which is 12",
                 gs_generator_feed(g, many, CONTEXT + 1));
    assert_fails(GS_E_USAGE, "token 1 is 7; the model takes 0 to 6", gs_generator_feed(g, (int[]){6, 7}, 2));
    assert_fails(GS_E_USAGE, "token 0 is -1;", gs_generator_feed(g, (int[]){-1}, 1));
    assert_ok(gs_generator_feed(g, many, CONTEXT));
    assert_fails(GS_E_USAGE, "1 token and those before are more", gs_generator_feed(g, many, 1));
    assert_ok(gs_generator_next(g, &token));

    float *w = gs_test_calloc(m->saved, sizeof *w);
    for (size_t i = 0; i < m->saved; i++) w[i] = NAN;
    assert_ok(gs_model_write_weights(m, w));
    assert_fails(GS_E_DIVERGED, "the logit of token 0 is", gs_generator_next(g, &token));
    gs_generator_free(g);
    gs_generator_free(NULL);
}
