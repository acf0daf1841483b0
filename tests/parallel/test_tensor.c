/* --tensor: workers divide linear layers. The weights equal one worker's up to rounding; with --exact, bit for bit. */
#include <math.h>

#include "layer/memory/recompute.h"
#include "tests/support/counted.h"
#include "tests/support/devices.h"
#include "tests/support/training.h"

/* Two pairs, one without biases, and a linear layer outside the pairs. */
#define CHAIN                                                                                                \
    "flatten, linear 24, relu, linear 12, tanh, dropout 0.25, linear 12 no_bias, sigmoid, linear 36 "        \
    "no_bias, "                                                                                              \
    "linear 10"
#define BLOCKS                                                                                               \
    "embedding 40 8, positions, 2 x residual (residual (layer_norm, linear 24, attention 4 causal, linear "  \
    "8), "                                                                                                   \
    "residual (layer_norm, linear 32, gelu, linear 8)), layer_norm, tied"
#define TEXT "--data text:@ --context 8 --batch 24 --steps 4 --model '" BLOCKS "' "

/* A separate, not tied, output layer for 43 words, which no group here divides evenly. */
#define WORDS                                                                                                \
    "--model 'embedding 43 8, positions, residual (layer_norm, linear 16, gelu, linear 8), layer_norm, "     \
    "linear 43' "

/* ---- up to rounding ---- */

TEST(the_weights_of_one_worker) {
    assert_ways_are_near("--clip 0.5 --verify 3 --model '" CHAIN "'", ON_2 "--tensor 2", ON_3 "--tensor 3",
                         ON_4 "--tensor 4", ON_4 "--tensor 2", ON_6 "--tensor 3", ON_6 "--tensor 2",
                         ON_2 "--tensor 2 --accumulate 3");
    assert_ways_are_near(TEXT "--verify 2 --clip 0.1 --label-smoothing 0.1", ON_2 "--tensor 2",
                         ON_4 "--tensor 4", ON_4 "--tensor 2", ON_2 "--tensor 2 --micro-batch 5");
    assert_ways_are_near(TEXT WORDS "--verify 2 --clip 0.1 --label-smoothing 0.1",
                         ON_2 "--tensor 2 --micro-batch 5", ON_4 "--tensor 4 --micro-batch 5");
}

/* Optimisers whose rates need norms of whole tensors; and f16, which must know whether all gradients are finite. */
TEST(other_updates) {
    static const char *const optimizers[] = {"lars", "lamb", "adam"};
    for (int i = 0; i < 3; i++)
        assert_ways_are_near(
            gs_test_format("--optimizer %s --lr 0.001 --steps 4 --model '" CHAIN "'", optimizers[i]),
            ON_2 "--tensor 2", ON_6 "--tensor 3");
    gs_settings s = gs_test_settings("cpu --precision f16 --steps 6 --model '" CHAIN "'");
    gs_settings divided = gs_test_with(s, ON_2 "--tensor 2"); /* the last of 16 bits may round differently */
    gs_result one = gs_test_train(&s), r = gs_test_train(&divided);
    if (!(gs_test_difference(&one, &r) < 1e-3)) fail_msg("f16: %g", gs_test_difference(&one, &r));
}

/* Statistics of the global batch count each sample once, not once per worker of a group. */
TEST(with_batch_norm) {
    assert_ways_are_near(
        "--model 'conv 4 3x3 stride 2, batch_norm, tanh, flatten, linear 16, tanh, linear 10' "
        "--batch 30 --steps 5",
        ON_2 "--tensor 2", ON_4 "--tensor 2");
}

/* Pairs of convolutions: with a pooling, with a bias that must be added only once, and in blocks with a batch_norm in
 * between. 2 and 3 ranks divide the 5 and 10 channels unevenly. */
#define CONVOLUTIONS                                                                                         \
    "--batch 24 --steps 4 --lr 0.01 --verify 2 --clip 0.5 --model 'conv 5 3x3 stride 2, batch_norm, relu, "  \
    "conv 4 3x3 pad 1, max_pool 2, "                                                                         \
    "residual (conv 10 3x3 pad 1 no_bias, batch_norm, tanh, conv 4 3x3 pad 1 no_bias, batch_norm), "         \
    "conv 6 3x3 pad 1, relu, max_pool 2, conv 6 1x1, conv 6 3x3 pad 1 groups 2, flatten, linear 10' "

