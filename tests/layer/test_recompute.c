/* --recompute gives the same bits with less memory. */
#include "layer/memory/recompute.h"
#include "tests/support/on_devices.h"
#include "tests/support/operators.h"
#include "tests/support/training.h"
#include "parallel/schedule.h"

/* ---- models with layers in place, fused layers, masks and statistics, and every kind of end ---- */

static const char lenet[] = "conv 6 5x5 pad 2, relu, max_pool 2, conv 8 3x3 pad 1, relu, max_pool 2, "
                            "flatten, linear 20, relu, linear 12, relu, linear 10";
static const char resnet[] =
    "block same C = residual (conv C 3x3 pad 1 no_bias, batch_norm, relu, conv C 3x3 pad 1, batch_norm), "
    "relu; block down C = residual (conv C 3x3 stride 2 pad 1, batch_norm, relu, conv C 3x3 pad 1, "
    "batch_norm | conv C 1x1 stride 2, batch_norm), relu; conv 4 3x3 pad 1, batch_norm, relu, 2 x same 4, "
    "down 6, same 6, global_avg_pool, flatten, linear 10";
static const char gpt[] =
    "block layer = residual (layer_norm, linear 24, attention 2 causal, linear 8, dropout 0.1), "
    "residual (layer_norm, linear 32, gelu, linear 8); "
    "embedding 23 8 std 0.02, positions std 0.02, dropout 0.1, 3 x layer, layer_norm, tied";
static const char endings[] =
    "conv 4 3x3 pad 1, tanh, residual (conv 4 3x3 pad 1, tanh), dropout 0.2, residual (conv 4 3x3 pad 1, "
    "batch_norm, silu, conv 4 3x3 pad 1, relu, max_pool 2 | avg_pool 2), residual (conv 4 1x1, residual "
    "(conv 4 3x3 pad 1, sigmoid, conv 4 1x1)), 2 x (conv 4 3x3 pad 1, gelu), residual (dropout 0.3, conv 3 "
    "1x1, relu | conv 3 1x1), relu, residual (flatten, linear 48 | flatten), flatten, linear 10";

static const int ways[] = {GS_RECOMPUTE_ALL, GS_RECOMPUTE_BLOCKS, 2, 3, 5, 100};
enum { WAYS = sizeof ways / sizeof *ways };

typedef struct data {
    gs_dataset *images, *tokens;
} data;

static int make_sets(void **state) {
    static data sets;
    sets = (data){gs_test_made_set((gs_shape){3, 8, 8, 0}, 10, 60, false),
                  gs_test_made_set((gs_shape){1, 1, 1, 8}, 23, 60, true)};
    *state = &sets;
    return 0;
}

/* 60 samples in batches of 24: the third batch has 12. */
static gs_settings settings_of(const data *sets, const char *model, const char *devices) {
    gs_settings s = gs_test_options("--model '%s'", model);
    s.train_set = s.test_set = model == gpt ? sets->tokens : sets->images;
    s = gs_test_with(s, "--devices %s --threads 1 --batch 24 --steps 4 --batch-norm local", devices);
    return s;
}

/* Compares the parameters, the running statistics that follow them, and the measured values. */
static void same_outcome(const gs_settings *s, const gs_result *plain, const gs_result *again,
                         const char *what) {
    gs_model *plan = gs_test_plan(s->model, s->train_set->shape);
    for (size_t i = 0; i < plan->saved; i++)
        if (memcmp(&plain->weights[i], &again->weights[i], sizeof *plain->weights) != 0)
            fail_msg("%s, %s on %s: weight %zu of %zu is %.9g, without it %.9g", what, s->model, s->devices,
                     i, plan->saved, (double)again->weights[i], (double)plain->weights[i]);
    assert_near(again->train_loss, plain->train_loss, 0, 0);
    assert_near(again->test_loss, plain->test_loss, 0, 0);
}

static void same_bits(gs_settings s, const char *what) {
    gs_result plain = gs_test_train(&s);
    for (int i = 0; i < WAYS; i++) {
        char which[16];
        s.recompute = ways[i];
        const char *text =
            gs_test_format("--recompute %s%s", gs_recompute_text(ways[i], which, sizeof which), what);
        gs_result again = gs_test_train(&s);
        same_outcome(&s, &plain, &again, text);
    }
}

