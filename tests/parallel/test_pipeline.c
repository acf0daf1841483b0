/* --pipeline: the model in stages. The weights equal one worker's up to rounding; with --exact, bit for bit. */
#include "tests/support/devices.h"
#include "tests/support/logs.h"
#include "tests/support/training.h"

#include <math.h>
#include <unistd.h>

static const char two[] = "cpu,cpu", four[] = "cpu,cpu,cpu,cpu";

/* ---- up to rounding ---- */

typedef struct layout {
    const char *devices;
    int stages;
    const char *schedule;
    int micro_batches;
    double least; /* the minimum over all stage times of the bubble in virtual time; 0: the formula's */
} layout;

static gs_settings with_layout(gs_settings s, const layout *l) {
    s.devices = l->devices;
    s.pipeline = l->stages;
    s.pipeline_schedule = l->schedule;
    s.micro_batches = l->micro_batches;
    return s;
}

TEST(every_schedule_gives_the_weights_of_one_worker) {
    static const layout layouts[] = {
        {two, 2, NULL, 0, 0},
        {two, 2, "gpipe", 5, 0},
        {"cpu,cpu,cpu", 3, "1f1b", 7, 0},
        {four, 2, "1f1b", 3, 0},
        {two, 2, "interleaved:1", 4, 1.0 / 8},
        {four, 2, "gpipe", 1, 0},
        {"cpu,cpu,cpu", 3, NULL, 2, 4.0 / 9},
        {"cpu,cpu,cpu", 3, "eager", 5, 2.0 / 9},
    };
    gs_settings s = gs_test_settings("cpu");
    gs_result one = gs_test_train(&s);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        const gs_settings in_stages = with_layout(s, &layouts[i]);
        gs_result r = gs_test_train(&in_stages);
        assert_same_within_rounding(&one, &r, layouts[i].schedule ? layouts[i].schedule : "1f1b");
        assert_int_equal(r.bubble.stages, layouts[i].stages);
        assert_true(r.bubble.measured > 0 && r.bubble.measured < 1);
        gs_test_near(r.bubble.fill + r.bubble.unequal + r.bubble.rest, r.bubble.measured, 1e-9, 0,
                     "the parts of the bubble", __FILE__, __LINE__);
        /* Equal stages wait least, unless the first stages may run ahead by more micro-batches than there are: with 2
         * of them, 3 stages that take 2, 2 and 1 have a bubble of 4/9, but equal stages of 1/2. Minima for such layouts
         * come from a search over stage times. */
        const double least = layouts[i].least > 0 ? layouts[i].least : r.bubble.formula;
        if (r.bubble.virtual_time < least - 1e-9)
            fail_msg("%s, %d stages: %g in virtual time, the minimum is %g",
                     layouts[i].schedule ? layouts[i].schedule : "1f1b", layouts[i].stages,
                     r.bubble.virtual_time, least);
        gs_test_near(r.train_loss, one.train_loss, 1e-5, 0, "loss", __FILE__, __LINE__);
        assert_true(r.test_accuracy == one.test_accuracy);
    }
}

/* Micro-batches are the passes of --accumulate: if only layers are divided, the bits are the same even without
 * --exact. */
TEST(micro_batches_are_passes) {
    gs_settings s = gs_test_settings("cpu --accumulate 6 --clip 0.5");
    gs_result one = gs_test_train(&s);
    s = gs_test_settings("cpu,cpu --clip 0.5 --pipeline 2 --micro-batches 6");
    assert_trains_to(&one, &s, "--micro-batches 6 against --accumulate 6");
    s.pipeline_schedule = "gpipe";
    assert_trains_to(&one, &s, "gpipe against --accumulate 6");
}

TEST(devices_may_be_mixed) {
    FOR_EACH_DEVICE (d)
        if (strcmp(d->name, "cpu") != 0)
            assert_ways_are_near(
                "--steps 6",
                gs_test_format("--devices cpu,%s,%s,cpu --pipeline 2 --micro-batches 4", d->name, d->name));
}

/* ---- to the bit ---- */

#define GPT                                                                                                  \
    "embedding 155 16 std 0.02, positions std 0.02, residual (layer_norm, linear 48 std 0.02, attention 2 "  \
    "causal, linear "                                                                                        \
    "16), dropout 0.1, residual (layer_norm, linear 32, gelu, linear 16), layer_norm, tied"
#define NORM                                                                                                 \
    "conv 4 3x3 stride 2 pad 1, batch_norm, relu, residual (conv 4 3x3 pad 1, batch_norm, relu), conv 8 "    \
    "3x3 stride 2, "                                                                                         \
    "batch_norm, relu, global_avg_pool, linear 10"