TEST(pairs_of_convolutions) {
    assert_ways_are_near(CONVOLUTIONS, ON_2 "--tensor 2", ON_3 "--tensor 3", ON_4 "--tensor 2");
    assert_ways_are_near(CONVOLUTIONS "--batch-norm ghost:6 --recompute all", ON_2 "--tensor 2");
}

TEST(on_opencl_too) {
    gs_test_need_opencl();
    assert_ways_are_near("--steps 3 --model '" CHAIN "'", "--devices cl,cl --tensor 2");
    assert_ways_are_near(CONVOLUTIONS "--batch 12 --steps 2", "--devices cl,cl --tensor 2");
    assert_ways_are_near(TEXT "--steps 2", "--devices cl,cl --tensor 2");
    assert_ways_have_the_bits(TEXT "--exact --steps 2", "--devices cl", "--devices cl,cpu --tensor 2");
    assert_ways_have_the_bits(TEXT WORDS "--exact --steps 2", "--devices cl,cpu --tensor 2",
                              "--devices cl,cpu,cl,cpu --tensor 4 --sequence");
}

/* ---- --exact ---- */

#define GROUPS_OF_2_AND_4 ON_2 "--tensor 2", ON_4 "--tensor 4"
#define GROUPS GROUPS_OF_2_AND_4, ON_4 "--tensor 2", ON_8 "--tensor 8", ON_8 "--tensor 4", ON_2

TEST(exact_has_the_bits_of_one_worker) {
    /* a pair of 16; dropout, and a last batch of 6 samples */
    assert_ways_have_the_bits("--exact --clip 0.5", GROUPS, ON_2 "--pipeline 2", ON_2 "--zero 3");
    assert_ways_have_the_bits("--exact --batch-norm ghost:2 --batch 32 --optimizer lamb --lr 0.01 --steps 4 "
                              "--clip 0.5 --model 'conv 2 3x3 stride 2, batch_norm, relu, flatten, linear "
                              "72, relu, linear 20, linear 10'",
                              GROUPS);
    static const char ADAMW[] = TEXT "--exact --optimizer adamw --lr 0.01 --clip 0.1";
    assert_ways_have_the_bits(ADAMW, GROUPS_OF_2_AND_4, ON_4 "--tensor 2"); /* 4 heads */
    assert_ways_have_the_bits(gs_test_format("%s --precision bf16", ADAMW), GROUPS_OF_2_AND_4);
    assert_ways_have_the_bits(gs_test_format("%s --label-smoothing 0.1 " WORDS, ADAMW), GROUPS_OF_2_AND_4,
                              ON_4 "--tensor 2", ON_8 "--tensor 8");
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

/* Whether the call is a message outside of collectives. */
static bool of_sums(const gs_call *call) {
    return call->operation == GS_SEND;
}

/* Each block of a transformer needs 4 all-reduces of tokens x width, the vocabulary needs 2 more, and the loss T + 3
 * numbers per token. All of this is sent 2 (T - 1) / T times; with --exact, log2 T times, and the sums of the loss and
 * of the tied layer's dx come in 8 leaves. */
TEST(bytes_are_those_of_the_formula) {
    enum { BLOCKS_THERE = 2, WIDTH = 8, TOKENS = 24 * 8, WORDS_THERE = 40 };
    gs_counted_run t = {.settings =
                            gs_test_settings("cpu --context 8 --batch 24 --steps 3 --model '" BLOCKS "'"),
                        .counts = of_sums};
    gs_settings *s = &t.settings;
    s->data = gs_test_format("text:%s", gs_test_text_file());
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
        assert_near(t.result.tensor.sums, 4 * BLOCKS_THERE + 1 + 3 * (s->exact ? 8 : 1), 1e-9, 0);
        assert_near(t.result.tensor.bytes, all, 1e-6, 0);
        /* qkv, projection, fc1, fc2, and the biases of the first layer of each pair; the table */
        const double shared = BLOCKS_THERE * (12 * WIDTH * WIDTH + 7 * WIDTH) + WORDS_THERE * WIDTH,
                     whole = t.result.tensor.model / sizeof(float);
        assert_near(t.result.tensor.held / sizeof(float), whole - shared * (n - 1) / n, 1e-6, 0);
    }
}

/* A pair of convolutions sends its y, and the first one's dx if an earlier layer has parameters. */
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