TEST_AROUND(every_model_gets_the_same_bits, make_sets, NULL) {
    static const char *const models[] = {lenet, resnet, gpt, endings};
    FOR_EACH_DEVICE (d)
        for (size_t i = 0; i < sizeof models / sizeof *models; i++)
            same_bits(settings_of(*state, models[i], d->name), "");
}

/* ---- with every strategy ---- */

TEST_AROUND(passes_and_precision, make_sets, NULL) {
    gs_settings s = gs_test_with(settings_of(*state, resnet, "cpu"),
                                 "--accumulate 3 --micro-batch 4 --batch-norm ghost:2");
    same_bits(s, " --accumulate 3 --micro-batch 4 --batch-norm ghost:2");
    s = gs_test_with(settings_of(*state, gpt, "cpu"), "--precision bf16 --optimizer adamw --lr 0.001 "
                                                      "--clip 0.5");
    same_bits(s, " --precision bf16 --optimizer adamw --clip 0.5");
    s.precision = GS_PRECISION_F16;
    same_bits(s, " --precision f16 --optimizer adamw --clip 0.5");
    if (!gs_test_has_opencl()) return;
    s.devices = "cl"; /* a device that stores activations in 16 bits */
    same_bits(s, " --precision f16 --optimizer adamw --clip 0.5, OpenCL");
}

/* With --bucket, the sums start during backward. With global statistics, the workers add in a fixed order. */
TEST_AROUND(several_workers, make_sets, NULL) {
    gs_settings s = gs_test_with(settings_of(*state, endings, "cpu,cpu"), "--bucket 1");
    same_bits(s, " --bucket 1");
    s = gs_test_with(settings_of(*state, resnet, "cpu,cpu,cpu"), "--batch-norm global");
    same_bits(s, " --batch-norm global");
    if (!gs_test_has_opencl()) return;
    s.devices = "cpu,cl";
    same_bits(s, " --batch-norm global");
}

TEST_AROUND(exact, make_sets, NULL) {
    gs_settings s = gs_test_with(settings_of(*state, resnet, "cpu,cpu"), "--exact --batch-norm global");
    same_bits(s, " --exact --batch-norm global");
    s = gs_test_with(settings_of(*state, gpt, "cpu,cpu"), "--exact");
    same_bits(s, " --exact");
}

/* The layers of a segment form one unit, whose weights are gathered while its forward runs again. */
TEST_AROUND(zero, make_sets, NULL) {
    gs_settings s = settings_of(*state, gpt, "cpu,cpu,cpu");
    for (s.zero = 1; s.zero <= 3; s.zero++) same_bits(s, " --zero 1, 2, 3");
    s = gs_test_with(settings_of(*state, endings, "cpu,cpu"), "--zero 3 --accumulate 2");
    same_bits(s, " --zero 3 --accumulate 2");
    s = gs_test_with(s, "--exact --batch-norm ghost:1 --model '%s'", resnet);
    s.accumulate = 0;
    same_bits(s, " --zero 3 --exact");
}

/* Each stage divides its layers into segments. */
TEST_AROUND(pipelines, make_sets, NULL) {
    for (const gs_pipeline_schedule *const *schedule = gs_pipeline_schedules(); *schedule; schedule++) {
        gs_settings s = gs_test_with(settings_of(*state, *schedule == &gs_gpipe ? resnet : gpt, "cpu,cpu"),
                                     "--pipeline 2 --micro-batches 6");
        s.pipeline_schedule = (*schedule)->name;
        same_bits(s, s.pipeline_schedule);
    }
}

/* The group also repeats the sums inside recomputed layers. */
TEST_AROUND(tensor_parallel, make_sets, NULL) {
    gs_settings s = gs_test_with(settings_of(*state, gpt, "cpu,cpu,cpu,cpu"), "--tensor 2");
    same_bits(s, " --tensor 2");
    s.exact = true;
    same_bits(s, " --tensor 2 --exact");
    s = settings_of(*state, "flatten, linear 32, 3 x residual (linear 64, tanh, linear 32), linear 10",
                    "cpu,cpu");
    s.tensor = s.accumulate = 2;
    same_bits(s, " --tensor 2 --accumulate 2");
}

/* ---- memory ---- */

