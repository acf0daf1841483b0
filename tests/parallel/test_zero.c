/* --zero 1, 2, 3: the weights equal those of the other strategies. test_zero_counts.c tests memory and bytes. */
#include "tests/support/devices.h"
#include "tests/support/training.h"

/* A tied table, which is needed first and last, and blocks. */
#define TIED                                                                                                 \
    "--data text:@ --context 8 --batch 24 --steps 4 --lr 0.01 --model 'embedding 40 8, positions, "          \
    "residual(layer_norm, linear 24, attention 2 causal, linear 8), "                                        \
    "residual(layer_norm, linear 32, gelu, linear 8), layer_norm, tied' "

#define STAGES "--zero 1", "--zero 2", "--zero 3"

/* 1 to 5 workers. They do not divide the parameters evenly, and some get no samples in an epoch's last batch. A worker
 * computes 256 samples at once, so even a single one needs only one pass. */
TEST(the_same_bits_as_allreduce) {
    static const char common[] = "--weight-decay 0.01 --verify 7 --optimizer";
    static const char *const runs[] = {"sgd --lr 0.05 --batch 250", "adam --lr 0.001 --clip 0.5 " ON_2,
                                       "nesterov --lr 0.001 " ON_3,
                                       "adamw --lr 0.001 --clip 0.5 --devices cpu,cpu,cpu,cpu,cpu"};
    for (int i = 0; i < 4; i++) assert_ways_have_the_bits(gs_test_format("%s %s", common, runs[i]), STAGES);
}

/* Optimisers whose rates need the norms of whole tensors. Each worker holds only a part of each tensor. */
TEST(rates_by_tensor) {
    for (const gs_optimizer_ops *const *o = gs_optimizers; *o; o++)
        if ((*o)->whole)
            assert_ways_have_the_bits(gs_test_format(ON_3
                                                     "--lr 0.01 --weight-decay 0.01 --clip 0.5 --steps 6 "
                                                     "--optimizer %s",
                                                     (*o)->name),
                                      STAGES);
    assert_ways_have_the_bits("--optimizer lamb --lr 0.01 --exact --steps 3", ON_4 "--zero 3");
}

/* 5 samples (the last of 6000) for 7 workers, and 20 parameters for 24 workers. */
TEST(few_samples_and_few_parameters) {
    assert_ways_have_the_bits("--devices cpu,cpu,cpu,cpu,cpu,cpu,cpu --batch 1199 --steps 7", STAGES);
    char devices[24 * 4 + 1] = "cpu";
    for (int i = 1; i < 24; i++) strcat(devices, ",cpu");
    assert_ways_have_the_bits(
        gs_test_format("--devices %s --model 'global_avg_pool, flatten, linear 10' --steps 3", devices),
        STAGES);
}

/* Statistics over the global batch, and over a worker's part of it. */
TEST(with_batch_norm) {
    static const char NORMED[] = ON_3
        "--batch 30 --steps 5 --model 'conv 4 3x3 stride 2, batch_norm, relu, residual(conv 4 3x3 pad 1, "
        "batch_norm), flatten, linear 10' --batch-norm %s";
    assert_ways_have_the_bits(gs_test_format(NORMED, "global"), STAGES);
    assert_ways_have_the_bits(gs_test_format(NORMED, "local"), STAGES);
}

/* The table's gradient starts anew in each of several passes. Adam divides by gradients, which magnifies the rounding
 * errors of small ones. */
TEST(a_tensor_of_two_layers) {
    assert_ways_have_the_bits(TIED ON_3 "--optimizer adamw", STAGES);
    assert_ways_are_near(TIED ON_3 "--optimizer sgd --micro-batch 3", STAGES);
}

/* Micro-batches of 20 samples: worker 0, with 41 samples, needs one more pass than worker 1. */
TEST(several_passes) {
    assert_ways_are_near(ON_2 "--batch 81 --steps 6 --micro-batch 20", STAGES);
    assert_ways_are_near(ON_2 "--batch 81 --steps 6 --accumulate 3", STAGES);
}

/* ---- --exact ---- */

/* Dropout, and a last batch of 6 samples; a tied table; ghost batch norm. */
TEST(exact_has_the_bits_of_one_worker) {
    static const char *const runs[] = {
        "--exact --clip 0.5", TIED "--exact --optimizer adamw",
        "--exact --batch-norm ghost:2 --batch 32 --steps 3 --model 'conv 4 3x3 stride 2, batch_norm, relu, "
        "flatten, linear 10'"};
    for (int i = 0; i < 3; i++) {
        assert_ways_have_the_bits(runs[i], ON_4 "--zero 1", ON_4 "--zero 2", ON_4 "--zero 3");
        if (gs_test_small()) continue;
        assert_ways_have_the_bits(runs[i], STAGES, ON_2 "--zero 1", ON_2 "--zero 2", ON_2 "--zero 3",
                                  ON_8 "--zero 1", ON_8 "--zero 2", ON_8 "--zero 3");
    }
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
            assert_string_equal(whole, divided); /* two numbers have only one sum */
        }
    }
}

TEST(on_opencl_too) {
    gs_test_need_opencl();
    assert_ways_have_the_bits("--devices cl,cpu,cl --steps 3", STAGES);
    assert_ways_have_the_bits("--exact --steps 3", "--devices cl,cpu --zero 1", "--devices cl,cpu --zero 3");
}

/* ---- the weights of the best epoch ---- */

/* The file is complete, whichever worker writes or reads it. */
TEST(the_best_epoch_is_kept) {
    static const char *const ways[] = {"", "--zero 3", "--tensor 2"};
    const char *path = gs_test_format("%s/best.safetensors", gs_test_folder());
    gs_result whole, loaded;
    for (int i = 0; i < 3; i++) {
        gs_settings s =
            gs_test_settings("cpu,cpu --exact --epochs 2 --batch 500 --keep best --tests 2 --save "
                             "%s --model 'flatten, linear 16, tanh, linear 10' %s",
                             path, ways[i]);
        s.steps = 0;
        const gs_result r = gs_test_train(&s);
        s = gs_test_with(s, "--load %s --epochs 1", path);
        s.keep.best = false;
        s.save = NULL;
        const gs_result then = gs_test_train(&s);
        if (i == 0) whole = r, loaded = then;
        assert_int_equal(whole.kept_epoch, r.kept_epoch);
        assert_same_bits(&whole, &r, ways[i]);
        assert_same_bits(&loaded, &then, ways[i]);
    }
}

/* ---- messages and refused options ---- */

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
    assert_prints(2, "wanted a batch of at most 2048", "train --zero 2 --exact --batch 3000 --steps 1");
    assert_prints(2, "there are 3 workers; wanted 1, 2, 4 or 8",
                  "train --zero 2 --exact --devices cpu,cpu,cpu");
}
