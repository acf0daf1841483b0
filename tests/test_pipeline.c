/* --pipeline: the model in stages. The weights are those of one worker, up to rounding; with --exact, to the bit. */
#include "tests/devices.h"
#include "tests/logs.h"
#include "tests/training.h"

#include <math.h>
#include <unistd.h>

static const char two[] = "cpu,cpu", four[] = "cpu,cpu,cpu,cpu";

/* ---- up to rounding ---- */

typedef struct layout {
    const char *devices;
    int stages;
    const char *schedule;
    int micro_batches;
} layout;

static gs_settings with_layout(gs_settings s, const layout *l) {
    s.devices = l->devices;
    s.pipeline = l->stages;
    s.pipeline_schedule = l->schedule;
    s.micro_batches = l->micro_batches;
    return s;
}

static void every_schedule_gives_the_weights_of_one_worker(void **state) {
    (void)state;
    static const layout layouts[] = {
        {two, 2, NULL, 0},           {two, 2, "gpipe", 5},         {"cpu,cpu,cpu", 3, "1f1b", 7},
        {four, 2, "1f1b", 3},        {two, 2, "interleaved:1", 4}, {four, 2, "gpipe", 1},
        {"cpu,cpu,cpu", 3, NULL, 2},
    };
    gs_settings s = gs_test_settings("cpu");
    gs_result one = gs_test_train(&s);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        const gs_settings in_stages = with_layout(s, &layouts[i]);
        gs_result r = gs_test_train(&in_stages);
        assert_same_within_rounding(&one, &r, layouts[i].schedule ? layouts[i].schedule : "1f1b");
        assert_int_equal(r.bubble.stages, layouts[i].stages);
        assert_true(r.bubble.measured > 0 && r.bubble.measured < 1);
        /* whatever the stages take, with equal times they would wait least */
        assert_true(r.bubble.virtual_time >= r.bubble.formula - 1e-9);
        gs_test_near(r.train_loss, one.train_loss, 1e-5, 0, "loss", __FILE__, __LINE__);
        assert_true(r.test_accuracy == one.test_accuracy);
        gs_result_free(&r);
    }
    gs_result_free(&one);
}

/* The same micro-batches as --accumulate: without --exact too the bits are the same, where only layers are split. */
static void micro_batches_are_passes(void **state) {
    (void)state;
    gs_settings s = gs_test_settings("cpu");
    s.accumulate = 6;
    s.clip = 0.5f;
    gs_result one = gs_test_train(&s);
    s.accumulate = 0;
    gs_settings in_stages = with_layout(s, &(layout){two, 2, "1f1b", 6});
    gs_result r = gs_test_train(&in_stages);
    assert_same_bits(&one, &r, "--micro-batches 6 against --accumulate 6");
    gs_result_free(&r);
    in_stages = with_layout(s, &(layout){two, 2, "gpipe", 6});
    r = gs_test_train(&in_stages);
    assert_same_bits(&one, &r, "gpipe against --accumulate 6");
    gs_result_free(&r);
    gs_result_free(&one);
}

static void devices_may_be_mixed(void **state) {
    (void)state;
    int count;
    gs_device *const *devices = gs_test_devices(&count);
    gs_settings s = gs_test_settings("cpu");
    s.steps = 6;
    gs_result one = gs_test_train(&s);
    for (int d = 0; d < count; d++) {
        char names[120];
        if (strcmp(devices[d]->name, "cpu") == 0) continue;
        snprintf(names, sizeof names, "cpu,%s,%s,cpu", devices[d]->name, devices[d]->name);
        const gs_settings in_stages = with_layout(s, &(layout){names, 2, NULL, 4});
        gs_result r = gs_test_train(&in_stages);
        assert_same_within_rounding(&one, &r, names);
        gs_result_free(&r);
    }
    gs_result_free(&one);
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
    const char *layouts[9]; /* beside one worker */
} exact_case;