/* A run's ledger agrees with the plan. */
TEST_AROUND(it_takes_less_memory, make_sets, NULL) {
    static const char *const models[] = {resnet, gpt};
    FOR_EACH_DEVICE (d)
        for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
            double took[2];
            for (int on = 0; on < 2; on++) {
                gs_settings s = settings_of(*state, models[i], d->name);
                s.recompute = on ? GS_RECOMPUTE_BLOCKS : GS_RECOMPUTE_NONE;
                gs_memory_plan plan;
                assert_ok(gs_memory_plan_create(&s, &plan));
                gs_result r = gs_test_train(&s);
                took[on] = r.worker[0].memory[GS_ON_DEVICE].bytes[GS_MEMORY_ACTIVATIONS];
                const double said = plan.worker[0].use[GS_ON_DEVICE].bytes[GS_MEMORY_ACTIVATIONS];
                assert_near(said, took[on], 0, 0.03);
                assert_true(on == (plan.again > 0) && plan.again < 1);
                for (size_t l = 0; l < plan.layers; l++) assert_true(plan.layer[l].activations >= 0);
                assert_true(plan.shared >= 0);
                gs_memory_plan_free(&plan);
            }
            if (took[1] > 0.7 * took[0])
                fail_msg("%s on %s: %.0f bytes of activations, without it %.0f", models[i], d->name, took[1],
                         took[0]);
        }
}

/* Chen et al.: if n layers form segments of k layers, memory holds the activations of about n / k + k layers. */
TEST(memory_of_a_deep_model) {
    enum { N = 16, WIDTH = 64 };
    static const char model[] = "linear 64, tanh, 64 x (linear 64, silu), linear 3";
    double takes[2];
    gs_device *cpu = gs_test_device("cpu", 1);
    gs_device_set_dry(cpu);
    for (int on = 0; on < 2; on++) {
        gs_model *m = gs_test_model(cpu, .text = model, .in = {5, 1, 1, 0}, .max_batch = N, .seed = 1,
                                    .recompute = on ? 16 : 0);
        takes[on] = cpu->memory.now[GS_ON_DEVICE].bytes[GS_MEMORY_ACTIVATIONS] / (N * WIDTH * sizeof(float));
        gs_test_free(m);
    }
    assert_true(takes[0] > 128);                         /* 64 linear and 64 silu have separate y */
    assert_true(takes[1] < 1.1 * (128.0 / 16 + 16 + 4)); /* 4 for dx and the loss's dx */
}

/* ---- the option ---- */

TEST_AROUND(bad_values_get_a_sentence, make_sets, NULL) {
    static const char *const bad[] = {"0", "-1", "1.5", "10000000", "block", "all,blocks", "4x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *sentence = gs_test_format(
            "--recompute: '%s' is not all, blocks, none, or a whole number of layers from 1 to 1000000",
            bad[i]);
        assert_prints(2, sentence, "train --steps 1 --recompute=%s", bad[i]);
    }
    assert_prints(2, "--recompute needs a value: WHICH", "train --recompute");
    gs_settings s = settings_of(*state, lenet, "cpu");
    gs_result r;
    s.recompute = -2;
    assert_int_equal(gs_train(&s, NULL, &r), GS_E_USAGE);
    assert_string_equal(gs_message(), "--recompute: '-2' is not all, blocks, none, or a whole number of "
                                      "layers from 1 to 1000000, such as 4");
}

TEST(it_says_what_it_costs) {
    static const char RUN[] = "--model \"flatten, 2 x residual (linear 784, tanh, linear 784), linear 10\" "
                              "--batch 64 --steps 1 --threads 1";
    assert_prints(0,
                  "again    --recompute blocks: backward repeats 50 % of forward's operations, in 2\n"
                  "         segments: a step has ",
                  "train %s --recompute blocks", RUN);
    assert_prints(0, "--recompute all: nothing to compute again;",
                  "train --model lenet --steps 1 --recompute all");
    assert_prints(0, "\"recompute\":\"blocks\"", "train %s --recompute blocks --json", RUN);
    assert_prints(0, "\"recompute\":null", "train %s --json", RUN);
    static const char DEEP[] = "memory --model \"flatten, linear 32, 8 x residual (linear 64, tanh, linear "
                               "32), linear 10\" --threads 1";
    assert_prints(0, "--recompute blocks", "%s", DEEP);
    assert_prints(0, "backward repeats 29 % of forward", "%s", DEEP);
    assert_prints(0, "buffers that layers share", "%s --layers --recompute all", DEEP);
}
