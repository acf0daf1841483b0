/* When training diverges, all workers end together with a message, and no weight file is lost. */
#include "tests/support/training.h"

#include <math.h>

static gs_settings wild(const char *devices, const char *sync) {
    return gs_test_settings(
        "%s --batch 333 --model 'flatten, linear 32, relu, linear 10' %s --lr 1e6 --timeout 200", devices,
        sync);
}

static void diverges(const char *devices, const char *sync) {
    const gs_settings s = wild(devices, sync);
    assert_train_fails(GS_E_DIVERGED, "diverged at step ", &s);
    /* the loss becomes inf before nan; asynchronous workers may see either one first */
    if (!strstr(gs_message(), ": the loss is nan; wanted a finite number") &&
        !strstr(gs_message(), ": the loss is inf; wanted a finite number"))
        fail_msg("%s on %s: %s", sync, devices, gs_message());
}

TEST(every_way_to_train_says_so) {
    static const char *const ways[] = {"--zero 1", "--sync local --every 3", "--sync async --staleness 0",
                                       "--sync async --staleness 2"};
    for (int workers = 1; workers <= 3; workers += 2) {
        const char *devices = workers == 1 ? "cpu" : "cpu,cpu,cpu";
        for (const gs_sync_scheme *const *s = gs_sync_schemes(); *s; s++)
            diverges(devices, gs_test_format("--sync %s", (*s)->name));
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) diverges(devices, ways[i]);
    }
    diverges("cpu,cpu", "--sync ring --bucket 1");
    diverges("cpu,cpu", "--exact");
}

/* Damages one of the last worker's weights: the first bias of the first layer. */
static uint64_t harm_after;
static float harm;

static void harm_last_worker(gs_worker *w) {
    if (w->step != harm_after || w->comm->rank != w->comm->size - 1) return;
    assert_ok(w->device->ops->write(w->device, gs_at(w->model->weights, w->model->param[1]->at), &harm,
                                    sizeof harm));
}

/* If workers do not exchange data in each step, at first only one knows. Still all end, and name that one's step. */
TEST(what_one_worker_sees_ends_all) {
    static const char *const ways[] = {"", "--sync local --every 5", "--sync async --staleness 0"};
    harm_after = 2;
    harm = NAN;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        gs_settings s = gs_test_with(wild("cpu,cpu,cpu", ways[i]), "--lr 0.01");
        s.test_hook = harm_last_worker;
        assert_train_fails(GS_E_DIVERGED, "diverged at step 3: the loss is nan", &s);
        s.steps = 2; /* no step after the harm */
        assert_train_fails(GS_E_DIVERGED, "diverged at step 2: the test loss after it is nan", &s);
    }
}

/* A unit that is minus infinity before its relu is 0 after it: no loss reveals it, but the weights are invalid. */
TEST(weights_are_looked_at) {
    harm_after = 4;
    harm = -INFINITY;
    gs_settings s = gs_test_with(wild("cpu", ""), "--lr 0.01 --steps 4");
    s.test_hook = harm_last_worker;
    assert_train_fails(GS_E_DIVERGED, "diverged at step 4: a value in 1.bias is -inf", &s);
}

/* --keep best saves the weights of an earlier good epoch. */
TEST(the_best_epoch_is_saved) {
    const char *path = gs_test_format("%s/w.safetensors", gs_test_folder());
    harm_after = GS_TEST_STEPS;
    harm = NAN;
    gs_settings s = gs_test_with(wild("cpu,cpu", ""), "--lr 0.01");
    gs_result r;
    s.steps = GS_TEST_STEPS + 2; /* epoch 2 starts with the third step from the end */
    s = gs_test_with(s, "--save %s --keep best", path);
    s.test_hook = harm_last_worker;
    assert_fails(GS_E_DIVERGED, "(the weights of epoch 1 are in ", gs_train(&s, NULL, &r));
    assert_prints(0, "test accuracy", "eval --load %s", path);
}