static const exact_case cases[] = {
    {"lenet",
     "--model lenet --batch 100 --steps 70",
     {"train --devices cpu,cpu --pipeline 2",
      "train --devices cpu,cpu,cpu --pipeline 3 --pipeline-schedule gpipe",
      "train --devices cpu,cpu,cpu,cpu --pipeline 4", "train --devices cpu,cpu,cpu,cpu --pipeline 2",
      "train --devices cpu,cpu --pipeline 2 --pipeline-schedule interleaved",
      "launch -n 2 -- train --devices cpu --pipeline 2",
      "launch -n 2 --transport gloo -- train --devices cpu,cpu --pipeline 4",
      "launch -n 4 -- train --devices cpu --pipeline 2 --link 20us,200MB/s"}},
    {"gpt",
     "--model \"" GPT "\" --data jargon --context 16 --batch 24 --steps 12 --optimizer adamw --clip 0.5",
     {"train --devices cpu,cpu --pipeline 2", "train --devices cpu,cpu,cpu,cpu --pipeline 4",
      "train --devices cpu,cpu,cpu,cpu --pipeline 2 --pipeline-schedule gpipe",
      "launch -n 3 -- train --devices cpu --pipeline 3"}},
    {"batch_norm",
     "--model \"" NORM "\" --batch 64 --steps 12 --batch-norm ghost:2",
     {"train --devices cpu,cpu --pipeline 2", "train --devices cpu,cpu,cpu,cpu --pipeline 2",
      "train --devices cpu,cpu,cpu --pipeline 3 --pipeline-schedule gpipe"}},
};

static void exact_gives_the_bits_of_one_worker(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char first[65], sha256[65], command[900];
        snprintf(command, sizeof command, "train --exact %s", cases[c].arguments);
        gs_test_sha256(command, first);
        for (int i = 0; cases[c].layouts[i]; i++) {
            snprintf(command, sizeof command, "%s --exact %s", cases[c].layouts[i], cases[c].arguments);
            gs_test_sha256(command, sha256);
            if (strcmp(first, sha256) != 0)
                fail_msg("%s: gradsum %s: %s, but one worker gives %s", cases[c].name, command, sha256,
                         first);
        }
    }
}

/* Batches that nothing divides, the last with fewer samples than virtual shards; dropout. */
static void exact_holds_for_ragged_batches(void **state) {
    (void)state;
    gs_settings s = gs_test_settings("cpu");
    s.exact = true;
    gs_result one = gs_test_train(&s);
    const layout layouts[] = {{two, 2, "1f1b", 0}, {four, 2, "gpipe", 0}, {"cpu,cpu,cpu", 3, "1f1b", 0}};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        const gs_settings in_stages = with_layout(s, &layouts[i]);
        gs_result r = gs_test_train(&in_stages);
        assert_same_bits(&one, &r, layouts[i].schedule);
        assert_true(r.train_loss == one.train_loss && r.test_loss == one.test_loss);
        gs_result_free(&r);
    }
    gs_result_free(&one);
}

/* ---- tied weights without --exact ---- */

static void tied_weights_are_one(void **state) {
    (void)state;
    static const char run[] = "--model \"" GPT "\" --data jargon --context 16 --batch 24 --steps 8";
    char *output;
    double loss[4];
    static const char *const layouts[] = {"--devices cpu", "--devices cpu,cpu --pipeline 2 --micro-batches 4",
                                          "--devices cpu,cpu,cpu,cpu --pipeline 2 --micro-batches 3",
                                          "--devices cpu,cpu --pipeline 2 --pipeline-schedule interleaved"};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(gs_test_program(&output, "train %s %s --json", layouts[i], run), 0);
        const char *at = strstr(output, "\"test_loss\":");
        assert_non_null(at);
        loss[i] = strtod(at + strlen("\"test_loss\":"), NULL);
        free(output);
        gs_test_near(loss[i], loss[0], 2e-5, 0, layouts[i], __FILE__, __LINE__);
    }
}

/* ---- what a worker holds ---- */

static double held(const gs_result *r, int worker, gs_memory_kind kind) {
    return r->worker[worker].memory[GS_ON_DEVICE].bytes[kind] / sizeof(float);
}