typedef struct exact_case {
    const char *name, *arguments;
    const char *layouts[9]; /* compared with one worker */
} exact_case;

static const exact_case cases[] = {
    {"lenet",
     "--model lenet --batch 700 --steps 10" /* the ninth step ends an epoch, with 400 samples */,
     {"train --devices cpu,cpu --pipeline 2",
      "train --devices cpu,cpu,cpu --pipeline 3 --pipeline-schedule gpipe",
      "train --devices cpu,cpu,cpu,cpu --pipeline 4", "train --devices cpu,cpu,cpu,cpu --pipeline 2",
      "train --devices cpu,cpu --pipeline 2 --pipeline-schedule interleaved",
      "launch -n 2 -- train --devices cpu --pipeline 2",
      "launch -n 2 --transport gloo -- train --devices cpu,cpu --pipeline 4",
      "launch -n 4 -- train --devices cpu --pipeline 2 --link 20us,200MB/s"}},
    {"gpt",
     "--model \"" GPT
     "\" --data jargon --context 16 --batch 24 --steps 6 --optimizer adamw --clip 0.5 --tests 0",
     {"train --devices cpu,cpu --pipeline 2", "train --devices cpu,cpu,cpu,cpu --pipeline 4",
      "train --devices cpu,cpu,cpu,cpu --pipeline 2 --pipeline-schedule gpipe",
      "launch -n 3 -- train --devices cpu --pipeline 3", "train --devices cl,cpu --pipeline 2"}},
    {"batch_norm",
     "--model \"" NORM "\" --batch 64 --steps 12 --batch-norm ghost:2",
     {"train --devices cpu,cpu --pipeline 2", "train --devices cpu,cpu,cpu,cpu --pipeline 2",
      "train --devices cpu,cpu,cpu --pipeline 3 --pipeline-schedule gpipe"}},
};

TEST(exact_gives_the_bits_of_one_worker) {
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const char *first = gs_test_sha256("train --exact %s", cases[c].arguments);
        for (int i = 0; cases[c].layouts[i]; i++) {
            if (strstr(cases[c].layouts[i], "cl,") && !gs_test_has_opencl()) continue;
            const char *command = gs_test_format("%s --exact %s", cases[c].layouts[i], cases[c].arguments);
            const char *sha256 = gs_test_sha256("%s", command);
            if (strcmp(first, sha256) != 0)
                fail_msg("%s: gradsum %s: %s, but one worker gives %s", cases[c].name, command, sha256,
                         first);
        }
    }
}

/* Uneven batches, the last with fewer samples than virtual shards; dropout; and state, which affects the test loss. */
TEST(exact_holds_for_ragged_batches) {
    assert_ways_have_the_bits("--exact --batch-norm local --model 'dropout 0.1, " NORM "'",
                              ON_2 "--pipeline 2", ON_4 "--pipeline 2 --pipeline-schedule gpipe",
                              ON_3 "--pipeline 3");
}

/* ---- tied weights without --exact ---- */

TEST(tied_weights_are_one) {
    static const char run[] = "--model \"" GPT "\" --data jargon --context 16 --batch 24 --steps 8";
    double loss[4];
    static const char *const layouts[] = {"", ON_2 "--pipeline 2 --micro-batches 4",
                                          ON_4 "--pipeline 2 --micro-batches 3",
                                          ON_2 "--pipeline 2 --pipeline-schedule interleaved"};
    for (int i = 0; i < 4; i++) {
        loss[i] =
            gs_test_number_after(gs_test_output(0, "train %s %s --json", layouts[i], run), "\"test_loss\":");
        gs_test_near(loss[i], loss[0], 2e-5, 0, layouts[i], __FILE__, __LINE__);
    }
}

/* ---- what a worker holds ---- */

static double held(const gs_result *r, int worker, gs_memory_kind kind) {
    return r->worker[worker].memory[GS_ON_DEVICE].bytes[kind] / sizeof(float);
}

/* The first stage holds 156 of lenet's parameters (conv 6@5x5), the second the rest; with zero1 a worker holds half of
 * its stage's vectors. An allocation takes up to SLACK extra floats. At the end a worker also holds all weights. */
TEST(each_holds_its_own) {
    enum { FIRST = 156, SLACK = 32 };
    static const char *const layouts[] = {"dp2,pp2", "dp2,pp2,zero1"};
    gs_settings s = gs_test_settings("%s --steps 3 --model lenet --optimizer adam --pipeline-cut 3", four);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        s.layout = layouts[i];
        gs_result r = gs_test_train(&s);
        for (int w = 0; w < 4; w++) {
            const double stage = w < 2 ? FIRST : (double)r.params - FIRST,
                         vectors = i > 0 ? stage / 2 : stage;
            const double more = held(&r, w, GS_MEMORY_GRADIENTS) - stage,
                         more_of_vector = held(&r, w, GS_MEMORY_OPTIMIZER) / 2 - vectors;
            assert_true(more >= GS_STATS && more <= SLACK);
            assert_true(more_of_vector >= 0 && more_of_vector <= SLACK);
            assert_true(held(&r, w, GS_MEMORY_WEIGHTS) <= stage + (double)r.params + SLACK);
        }
    }
}