TEST(keep_going_goes_on) {
    gs_settings s = gs_test_with(wild("cpu,cpu", "--sync ps"), "--keep-going");
    gs_result r = gs_test_train(&s);
    assert_true(isnan(r.train_loss) && isnan(r.test_loss) && isnan(r.weights[0]));
}

static void sha256_of_file(const char *path, char *sha256) {
    char *output = gs_test_shell_output(0, "sha256sum < %s", path);
    snprintf(sha256, 65, "%s", output);
}

#define WILD "--model softmax --threads 1 --lr 1e6 --epochs 1 --loss squared_error"

TEST(a_good_file_is_kept) {
    char before[65], after[65];
    const char *path = gs_test_format("%s/w.safetensors", gs_test_folder());
    assert_prints(0, "saved", "train --model softmax --threads 1 --steps 3 --save %s", path);
    sha256_of_file(path, before);
    assert_prints(
        1, "; wanted a finite number: try a smaller --lr than 1e+06, or --keep-going (nothing is written to ",
        "train " WILD " --save %s", path);
    sha256_of_file(path, after);
    assert_string_equal(before, after);

    char *output = gs_test_output(0, "train " WILD " --keep-going --save %s", path);
    assert_has(output, "train loss nan");
    assert_null(strstr(output, "-nan"));
    sha256_of_file(path, after);
    assert_string_not_equal(before, after);
    assert_prints(0, "loss nan", "eval --keep-going --load %s", path);
}

/* Inference with such weights fails unless explicitly allowed; an older file of logits is kept. */
TEST(inference_fails_too) {
    char *output;
    const char *path = gs_test_format("%s/w.safetensors", gs_test_folder());
    assert_prints(0, "saved", "train " WILD " --keep-going --save %s", path);
    static const char *const ways[] = {"", "--devices cpu,cpu,cpu --json"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        output = gs_test_output(1, "eval %s --load %s", ways[i], path);
        assert_has(output, "gradsum eval: the test loss is nan; wanted a finite number: ",
                   " holds nan in 1.weight (--keep-going");
        assert_true(!strstr(output, "\"status\":\"diverged\"") == (i == 0));
        assert_prints(1, "gradsum predict: logit 0 of sample 0 is nan; wanted a finite number",
                      "predict --threads 1 %.20s --load %s -o %s.npy", ways[i], path, path);
        assert_int_not_equal(gs_test_shell(NULL, "test -e %s.npy", path), 0);
    }
    assert_prints(0, "logits (1000, 10)", "predict --keep-going --load %s -o %s.npy", path, path);
    assert_prints(1, "the other 1 ended too", "launch -n 2 -- eval --load %s", path);
}

/* A comparison or a sweep that fails gives the message once, in the last line. */
TEST(the_last_event_says_why_it_failed) {
    static const char *const runs[] = {"compare --devices-list cpu,nothing", "compare --load no-such-file",
                                       "sweep --batch 32 --data nothing",
                                       "sweep --batch 32 --load no-such-file",
                                       "sweep --batch 32 --report /nowhere/x"};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char *output, *last, *end;
        int status = gs_test_program(&output, "%s --model softmax --json 2>/dev/null", runs[i]);
        last = strstr(output, "{\"event\":\"end\"");
        end = last ? strchr(last, '\n') : NULL;
        bool wanted =
            last && strncmp(last, "{\"event\":\"end\",\"status\":\"failed\",\"message\":\"", 43) == 0;
        if (status == 0 || !wanted || !end || end[1]) fail_msg("%s: exit %d: %s", runs[i], status, output);
    }
}