/* Of lenet's parameters the first stage has 156 (conv 6@5x5) and the second the rest; with zero1 a worker has half of
 * the vectors of its stage. An allocation takes up to SLACK floats more. (Weights: at the end they are gathered.) */
static void each_holds_its_own(void **state) {
    (void)state;
    enum { FIRST = 156, SLACK = 32 };
    static const char *const layouts[] = {"dp2,pp2", "dp2,pp2,zero1"};
    gs_settings s = gs_test_settings(four);
    s.steps = 3;
    s.model = "lenet";
    s.optimizer = &gs_adam;
    s.pipeline_cut = "3";
    for (int i = 0; i < 2; i++) {
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
        gs_result_free(&r);
    }
}

/* Without --exact: the same bits as without zero1, since a + b = b + a. */
static void zero_1_changes_no_bit(void **state) {
    (void)state;
    static const char *const options[] = {"--clip 0.5", "--optimizer lamb",
                                          "--optimizer lars --precision f16",
                                          "--optimizer adamw --pipeline-schedule interleaved"};
    for (int i = 0; i < 4; i++) {
        char sha256[2][65], command[300];
        for (int zero = 0; zero < 2; zero++) {
            snprintf(command, sizeof command,
                     "train --model lenet --batch 90 --steps 5 --devices %s --layout dp2,pp2,zero%d %s", four,
                     zero, options[i]);
            gs_test_sha256(command, sha256[zero]);
        }
        assert_string_equal(sha256[0], sha256[1]);
    }
}

/* ---- saving, resuming, stopping ---- */

static void weights_are_saved_whole(void **state) {
    (void)state;
    char path[400];
    snprintf(path, sizeof path, "%s/pipeline.safetensors", gs_test_folder());
    char before[65], after[65], command[1000];
    snprintf(command, sizeof command, "train --exact --model lenet --epochs 2 --optimizer adam");
    gs_test_sha256(command, before);
    /* the second epoch in other stages than the first */
    snprintf(command, sizeof command,
             "train --exact --model lenet --epochs 1 --optimizer adam --devices cpu,cpu,cpu --pipeline 3 "
             "--save %s "
             "--save-state",
             path);
    gs_test_sha256(command, after);
    snprintf(
        command, sizeof command,
        "train --resume %s --epochs 2 --steps 70 --devices cpu,cpu,cpu,cpu --layout dp2,pp2,zero1 --save %s "
        "--save-state",
        path, path);
    gs_test_sha256(command, after);
    snprintf(command, sizeof command,
             "train --resume %s --epochs 2 --steps 80 --devices cpu,cpu --layout "
             "dp2,zero3 --save %s --save-state",
             path, path);
    gs_test_sha256(command, after);
    snprintf(command, sizeof command,
             "train --resume %s --epochs 2 --steps 100000 --devices cpu,cpu --layout pp2 "
             "--save %s",
             path, path);
    gs_test_sha256(command, after);
    assert_string_equal(before, after);
    gs_test_program_prints(0, "accuracy", "eval --load %s --devices cpu,cpu", path);
}

static void stop_soon(gs_worker *w) {
    if (w->comm->rank == 0 && w->step == 3) gs_stop_requested = 1;
}

static void a_request_to_stop_reaches_all_stages(void **state) {
    (void)state;
    gs_settings s = with_layout(gs_test_settings("cpu"), &(layout){four, 2, NULL, 4});
    gs_result r;
    s.test_hook = stop_soon;
    gs_status status = gs_train(&s, NULL, &r);
    gs_stop_requested = 0;
    assert_ok(status);
    assert_true(r.interrupted && r.steps >= 4 && r.steps < GS_TEST_STEPS);
    gs_result_free(&r);
}

/* ---- --verify ---- */

static struct {
    int rank;
    size_t at; /* in this worker's weights */
} harm;

