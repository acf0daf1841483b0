/* --zero 1, 2, 3: the weights of the other ways to train. Its memory and its bytes: test_zero_counts.c. */
#include <unistd.h>

#include "tests/support/devices.h"
#include "tests/support/training.h"

/* A tied table, which is needed first and last, and blocks. */
#define TIED                                                                                                 \
    "embedding 40 8, positions, residual(layer_norm, linear 24, attention 2 causal, linear 8), "             \
    "residual(layer_norm, linear 32, gelu, linear 8), layer_norm, tied"

static void same_as(const gs_settings *without, const char *what, bool to_the_bit) {
    gs_settings s = *without;
    gs_result whole = gs_test_train(&s);
    for (s.zero = 1; s.zero <= 3; s.zero++) {
        gs_result divided = gs_test_train(&s);
        if (to_the_bit) assert_near(divided.test_loss, whole.test_loss, 0, 0);
        if (to_the_bit)
            assert_same_bits(&whole, &divided, what);
        else
            assert_same_within_rounding(&whole, &divided, what);
        assert_int_equal(divided.zero.stage, s.zero);
    }
}

/* 1 to 5 workers, whose parts leave a rest; the last batch of an epoch leaves some of them without samples. */
TEST(the_same_bits_as_allreduce) {
    static const gs_optimizer_ops *const optimizer[] = {&gs_sgd, &gs_adam, &gs_nesterov, &gs_adamw};
    static const char *const devices[] = {"cpu", "cpu,cpu", "cpu,cpu,cpu", "cpu,cpu,cpu,cpu,cpu"};
    for (int i = 0; i < 4; i++) {
        gs_settings s = gs_test_settings("%s", devices[i]);
        s.optimizer = optimizer[i];
        s.lr = i == 0 ? 0.05f : 0.001f;
        s = gs_test_with(s, "--weight-decay 0.01 --verify 7");
        s.clip = i % 2 ? 0.5f : 0;
        if (i == 0) s.batch = 250; /* a worker computes 256 samples at once: one pass */
        same_as(&s, devices[i], true);
    }
}

/* Their rates need the norms of whole tensors, of which each worker has a part. */
TEST(rates_by_tensor) {
    for (const gs_optimizer_ops *const *o = gs_optimizers; *o; o++) {
        if (!(*o)->whole) continue;
        gs_settings s = gs_test_settings("cpu,cpu,cpu --lr 0.01 --weight-decay 0.01 --clip 0.5 --steps 6");
        s.optimizer = *o;
        same_as(&s, (*o)->name, true);
    }
    gs_settings s = gs_test_settings("cpu --optimizer lamb --lr 0.01 --exact --steps 3");
    gs_result alone = gs_test_train(&s);
    s = gs_test_with(s, "--devices cpu,cpu,cpu,cpu --zero 3");
    assert_trains_to(&alone, &s, "lamb, exact");
}

TEST(few_samples_and_few_parameters) {
    gs_settings s = gs_test_settings("cpu,cpu,cpu,cpu,cpu,cpu,cpu");
    s.batch = 1199; /* of 6000: the last batch has 5 samples */
    s.steps = 7;
    same_as(&s, "5 samples for 7 workers", true);
    char devices[24 * 4 + 1] = "cpu";
    for (int i = 1; i < 24; i++) strcat(devices, ",cpu");
    s = gs_test_settings("%s --model 'global_avg_pool, flatten, linear 10' --steps 3", devices);
    same_as(&s, "20 parameters for 24 workers", true);
}

TEST(with_batch_norm) {
    gs_settings s = gs_test_settings("cpu,cpu,cpu");
    s.model =
        "conv 4 3x3 stride 2, batch_norm, relu, residual(conv 4 3x3 pad 1, batch_norm), flatten, linear 10";
    s = gs_test_with(s, "--batch 30 --steps 5");
    same_as(&s, "statistics of the global batch", true);
    s.batch_norm = (gs_batch_norm_groups){.over = GS_BATCH_NORM_LOCAL};
    same_as(&s, "of a worker's part", true);
}

static gs_settings text_settings(const char *devices) {
    gs_settings s = gs_test_settings(
        "%s --context 8 --batch 24 --steps 4 --optimizer adamw --lr 0.01 --model '" TIED "'", devices);
    s.data = gs_test_format("text:%s", gs_test_text_file());
    return s;
}

TEST(a_tensor_of_two_layers) {
    gs_settings s = text_settings("cpu,cpu,cpu");
    same_as(&s, "a tied table", true);
    s.optimizer = &gs_sgd; /* Adam divides by gradients, and makes much of the rounding of small ones */
    s.micro_batch = 3;     /* several passes, in which the table's gradient is begun anew */
    same_as(&s, "a tied table, several passes", false);
}

/* Pieces of 20 samples: worker 0 has 41, and so one pass more than worker 1. */
TEST(several_passes) {
    gs_settings s = gs_test_settings("cpu,cpu --batch 81 --micro-batch 20 --steps 6");
    same_as(&s, "passes of different number", false);
    s.micro_batch = 0;
    s.accumulate = 3;
    same_as(&s, "--accumulate", false);
}

/* ---- --exact ---- */