/* The events of --json end with how the run ended. */
TEST(the_last_event_says_how_it_ended) {
    static const struct {
        const char *arguments, *end;
        int status;
    } runs[] = {
        {WILD, "{\"event\":\"end\",\"status\":\"diverged\",\"steps\":4,\"message\":\"diverged at step 4", 1},
        {"--load no-such-file",
         "{\"event\":\"end\",\"status\":\"failed\",\"steps\":0,\"message\":\"cannot read no-such-file", 1},
        {"--model softmax --threads 1 --steps 3", "{\"event\":\"end\",\"status\":\"done\",\"steps\":3,", 0},
        {"--model softmax --threads 1 --steps 100000 --epochs 10000 >out & " GS_TEST_AWAIT(
             "{\"event\":\"start\"") "kill -TERM $!; wait $!; S=$?; tail -n 1 out; exit $S",
         "{\"event\":\"end\",\"status\":\"interrupted\",\"steps\":", 128 + SIGTERM},
    };
    const char *folder = gs_test_folder();
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char *output;
        int status = gs_test_shell(&output, "cd %s; exec 2>/dev/null; %s/gradsum train --json %s", folder,
                                   GS_BUILD_DIR, runs[i].arguments);
        char *last = strstr(output, "{\"event\":\"end\"");
        if (status != runs[i].status || !last || strncmp(last, runs[i].end, strlen(runs[i].end)) != 0)
            fail_msg("%s: exit %d: %s", runs[i].arguments, status, output);
    }
}

/* Between processes, too, the divergence is reported, not a lost process. */
TEST(between_processes) {
    static const char *const ways[] = {"", "--sync local --every 4", "--sync async --staleness 1"};
    for (int i = 0; i < 6; i++) {
        char *output;
        int status = gs_test_program(&output, "launch -n 2 --transport %s -- train " WILD " %s",
                                     i % 2 ? "gloo" : "auto", ways[i / 2]);
        if (status != 1 || !strstr(output, "diverged at step ") || strstr(output, "lost"))
            fail_msg("launch %s: exit %d: %s", ways[i / 2], status, output);
    }
}

TEST(one_process_speaks) {
    char *output = gs_test_output(1, "launch -n 3 -- train " WILD);
    if (gs_test_count(output, "diverged at step ") != 1 ||
        !strstr(output, "gradsum launch: rank 0 failed with exit status 1; the other 2 ended too\n"))
        fail_msg("%s", output);
}

/* With --lr-rule the rate differs from --lr: batch 512 instead of 128 makes it four times as high after the warm-up. */
TEST(the_rate_of_the_step_is_named) {
    assert_prints(1, "this step's rate was 4e+06, from --lr 1e+06: try a smaller one",
                  "train " WILD " --batch 512 --lr-rule linear");
    assert_prints(1, "this step's rate was 1.00", /* for example 1.003e+06 */
                  "train " WILD " --batch 512 --lr-rule linear --warmup 1000");
}

TEST(a_bad_file_is_named) {
    const char *path = gs_test_format("%s/w.safetensors", gs_test_folder());
    assert_prints(0, "saved", "train " WILD " --keep-going --save %s", path);
    const char *wanted = gs_test_format("diverged at step 1: the loss is nan; wanted a finite number: %s "
                                        "(--load) already holds nan in 1.weight",
                                        path);
    assert_prints(1, wanted, "train --model softmax --threads 1 --steps 3 --load %s", path);
    assert_prints(0, "saved", "train " WILD " --keep-going --save-state --save %s", path);
    assert_prints(1, " (--resume) already holds nan", "train --threads 1 --resume %s --epochs 50", path);
}

TEST(other_commands) {
    assert_prints(1, "gradsum compare: cpu: diverged at step ", "compare --devices-list cpu " WILD);
    assert_prints(0, "nan", "compare --devices-list cpu --keep-going " WILD);
    assert_prints(0, "NaN", "sweep --batch 500,1000 " WILD);
    assert_prints(1, "diverged at step ", "train --json " WILD);
    const char *log = gs_test_folder();
    assert_prints(1, "diverged at step ", "train --log %s/log " WILD, log);
    char *output = gs_test_shell_output(0, "cat %s/log/run.json", log);
    assert_has(output, "failed: diverged at step ");
}