/* Change one bit. */
static void do_harm(gs_worker *w) {
    uint32_t bits;
    if (w->comm->rank != harm.rank || w->step != 4) return;
    const gs_mem place = gs_at(w->model->weights, harm.at);
    if (w->device->ops->read(w->device, &bits, place, sizeof bits) != GS_OK) gs_bug("%s", gs_message());
    bits ^= 1u << 20;
    if (w->device->ops->write(w->device, place, &bits, sizeof bits) != GS_OK) gs_bug("%s", gs_message());
}

/* Three replicas of two stages of lenet, which the second begins with its conv2: ranks 0 to 2 have the first stage,
 * 3 to 5 the second. Sound, they pass. */
static void replicas_of_a_stage_are_verified(void **state) {
    (void)state;
    static const struct {
        int rank;
        size_t at;
        const char *wanted;
    } cases[] = {{1, 155, "step 4: worker 1's 0.bias differs from worker 0's"},
                 {0, 0, "step 4: worker 0's 0.weight differs from worker 1's"},
                 {5, 0, "step 4: worker 5's 3.weight differs from worker 3's"},
                 {3, 2416, "step 4: worker 3's 7.weight differs from worker 4's"}};
    gs_settings s = gs_test_settings("cpu,cpu,cpu,cpu,cpu,cpu");
    gs_result r;
    s.model = "lenet";
    s.pipeline = 2;
    s.pipeline_cut = "3";
    s.batch = 96;
    s.steps = 5;
    s.micro_batches = 2;
    s.verify = 1;
    r = gs_test_train(&s);
    gs_result_free(&r);
    s.test_hook = do_harm;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        harm.rank = cases[i].rank;
        harm.at = cases[i].at;
        assert_fails(GS_E_DIFFER, cases[i].wanted, gs_train(&s, NULL, &r));
        gs_result_free(&r);
    }
    gs_test_program_prints(
        0, "sha256",
        "train --exact --model \"" GPT
        "\" --data jargon --context 16 --batch 24 --steps 3 --devices %s --layout dp2,pp2,zero1 "
        "--verify 1",
        four);
}

/* ---- what cannot be ---- */

