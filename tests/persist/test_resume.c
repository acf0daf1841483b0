/* --save-state and --resume: a run that stops and resumes gives the same bits as one that never stopped. */
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/training.h"

/* A path in a test folder, always the same for a given name. */
static const char *file(const char *name) {
    static const char *folder;
    if (!folder) folder = gs_test_folder();
    return gs_test_format("%s/%s", folder, name);
}

/* Set by tests: workers look at this after each step, and the run ends after the step that follows this one. */
static uint64_t stop_after;

static void stop(gs_worker *w) {
    if (w->step >= stop_after) gs_stop_requested = SIGINT;
}

/* Trains to about step `at`, as if stopped by Ctrl-C. */
static void train_up_to(gs_settings s, uint64_t at, const char *save) {
    stop_after = at - 1;
    s = gs_test_with(s, "--save %s --save-state", save);
    s.test_hook = stop;
    gs_result r = gs_test_train(&s);
    gs_stop_requested = 0;
    assert_true(r.interrupted && r.steps >= at && r.steps < s.steps);
}

static void train_from(gs_settings s, const char *resume, const char *save) {
    s.resume = resume;
    s = gs_test_with(s, "--save %s --save-state", save);
    gs_test_train(&s);
}

/* Trains without a stop, and in two parts: to step `at` on the settings' devices, then on `others` unless NULL. */
static void assert_goes_on(gs_settings s, const char *others, uint64_t at, const char *what) {
    const char *whole = file("whole.st"), *half = file("half.st"), *both = file("both.st");
    train_from(s, NULL, whole);
    train_up_to(s, at, half);
    if (others) s.devices = others;
    train_from(s, half, both);
    /* weights, running statistics, the optimiser's vectors, step and options */
    check_same(whole, both, what);
}

TEST(each_optimizer) {
    for (const gs_optimizer_ops *const *o = gs_optimizers; *o; o++) {
        gs_settings s = gs_test_settings("cpu");
        s.optimizer = *o;
        assert_goes_on(s, NULL, 7, (*o)->name);
    }
    gs_settings s = gs_test_settings("cpu,cpu");
    assert_goes_on(s, NULL, 19, "at the end of an epoch");
    s.momentum = 0;
    assert_goes_on(s, NULL, 19, "without a velocity");
}

#define EIGHT "cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu"