static void exact_as_one_worker(const gs_settings *settings, const char *what) {
    static const char *const devices[] = {"cpu", "cpu,cpu", "cpu,cpu,cpu,cpu",
                                          "cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu"};
    gs_settings s = gs_test_with(*settings, "--exact --devices cpu");
    gs_result alone = gs_test_train(&s);
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        for (s.zero = 1; s.zero <= 3 && (i == 2 || !gs_test_small()); s.zero++) {
            s.devices = devices[i];
            assert_trains_to(&alone, &s, what);
        }
}

TEST(exact_has_the_bits_of_one_worker) {
    gs_settings s = gs_test_settings("cpu --clip 0.5");
    exact_as_one_worker(&s, "dropout, and a last batch of 6 samples");
    s = text_settings("cpu");
    exact_as_one_worker(&s, "a tied table");
    s = gs_test_settings("cpu --model 'conv 4 3x3 stride 2, batch_norm, relu, flatten, linear 10'");
    s.batch_norm = (gs_batch_norm_groups){.over = GS_BATCH_NORM_GHOST, .group = 2};
    s = gs_test_with(s, "--batch 32 --steps 3");
    exact_as_one_worker(&s, "ghost batch norm");
}

/* ---- between processes, on OpenCL ---- */

TEST(between_processes) {
    static const char *const transport[] = {"", "--transport gloo"};
    for (size_t i = 0; i < sizeof transport / sizeof *transport; i++) {
        const char *common = "train --model lenet --threads 1 --steps 4 --tests 0 --verify 2 --batch 20";
        const char *whole = gs_test_sha256("launch -n 2 %s -- %s", transport[i], common);
        for (int stage = 1; stage <= 3; stage++) {
            const char *divided =
                gs_test_sha256("launch -n 2 %s -- %s --zero %d", transport[i], common, stage);
            assert_string_equal(whole, divided); /* of two numbers there is one sum */
        }
    }
}

TEST(on_opencl_too) {
    gs_test_need_opencl();
    gs_settings s = gs_test_settings("cl,cpu,cl --steps 3");
    same_as(&s, "cl,cpu,cl", true);
}

/* ---- stop and resume ---- */

TEST(resumed_with_another_number_of_workers) {
    static const gs_test_change runs[] = {{{"cpu,cpu", NULL, 0, 1}, {"cpu,cpu,cpu,cpu", NULL, 0, 2}},
                                          {{"cpu,cpu,cpu,cpu", NULL, 0, 3}, {"cpu,cpu", NULL, 0, 1}},
                                          {{"cpu", NULL, 0, 2}, {"cpu,cpu", NULL, 0, 3}},
                                          {{"cpu,cpu", NULL, 0, 3}, {"cpu", NULL, 0, 0}}};
    gs_settings s = gs_test_settings("cpu --exact --optimizer adam --lr 0.001 --steps 8");
    gs_test_goes_on(&s, 5, runs, 4);
}

TEST(the_best_epoch_is_kept) {
    const char *path = gs_test_format("%s/best.safetensors", gs_test_folder());
    gs_settings s =
        gs_test_with(gs_test_settings("cpu,cpu"), "--epochs 2 --batch 500 --keep best --save %s", path);
    s.steps = 0;
    gs_result whole = gs_test_train(&s);
    s.zero = 3;
    gs_result divided = gs_test_train(&s);
    assert_int_equal(whole.kept_epoch, divided.kept_epoch);
    assert_same_bits(&whole, &divided, "--keep best");
    unlink(path);
}

/* ---- what it says, and what it does not go with ---- */

TEST(what_it_says) {
    static const char *const what[] = {"(ZeRO 1)", "(ZeRO 2)", "(ZeRO 3)"};
    for (int i = 0; i < 3; i++)
        assert_prints(0, what[i], "train --model softmax --zero %d --devices cpu,cpu --steps 1", i + 1);
    assert_prints(0, "3 (N - 1) / N x 0.0314 MB, with N = 2: a worker sends 47,100 bytes",
                  "train --model softmax --zero 3 --devices cpu,cpu --steps 1");
    assert_prints(0, "\"zero_sent_formula\":47100",
                  "train --model softmax --zero 3 --devices cpu,cpu --steps 1 --json");
}

TEST(what_does_not_go_with_it) {
    assert_prints(2, "is not a whole number from 0 to 3", "train --zero 4");
    assert_prints(2, "does not work with --sync local", "train --zero 2 --sync local --every 2");
    assert_prints(2,
                  "--batch-norm global: --exact with --zero computes a batch in parts, one after the other, "
                  "and statistics of the global batch need all samples at once; wanted --batch-norm ghost:G "
                  "(statistics of each G samples) or local; or --exact alone",
                  "train --zero 1 --exact --model 'conv 2 9x9, batch_norm, flatten, linear 10'");
    assert_prints(2, "wanted a batch of at most 2048", "train --zero 2 --exact --batch 3000 --steps 1");
    assert_prints(2, "there are 3 workers; wanted 1, 2, 4 or 8",
                  "train --zero 2 --exact --devices cpu,cpu,cpu");
    assert_prints(2, "only cpu is known to give the same bits", "train --zero 1 --exact --devices cl");
}