static void bad_use_is_told(void **state) {
    (void)state;
    gs_test_program_prints(2, "--pipeline 2: there is 1 worker; wanted a multiple of 2",
                           "train --pipeline 2");
    gs_test_program_prints(2, "--pipeline 2: there are 3 workers; wanted a multiple of 2",
                           "launch -n 3 -- train --pipeline 2");
    gs_test_program_prints(
        2, "has 3 layers with parameters, and each stage (with interleaved: each chunk) needs one",
        "train --model mlp --devices cpu,cpu,cpu,cpu --pipeline 4");
    gs_test_program_prints(2, "has 3 layers with parameters",
                           "launch -n 4 -- train --model mlp --pipeline 4");
    gs_test_program_prints(
        2, "5 micro-batches for 2 stages: interleaved",
        "train --model lenet --devices cpu,cpu --pipeline 2 --pipeline-schedule interleaved "
        "--micro-batches 5");
    gs_test_program_prints(
        2, "--micro-batches 70: more passes than the 64 samples in a pipeline's part of the batch",
        "train --model lenet --devices cpu,cpu,cpu,cpu --pipeline 2 --micro-batches 70");
    gs_test_program_prints(
        2, "one of them has 500 samples, and at most 256 are computed at once; wanted more",
        "train --model lenet --devices cpu,cpu --pipeline 2 --batch 1000 --micro-batches 2");
    gs_test_program_prints(2, "in 3 pipelines; wanted 1, 2, 4 or 8 pipelines",
                           "train --exact --model lenet --devices cpu,cpu,cpu,cpu,cpu,cpu --pipeline 2");
    gs_test_program_prints(2, "'ring:2' is not a schedule; wanted gpipe, 1f1b, interleaved",
                           "train --pipeline 2 --pipeline-schedule ring:2");
    gs_test_program_prints(2, "'gpipe:2' is not a schedule",
                           "train --pipeline 2 --pipeline-schedule gpipe:2");
    gs_test_program_prints(2, "--micro-batches is for --pipeline P", "train --micro-batches 4");
    gs_test_program_prints(2, "--pipeline-schedule is for --pipeline P", "train --pipeline-schedule gpipe");
    gs_test_program_prints(2, "--pipeline-cut is for --pipeline P", "train --pipeline-cut 3");
    gs_test_program_prints(2, "'3;7' is no cut; wanted measured, flops, or",
                           "train --pipeline 2 --pipeline-cut '3;7'");
    gs_test_program_prints(2, "begins 2 more runs of layers after the first, and the stages have 2 in all",
                           "train --model lenet --devices cpu,cpu --pipeline 2 --pipeline-cut 3,7");
    gs_test_program_prints(
        2, "no run of layers can begin at layer 4 there; wanted growing numbers out of 3, 7, 9, 11",
        "train --model lenet --devices cpu,cpu --pipeline 2 --pipeline-cut 4");
    gs_test_program_prints(2, "no run of layers can begin at layer 3 there",
                           "train --model lenet --devices cpu,cpu,cpu --pipeline 3 --pipeline-cut 7,3");
    gs_test_program_prints(2, "--pipeline: '1' is not a whole number from 2", "train --pipeline 1");
    gs_test_program_prints(2, "does not work with --sync ring", "train --pipeline 2 --sync ring");
    gs_test_program_prints(2, "does not work with --bucket", "train --pipeline 2 --bucket 10");
    gs_test_program_prints(2, "does not work with --wire f16", "train --pipeline 2 --wire f16");
    gs_test_program_prints(2, "wanted --micro-batches", "train --pipeline 2 --accumulate 4");
    gs_test_program_prints(2, "wanted 8, or no --micro-batches",
                           "train --model lenet --devices cpu,cpu --pipeline 2 --exact --micro-batches 4");
    gs_test_program_prints(2, "device 'cl:0.0': only cpu", "train --pipeline 2 --exact --devices cpu,cl:0.0");
    gs_test_program_prints(2, "wanted --batch-norm ghost:G (statistics of each G samples) or local",
                           "train --model \"" NORM "\" --devices cpu,cpu --pipeline 2");
    gs_test_program_prints(2, "both wait for ever; wanted gpipe or 1f1b",
                           "train --exact --model \"" GPT
                           "\" --data jargon --context 16 --devices cpu,cpu --pipeline 2 "
                           "--pipeline-schedule interleaved");
}

/* Each process finds it by itself: none takes another one for lost. */
static void bad_use_is_told_on_every_rank(void **state) {
    (void)state;
    static const char *const runs[] = {
        "launch -n 2 -- train --model softmax --pipeline 2",
        "launch -n 3 -- train --model lenet --pipeline 2",
        "launch -n 2 -- train --model lenet --pipeline 2 --micro-batches 1 --batch 900"};
    static const char *const sentences[] = {"has 1 layer with parameters", "there are 3 workers",
                                            "at most 256"};
    for (int i = 0; i < 3; i++) {
        char *output, all[60];
        assert_int_equal(gs_test_program(&output, "%s", runs[i]), 2);
        snprintf(all, sizeof all, "all %d processes failed with this error", i == 1 ? 3 : 2);
        if (!strstr(output, sentences[i]) || !strstr(output, all)) fail_msg("%s: %s", runs[i], output);
        free(output);
    }
}

/* Who computes which layers changes no bit, not even of a model with layers that draw at random. */
static void the_cut_changes_no_bit(void **state) {
    (void)state;
    static const char *const cuts[] = {"3", "7", "9", "11", "flops", "measured"};
    static const char run[] =
        "train --model lenet --batch 96 --steps 5 --devices cpu,cpu --pipeline 2 --pipeline-cut";
    char one[65], sha256[65], command[300];
    gs_test_sha256("train --exact --model lenet --batch 96 --steps 5", one);
    for (int i = 0; i < 6; i++) {
        snprintf(command, sizeof command, "%s %s --exact", run, cuts[i]);
        gs_test_sha256(command, sha256);
        if (strcmp(one, sha256) != 0) fail_msg("--pipeline-cut %s gives other bits", cuts[i]);
    }
    for (int i = 0; i < 6; i++) {
        snprintf(command, sizeof command, "%s %s --micro-batches 3", run, cuts[i]);
        gs_test_sha256(command, i > 0 ? sha256 : one);
        if (i > 0 && strcmp(one, sha256) != 0)
            fail_msg("--pipeline-cut %s gives other bits without --exact", cuts[i]);
    }
}

