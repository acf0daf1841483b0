/* --tensor: workers that share linear layers. The weights are those of one worker, up to rounding; with --exact, to the
 * bit. */
#include <math.h>

#include "layer/memory/recompute.h"
#include "tests/support/counted.h"
#include "tests/support/devices.h"
#include "tests/support/ranks.h"
#include "tests/support/training.h"

static const char two[] = "cpu,cpu", four[] = "cpu,cpu,cpu,cpu", six[] = "cpu,cpu,cpu,cpu,cpu,cpu",
                  eight[] = "cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu";

typedef struct layout {
    const char *devices;
    int tensor;
} layout;

static const char *name_of(const layout *l) {
    static char name[60];
    snprintf(name, 60, "%d workers, --tensor %d", gs_devices_count(l->devices), l->tensor);
    return name;
}

static gs_result train_with(gs_settings s, const layout *l) {
    s.devices = l->devices;
    s.tensor = l->tensor;
    return gs_test_train(&s);
}

/* Two pairs, one without biases, and a linear layer in none. */
#define CHAIN                                                                                                \
    "flatten, linear 24, relu, linear 12, tanh, dropout 0.25, linear 12 no_bias, sigmoid, linear 36 "        \
    "no_bias, "                                                                                              \
    "linear 10"
#define BLOCKS                                                                                               \
    "embedding 40 8, positions, 2 x residual (residual (layer_norm, linear 24, attention 4 causal, linear "  \
    "8), "                                                                                                   \
    "residual (layer_norm, linear 32, gelu, linear 8)), layer_norm, tied"

static gs_settings text_settings(void) {
    gs_settings s = gs_test_settings("cpu --context 8 --batch 24 --steps 4 --model '" BLOCKS "'");
    s.data = gs_test_format("text:%s", gs_test_text_file());
    return s;
}

/* Outputs that are not tied: of 43 words, which no group here divides evenly. */
#define WORDS                                                                                                \
    "embedding 43 8, positions, residual (layer_norm, linear 16, gelu, linear 8), layer_norm, linear 43"

/* ---- up to rounding ---- */

static void same_within_rounding(const gs_settings *s, const layout *layouts, int count) {
    gs_result one = gs_test_train(s);
    for (int i = 0; i < count; i++) {
        gs_result r = train_with(*s, &layouts[i]);
        assert_int_equal(r.params, one.params);
        assert_same_within_rounding(&one, &r, name_of(&layouts[i]));
        gs_test_near(r.train_loss, one.train_loss, 1e-5, 0, "loss", __FILE__, __LINE__);
        gs_test_near(r.test_loss, one.test_loss, 1e-5, 0, "test loss", __FILE__, __LINE__);
        assert_true(r.test_accuracy == one.test_accuracy);
    }
}

TEST(the_weights_of_one_worker) {
    static const layout layouts[] = {{two, 2}, {"cpu,cpu,cpu", 3}, {four, 4}, {four, 2}, {six, 3}, {six, 2}};
    gs_settings s = gs_test_settings("cpu --clip 0.5 --verify 3 --model '" CHAIN "'");
    same_within_rounding(&s, layouts, 6);
    s.accumulate = 3;
    same_within_rounding(&s, layouts, 1);
    s = gs_test_with(text_settings(), "--verify 2 --clip 0.1 --label-smoothing 0.1");
    static const layout by_heads[] = {{two, 2}, {four, 4}, {four, 2}};
    same_within_rounding(&s, by_heads, 3);
    s.micro_batch = 5;
    same_within_rounding(&s, by_heads, 1);
    s.model = WORDS;
    same_within_rounding(&s, by_heads, 2);
}

/* Their rates need the norms of whole tensors; f16 needs to know whether all gradients are finite. */
TEST(other_updates) {
    static const gs_optimizer_ops *const optimizer[] = {&gs_lars, &gs_lamb, &gs_adam};
    static const layout layouts[] = {{two, 2}, {six, 3}};
    for (size_t i = 0; i < sizeof optimizer / sizeof *optimizer; i++) {
        gs_settings s = gs_test_settings("cpu --lr 0.001 --steps 4 --model '" CHAIN "'");
        s.optimizer = optimizer[i];
        same_within_rounding(&s, layouts, 2);
    }
    gs_settings s = gs_test_settings("cpu --steps 6 --model '" CHAIN "'");
    s.precision = GS_PRECISION_F16; /* of 16 bits a last one may round otherwise */
    gs_result one = gs_test_train(&s), r = train_with(s, &layouts[0]);
    if (!(gs_test_difference(&one, &r) < 1e-3)) fail_msg("f16: %g", gs_test_difference(&one, &r));
}