/* Each stage holds 4 of 8 equal layers, and with zero2 and zero3 also two windows, each for one layer. */
TEST(parts_and_windows_are_less_than_a_stage) {
    enum { LAYER = 64 * 64 + 64 };
    gs_settings s = gs_test_settings(four);
    gs_settings one = gs_test_settings("cpu");
    s.model = one.model = "flatten, linear 64, linear 64, linear 64, linear 64, linear 64, linear 64, linear "
                          "64, linear 64, linear 64, linear 10";
    s.batch = one.batch = 30; /* so the last of a pipeline's 8 micro-batches is empty */
    s.steps = one.steps = 3;
    s.pipeline_cut = "6";
    const gs_result plain = gs_test_train(&one);
    for (int zero = 1; zero <= 3; zero++) {
        s.layout = gs_test_format("dp2,pp2,zero%d", zero);
        const gs_result r = gs_test_train(&s);
        const double last = 4 * LAYER + 64 * 10 + 10, gradients = held(&r, 3, GS_MEMORY_GRADIENTS);
        assert_same_within_rounding(&plain, &r, s.layout);
        assert_true(zero > 1 ? gradients < last / 2 + 2 * LAYER + 100 : gradients > last);
        assert_true(held(&r, 3, GS_MEMORY_OPTIMIZER) < last / 2 + 100);
    }
}

/* Without --exact, zero1 changes no bit, because a + b = b + a; zero3 gives the same bits as zero2. */
TEST(zero_changes_no_bit) {
    static const char *const options[] = {"--clip 0.5", "--optimizer lamb",
                                          "--optimizer lars --precision f16",
                                          "--optimizer adamw --pipeline-schedule interleaved"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const char *sha256[4];
        for (int zero = 0; zero < 4; zero++)
            sha256[zero] = gs_test_sha256(
                "train --model lenet --batch 90 --steps 5 --devices %s --layout dp2,pp2,zero%d %s", four,
                zero, options[i]);
        assert_string_equal(sha256[0], sha256[1]);
        assert_string_equal(sha256[2], sha256[3]);
    }
}

/* ---- saving, resuming, stopping ---- */

TEST(weights_are_saved_whole) {
    const char *path = gs_test_format("%s/pipeline.safetensors", gs_test_folder());
    const char *before = gs_test_sha256("train --exact --model lenet --epochs 2 --optimizer adam");
    /* the second epoch divides the model differently from the first */
    gs_test_sha256("train --exact --model lenet --epochs 1 --optimizer adam " ON_3 "--pipeline 3 --save %s "
                   "--save-state",
                   path);
    assert_prints(2, "; --layout dpN goes on without stages, on N workers",
                  "train --resume %s --epochs 2 --devices cpu", path);
    static const char *const then[] = {"--steps 70 " ON_4 "--layout dp2,pp2,zero1",
                                       "--steps 80 " ON_2 "--layout dp2,zero3",
                                       "--steps 100000 " ON_2 "--layout pp2"};
    const char *after = NULL;
    for (int i = 0; i < 3; i++)
        after = gs_test_sha256("train --resume %s --epochs 2 %s --save %s --save-state", path, then[i], path);
    assert_string_equal(before, after);
    assert_prints(0, "accuracy", "eval --load %s --devices cpu,cpu", path);
}

static void stop_soon(gs_worker *w) {
    if (w->comm->rank == 0 && w->step == 3) gs_stop_requested = 1;
}

TEST(a_request_to_stop_reaches_all_stages) {
    gs_settings s = with_layout(gs_test_settings("cpu"), &(layout){four, 2, NULL, 4, 0});
    gs_result r;
    s.test_hook = stop_soon;
    gs_status status = gs_train(&s, NULL, &r);
    gs_stop_requested = 0;
    assert_ok(status);
    assert_true(r.interrupted && r.steps >= 4 && r.steps < GS_TEST_STEPS);
    gs_result_free(&r);
}

/* test_exact.c tests other replicas that differ. */
TEST(replicas_of_a_tied_table_are_verified) {
    assert_prints(0, "sha256",
                  "train --exact --model \"" GPT
                  "\" --data jargon --context 16 --batch 24 --steps 3 --devices %s --layout dp2,pp2,zero1 "
                  "--verify 1",
                  four);
}