/* The number after `name` in the first line that has it. */
static int number_after(const char *output, const char *name) {
    const char *at = strstr(output, name);
    if (!at) fail_msg("no '%s' in: %s", name, output);
    return atoi(at + strlen(name));
}

/* Rank 0 measures, and all take its cut: the table of layers, the table of times and the record say the same. Again
 * with that cut, it is not measured again. */
static void a_measured_cut_is_told(void **state) {
    (void)state;
    static const char *const runs[] = {"train --devices cpu,cpu", "launch -n 2 -- train"};
    for (int i = 0; i < 2; i++) {
        char *output, folder[400], path[440], wanted[60];
        size_t length;
        snprintf(folder, sizeof folder, "%s/cut%d", gs_test_folder(), i);
        snprintf(path, sizeof path, "%s/run.json", folder);
        assert_int_equal(
            gs_test_program(&output, "%s --model lenet --steps 2 --pipeline 2 --log %s", runs[i], folder), 0);
        const int cut = number_after(output, "--pipeline-cut ");
        assert_true(cut == 3 || cut == 7 || cut == 9 || cut == 11);
        snprintf(wanted, sizeof wanted, "\n    1  %d", cut);
        assert_non_null(strstr(output, "forward ms"));
        assert_non_null(strstr(output, wanted));
        free(output);
        char *record = gs_test_text(path, &length);
        snprintf(wanted, sizeof wanted, "\"pipeline_cut\":\t\"%d\"", cut);
        if (!strstr(record, wanted)) fail_msg("no %s in %s", wanted, record);
        free(record);
        assert_int_equal(gs_test_program(&output, "%s --model lenet --steps 2 --pipeline 2 --pipeline-cut %d",
                                         runs[i], cut),
                         0);
        assert_null(strstr(output, "forward ms"));
        free(output);
    }
}

static void the_bubble_is_shown(void **state) {
    (void)state;
    static const char run[] =
        "train --model lenet --steps 3 --devices cpu,cpu --pipeline 2 --micro-batches 3";
    gs_test_program_prints(0, "25.0 % by the formula", run);
    gs_test_program_prints(0, "pipelines of 2 stages, 1F1B", run);
    char *output, folder[400];
    assert_int_equal(gs_test_program(&output, "%s --json", run), 0);
    assert_non_null(strstr(output, "\"bubble_formula\":0.25"));
    assert_non_null(strstr(output, "\"pipeline\":2"));
    free(output);
    snprintf(folder, sizeof folder, "%s/log", gs_test_folder());
    gs_test_program_prints(0, "bubble", "%s --log %s --trace-steps 2-3", run, folder);
}

GS_TESTS(pipeline, cmocka_unit_test(every_schedule_gives_the_weights_of_one_worker),
         cmocka_unit_test(micro_batches_are_passes), cmocka_unit_test(devices_may_be_mixed),
         cmocka_unit_test(exact_gives_the_bits_of_one_worker),
         cmocka_unit_test(exact_holds_for_ragged_batches), cmocka_unit_test(tied_weights_are_one),
         cmocka_unit_test(each_holds_its_own), cmocka_unit_test(zero_1_changes_no_bit),
         cmocka_unit_test(weights_are_saved_whole), cmocka_unit_test(a_request_to_stop_reaches_all_stages),
         cmocka_unit_test(bad_use_is_told), cmocka_unit_test(bad_use_is_told_on_every_rank),
         cmocka_unit_test(replicas_of_a_stage_are_verified), cmocka_unit_test(the_cut_changes_no_bit),
         cmocka_unit_test(a_measured_cut_is_told), cmocka_unit_test(the_bubble_is_shown))