/* Statistics of the global batch are those of the samples, not of the samples times the workers of a group. */
TEST(with_batch_norm) {
    static const layout layouts[] = {{two, 2}, {four, 2}};
    gs_settings s = gs_test_settings("cpu --model 'conv 4 3x3 stride 2, batch_norm, tanh, flatten, linear "
                                     "16, tanh, linear 10' --batch 30 --steps 5");
    same_within_rounding(&s, layouts, 2);
}

/* Pairs of convolutions: with a pooling, with a bias that counts once, and in blocks with a batch_norm between them. 5
 * channels, and 10, which 2 and 3 ranks divide unevenly. */
#define CONVOLUTIONS                                                                                         \
    "conv 5 3x3 stride 2, batch_norm, relu, conv 4 3x3 pad 1, max_pool 2, "                                  \
    "residual (conv 10 3x3 pad 1 no_bias, batch_norm, tanh, conv 4 3x3 pad 1 no_bias, batch_norm), "         \
    "conv 6 3x3 pad 1, relu, max_pool 2, conv 6 1x1, conv 6 3x3 pad 1 groups 2, flatten, linear 10"

TEST(pairs_of_convolutions) {
    static const layout layouts[] = {{two, 2}, {"cpu,cpu,cpu", 3}, {four, 2}};
    gs_settings s = gs_test_settings(
        "cpu --batch 24 --steps 4 --lr 0.01 --verify 2 --clip 0.5 --model '" CONVOLUTIONS "'");
    same_within_rounding(&s, layouts, 3);
    s.batch_norm = (gs_batch_norm_groups){.over = GS_BATCH_NORM_GHOST, .group = 6};
    s.recompute = GS_RECOMPUTE_ALL;
    same_within_rounding(&s, layouts, 1);
}

TEST(on_opencl_too) {
    gs_test_need_opencl();
    gs_settings s = gs_test_settings("cpu --steps 3 --model '" CHAIN "'");
    same_within_rounding(&s, &(layout){"cl,cl", 2}, 1);
    s = gs_test_with(s, "--batch 12 --steps 2 --model '" CONVOLUTIONS "'");
    same_within_rounding(&s, &(layout){"cl,cl", 2}, 1);
    s = text_settings();
    s.steps = 2;
    same_within_rounding(&s, &(layout){"cl,cl", 2}, 1);
}

/* ---- --exact ---- */

static const layout exact_layouts[] = {{two, 2}, {four, 4}, {four, 2}, {eight, 8}, {eight, 4}, {two, 0}};

static void same_bits(const gs_settings *settings, int layouts) {
    gs_settings s = gs_test_with(*settings, "--exact");
    gs_result one = gs_test_train(&s);
    for (int i = 0; i < layouts; i++) {
        gs_result r = train_with(s, &exact_layouts[i]);
        assert_same_bits(&one, &r, name_of(&exact_layouts[i]));
        assert_true(r.test_loss == one.test_loss && r.train_loss == one.train_loss);
    }
}

TEST(exact_has_the_bits_of_one_worker) {
    gs_settings s = gs_test_settings("cpu"); /* a pair of 16; dropout, and a last batch of 6 samples */
    s.clip = 0.5f;
    same_bits(&s, 6);
    s.model = "conv 2 3x3 stride 2, batch_norm, relu, flatten, linear 72, relu, linear 20, linear 10";
    s.batch_norm = (gs_batch_norm_groups){.over = GS_BATCH_NORM_GHOST, .group = 2};
    s = gs_test_with(s, "--batch 32 --optimizer lamb --lr 0.01 --steps 4");
    same_bits(&s, 6);
    s = gs_test_with(text_settings(), "--optimizer adamw --lr 0.01 --clip 0.1");
    same_bits(&s, 3); /* 4 heads */
    s.precision = GS_PRECISION_BF16;
    same_bits(&s, 2);
    s = gs_test_with(s, "--precision f32 --label-smoothing 0.1 --model '" WORDS "'");
    same_bits(&s, 4);
}

/* A pipeline and ZeRO, too: what they compute are the same sums. */
TEST(the_other_exact_ways) {
    gs_settings s = gs_test_settings("cpu --exact --steps 4");
    gs_result r = train_with(s, &(layout){two, 2});
    s = gs_test_with(s, "--devices %s --pipeline 2", two);
    assert_trains_to(&r, &s, "--pipeline");
    s.pipeline = 0;
    s.zero = 3;
    assert_trains_to(&r, &s, "--zero");
}