TEST(each_way) {
    static const struct {
        const char *options, *others;
        uint64_t at;
    } ways[] = {
        {"cpu,cpu,cpu --sync ps", NULL, 7},
        {"cpu,cpu,cpu --sync ring --clip 0.5 --optimizer lamb", NULL, 18},
        {"cpu,cpu --sync ring --wire f16", NULL, 3},
        {"cpu,cpu --bucket 1 --optimizer adamw", NULL, 7},
        {"cpu,cpu --accumulate 3", NULL, 7},
        {"cpu,cpu,cpu --zero 1 --clip 0.5", NULL, 7},
        {"cpu,cpu --zero 1 --optimizer adam", NULL, 19},
        {"cpu,cpu --sync local --every 5 --optimizer adam", NULL, 7},
        {"cpu,cpu --sync local --every 7", NULL, 15},
        {EIGHT " --sync local --every 1 --optimizer adam", NULL, 18}, /* the last batch, of 6, */
        {EIGHT " --sync local --every 1 --optimizer lamb", NULL, 19}, /* leaves two workers without samples */
        {"cpu --exact", "cpu,cpu", 7},
        {"cpu,cpu,cpu,cpu --exact --optimizer lars", NULL, 18},
        {"cpu,cpu --exact --optimizer adam", "cpu", 19},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        assert_goes_on(gs_test_settings("%s", ways[i].options), ways[i].others, ways[i].at, ways[i].options);
}

TEST(on_an_opencl_device) {
    gs_test_need_opencl();
    gs_settings s = gs_test_settings("cl --optimizer adam --steps 6");
    assert_goes_on(s, NULL, 3, "cl");
    s = gs_test_with(s, "--devices cpu,cl --optimizer sgd");
    assert_goes_on(s, NULL, 3, "cpu,cl");
}

/* Tests what depends on the step: rates, dropout (in gs_test_settings), augmented images, and running statistics. */
TEST(what_follows_the_step) {
    gs_settings s = gs_test_settings("cpu,cpu --schedule cosine --warmup-steps 9");
    assert_true(gs_augment_read("crop:4,flip", &s.augment));
    assert_goes_on(s, NULL, 7, "in the warm-up");
    assert_goes_on(s, NULL, 12, "behind it");
    s.model =
        "conv 4 3x3 stride 2 pad 1 no_bias, batch_norm, tanh, avg_pool 2, dropout 0.25, flatten, linear 10";
    assert_goes_on(s, NULL, 7, "batch_norm");
    s.exact = true;
    assert_goes_on(s, "cpu,cpu,cpu,cpu", 7, "batch_norm, exact, other workers");
}

/* As from the command line, where the numbers of epochs and steps are totals. */
TEST(by_the_program) {
    static const char *const runs[][2] = {
        {"train --threads 1", "train --threads 1"},
        {"launch -n 2 -- train --zero 1 --optimizer adam", "launch -n 2 -- train"},
        {"launch -n 2 -- train --exact --optimizer lamb --lr 0.02", "train --devices cpu,cpu,cpu,cpu"}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const char *whole = gs_test_sha256("%s --model softmax --epochs 3", runs[i][0]);
        assert_prints(0, "saved", "%s --model softmax --epochs 2 --steps 60 --save %s --save-state",
                      runs[i][0], file("a.st"));
        const char *arguments = gs_test_format("%s --resume %s --steps 100 --epochs 3 --save %s --save-state",
                                               runs[i][1], file("a.st"), file("b.st"));
        assert_prints(0, "after step 60, in epoch 2 of 3", "%s", arguments);
        const char *both = gs_test_sha256("%s --resume %s --epochs 3", runs[i][1], file("b.st"));
        assert_string_equal(whole, both);
    }
    char *output = gs_test_output(0, "train --json --resume %s --epochs 3", file("b.st"));
    assert_has(output, "\"resumed_after_step\":100", "\"epoch\":3,", "\"steps_before\":6}"); /* of 47 */
    assert_prints(0, "% without its first 6 steps", "train --resume %s --epochs 3", file("b.st"));
    assert_prints(0, "test accuracy", "eval --load %s", file("b.st"));
    assert_prints(0, "", "predict --load %s -o %s", file("b.st"), file("p.npy"));
    assert_prints(0, "done     5 steps", "train --load %s --steps 5", file("b.st"));
}

TEST(what_does_not_go_together) {
    const char *path = file("c.st");
    assert_prints(0, "saved",
                  "train --model softmax --threads 1 --steps 5 --momentum 0.5 --save %s --save-state", path);
    static const struct {
        const char *arguments, *message;
    } wrong[] = {
        {"--batch 64", "--batch 64: the run in "},
        {"--batch 64",
         "c.st has --batch 128; leave it out to resume that run, or begin a new one with --load"},
        {"--seed 2", "--seed 2: the run in "},
        {"--optimizer adam", "has --optimizer sgd"},
        {"--momentum 0.9", "has --momentum 0.5"},
        {"--loss squared_error", "has --loss cross_entropy"},
        {"--model mlp", "--model: the run in "},
        {"--mean 0.5", "--mean differs from the run in "},
        {"--data colour-fashion-small", "holds a model for images (1,28,28)"},
        {"--load w.st", "--resume has the weights of its run"},
        {"--sync async --staleness 1", "it does not work with --resume"},
        {"--save-state", "--save-state needs --save FILE"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_prints(strstr(wrong[i].arguments, "colour") ? 1 : 2, wrong[i].message,
                      "train --resume %s --epochs 2 %s", path, wrong[i].arguments);
    }
    const char *adam = file("adam.st");
    assert_prints(0, "saved",
                  "train --model softmax --threads 1 --steps 1 --optimizer adam --save %s --save-state",
                  adam);
    assert_prints(2, "--momentum 0.9: the optimiser adam does not take it; it is for --optimizer sgd",
                  "train --resume %s --epochs 2 --momentum 0.9", adam);
    assert_ranks_print(2, "rank 1 runs without --resume, rank 0 with it",
                       "train --model softmax --epochs 2 --momentum 0.5 --threads 1",
                       gs_test_format("--resume %s", path), "");
}

/* ---- invalid files ---- */

/* A copy of the file in which the first occurrence of a word after `behind` is replaced by a word of the same
 * length. */
static const char *changed(const char *path, const char *behind, const char *from, const char *to) {
    const char *other = file("changed.st");
    size_t size;
    char *bytes = gs_test_text(path, &size), *at = memmem(bytes, size, behind, strlen(behind));
    assert_non_null(at);
    at = memmem(at, size - (size_t)(at - bytes), from, strlen(from));
    assert_non_null(at);
    assert_int_equal(strlen(from), strlen(to));
    memcpy(at, to, strlen(to));
    write_raw(other, bytes, size);
    return other;
}

TEST(damaged_files) {
    const char *path = file("d.st"), *weights = file("w.st");
    assert_prints(0, "saved",
                  "train --model softmax --threads 1 --steps 5 --momentum 0.5 --save %s --save-state", path);
    assert_prints(0, "saved", "train --model softmax --threads 1 --steps 5 --save %s", weights);
    assert_prints(1, "holds only weights: --save-state keeps the state of a run too", "train --resume %s",
                  weights);
    assert_prints(1, "no-such.st", "train --resume %s", file("no-such.st"));
    assert_prints(1, "", "train --resume %s", gs_test_folder());
    static const struct {
        const char *behind, *from, *to, *message;
        int status;
    } changes[] = {
        {"\"state\"", "step", "stop", "is damaged: 'state' in the metadata has no valid 'step'", 1},
        {"\"state\"", ":5,", ":.5", "is damaged: 'state' in the metadata is no JSON object", 1},
        {"\"state\"", ":5,", ":-1", "is damaged: 'state' in the metadata is no JSON object", 1},
        {"\"state\"", "samples", "sample_", "has no valid 'samples'", 1},
        {"\"state\"", "options", "option_", "has no valid 'options'", 1},
        {"\"state\"", "\\\"data\\\":\\\"", "\\\"data\\\":  ", "is no JSON object", 1},
        {"\"state\"", "6000", "6001", "has 6000 samples to train on, but the run in ", 2},
        {"\"state\"", "0.5", "-.5", "--momentum: '-.5' is not a number from 0 to 0.999999", 2},
        {"\"optimizer.velocity.1.weight\"", "velocity", "velocite",
         "optimizer.velocity.1.weight is missing in ", 1},
        {"\"optimizer.velocity.1.weight\"", "F32", "I32", "optimizer.velocity.1.weight is I32; wanted F32",
         1},
        {"\"optimizer.velocity.1.weight\"", "[10,784]", "[784,10]",
         "optimizer.velocity.1.weight is (784,10) in ", 1},
        {"\"state\"", "\\\"0.5\\\"", "\\\"0\\\"  ", "has 2 tensors of an optimiser's state; wanted 0", 1},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        assert_prints(changes[i].status, changes[i].message, "train --epochs 2 --threads 1 --resume %s",
                      changed(path, changes[i].behind, changes[i].from, changes[i].to));
    }
    const char *last = "\"optimizer.velocity.1.bias\"", *half = changed(path, last, "F32", "F16");
    changed(half, last, ",62800", ",62780");
    assert_int_equal(gs_test_shell(NULL, "truncate -s -20 %s", half), 0);
    assert_prints(1, "velocity.1.bias is F16; wanted F32", "train --resume %s", half);
    char *output; /* without "state", these tensors must belong to the model */
    output = gs_test_output(1, "eval --load %s", changed(path, "\"state\":", "state", "stade"));
    assert_has(output, "but the model has no such parameter");
    output = gs_test_shell_output(1, "head -c 40000 %s > %s; %s/gradsum train --resume %s", path,
                                  file("changed.st"), GS_BUILD_DIR, file("changed.st"));
    assert_has(output, "truncated");
}

/* Resumes as a library caller, with other settings. */
TEST(by_the_library) {
    gs_settings s = gs_test_settings("cpu --batch 333");
    gs_state *kept;
    train_up_to(s, 7, file("half.st"));
    assert_ok(gs_state_read(file("half.st"), &kept));
    assert_int_equal(kept->step, 7);
    assert_int_equal(kept->updates, 7);
    assert_string_equal(gs_state_option(kept, "batch"), "333");
    assert_null(gs_state_option(kept, "seed"));
    gs_state_free(kept);
    s.resume = file("half.st");
    s.batch = 100;
    assert_train_fails(GS_E_USAGE, "has --batch 333", &s);
    s.batch = 333;
    gs_dataset *train, *test;
    train = gs_test_load(s.data, GS_TRAIN);
    test = gs_test_load(s.data, GS_TEST);
    s.train_set = train;
    s.test_set = test;
    gs_test_train(&s);
    train->images[1000] ^= 1;
    assert_train_fails(GS_E_USAGE, "are not those of the run in ", &s);
    s.train_set = s.test_set = NULL;
}