TEST(between_processes) {
    static const char common[] = "train --model lenet --steps 3 --batch 20 --exact";
    static const char *const runs[] = {"launch -n 2 -- %s --tensor 2",
                                       "launch -n 4 -- %s --tensor 2 --verify 1",
                                       "launch -n 2 --transport gloo -- %s --tensor 4 --devices cpu,cpu"};
    const char *one = gs_test_sha256("%s", common);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const char *divided = gs_test_sha256(runs[i], common);
        assert_string_equal(one, divided);
    }
}

/* ---- bytes ---- */

/* Messages alone, but not those that collectives are made of. */
static bool of_sums(const gs_call *call) {
    return call->operation == GS_SEND;
}

/* For each block of a transformer 4 all-reduces of tokens x width; for the vocabulary 2 more, and for the loss T + 3
 * numbers for each token. Each is sent 2 (T - 1) / T times; with --exact in 8 virtual shards, and log2 T times. */
TEST(bytes_are_those_of_the_formula) {
    enum { BLOCKS_THERE = 2, WIDTH = 8, TOKENS = 24 * 8, WORDS_THERE = 40 };
    gs_counted_run t = {.settings = text_settings(), .counts = of_sums};
    gs_settings *s = &t.settings;
    s->steps = 3;
    s->test_hook = gs_counted_step_2;
    gs_test_set(gs_load_set(s, GS_TRAIN, &t.train), &t.train);
    gs_test_set(gs_load_set(s, GS_TEST, &t.test), &t.test);
    for (int i = 0; i < 4; i++) {
        s->tensor = i % 2 ? 4 : 2;
        s->exact = i >= 2;
        gs_counted_train(&t, s->tensor);
        const double n = s->tensor, all = ((4.0 * BLOCKS_THERE + 2) * WIDTH + n + 3) * TOKENS * sizeof(float),
                     sent = s->exact ? log2(n) * all : 2 * (n - 1) / n * all;
        for (int r = 0; r < s->tensor; r++) assert_near(t.bytes[r], sent, 0, 0);
        assert_near(t.result.sent, sent, 1e-6, 0);
        assert_near(t.result.tensor.sums, (4 * BLOCKS_THERE + 4) * (s->exact ? 8 : 1), 1e-9, 0);
        assert_near(t.result.tensor.bytes, all, 1e-6, 0);
        /* qkv, projection, fc1 and fc2, and the biases of the first of each two; the table */
        const double shared = BLOCKS_THERE * (12 * WIDTH * WIDTH + 7 * WIDTH) + WORDS_THERE * WIDTH,
                     whole = t.result.tensor.model / sizeof(float);
        assert_near(t.result.tensor.held / sizeof(float), whole - shared * (n - 1) / n, 1e-6, 0);
    }
}

/* For each pair of convolutions its y, and the first one's dx where something before it learns. */
TEST(bytes_of_convolutions) {
    enum { SAMPLES = 12, T = 2 };
    gs_counted_run t = {.settings = gs_test_settings("cpu"), .counts = of_sums};
    gs_settings *s = &t.settings;
    s->model = "conv 4 3x3 pad 1, relu, conv 2 3x3 pad 1, tanh, max_pool 2, conv 5 1x1, batch_norm, conv 3 "
               "1x1, flatten, linear 10";
    s->batch = SAMPLES;
    s->steps = 3;
    s->tensor = T;
    s->test_hook = gs_counted_step_2;
    gs_test_set(gs_load_set(s, GS_TRAIN, &t.train), &t.train);
    gs_test_set(gs_load_set(s, GS_TEST, &t.test), &t.test);
    gs_counted_train(&t, T);
    const double pixels = 28 * 28, summed = SAMPLES * (2 * pixels + (2 + 3) * pixels / 4) * sizeof(float);
    for (int r = 0; r < T; r++) assert_near(t.bytes[r], summed, 0, 0);
    assert_near(t.result.tensor.sums, 3, 1e-9, 0);
    assert_near(t.result.tensor.bytes, summed, 1e-6, 0);
    const double one = 4.0 * 9 + 4 + 2 * 4 * 9, other = 2 * 5 + 5 + 3 * 5 + 2 * 5,
                 whole = t.result.tensor.model / sizeof(float);
    assert_near(t.result.tensor.held / sizeof(float), whole - one / 2 - other * 3 / 5, 1e-6, 0);
}

TEST(what_it_says) {
    static const char run[] = "train --model mlp --steps 2 --devices cpu,cpu --tensor 2";
    assert_prints(0, "in a step 1 all-reduce", run);
    assert_prints(0, "535,818 parameters", run);
    assert_prints(0, "\"tensor_sums_a_step\":1", "%s --json", run);
    assert_prints(0, "\"tensor\":2", "%s --json", run);
}
