/* The summary at the end of a run reports only what was measured. */
#include "tests/support/program.h"

static cJSON *last_line(char *output) {
    char *end = output + strlen(output);
    while (end > output && end[-1] == '\n') *--end = '\0';
    char *line = strrchr(output, '\n');
    cJSON *o = gs_test_parse(line ? line + 1 : output);
    return o;
}

/* Runs `gradsum train` with these options, and stops it once its output contains `line`. */
static void stopped(char **output, const char *options, const char *line) {
    gs_test_shell(output,
                  "out=$(mktemp); %s/gradsum train --threads 1 %s >\"$out\" 2>/dev/null & "
                  "until grep -q '%s' \"$out\"; do kill -0 $! || break; sleep 0.1; done; "
                  "kill -TERM $!; wait $!; cat \"$out\"; rm \"$out\"",
                  GS_BUILD_DIR, options, line);
}

/* Each step sleeps so long that the first epoch cannot end. */
static const char SLOW[] = "--model softmax --epochs 3 --jitter 0:500ms";

TEST(stopped_before_the_first_test) {
    char *output;
    stopped(&output, SLOW, "^jitter ");
    assert_has(output, "\nstopped  ");
    if (strstr(output, "accuracy") || strstr(output, "done ")) fail_msg("nothing was tested: %s", output);
    const char *options = gs_test_format("%s --json", SLOW);
    stopped(&output, options, "\"start\"");
    cJSON *o = last_line(output);
    assert_string_equal(gs_test_field(o, "status")->valuestring, "interrupted");
    assert_true(cJSON_IsNull(gs_test_field(o, "test_accuracy")));
    assert_true(cJSON_IsNull(gs_test_field(o, "test_loss")));
    assert_true(cJSON_IsNull(gs_test_field(o, "test_epoch")));
}

/* With all samples in one batch, an epoch has one step. */
TEST(stopped_after_a_test) {
    static const char options[] = "--model softmax --epochs 100000 --batch 6000 --jitter 0:20ms";
    char *output;
    stopped(&output, options, "^ *test .* samples/s");
    const char *line = strstr(output, "\ntest     accuracy ");
    int epoch = 0;
    if (!line || sscanf(line, "\ntest     accuracy %*f %% after epoch %d", &epoch) != 1 || epoch < 1)
        fail_msg("the accuracy has no epoch: %s", output);
    const char *json = gs_test_format("%s --json", options);
    stopped(&output, json, "\"epoch\":1,");
    cJSON *o = last_line(output);
    assert_true(gs_test_field(o, "test_epoch")->valueint >= 1);
    assert_true(gs_test_field(o, "test_epoch")->valueint <= gs_test_field(o, "steps")->valueint);
    assert_true(gs_test_field(o, "test_accuracy")->valuedouble > 0.3);
}

/* Shares are also measured with one worker, but not in a run of a single step. */
TEST(shares_are_measured_or_null) {
    char *output;
    gs_test_program(&output, "train --model softmax --threads 1 --epochs 1 --json 2>/dev/null");
    cJSON *o = last_line(output);
    double sum = 0;
    const cJSON *share = gs_test_field(cJSON_GetArrayItem(gs_test_field(o, "per_worker"), 0), "share");
    for (const cJSON *s = share->child; s; s = s->next) sum += s->valuedouble;
    assert_near(sum, 1, 1e-9, 0);
    static const char *const ones[] = {
        "train --model softmax --epochs 1 --batch all --json 2>/dev/null",
        "compare --model softmax --epochs 1 --batch all --devices-list cpu --json"};
    for (size_t i = 0; i < sizeof ones / sizeof *ones; i++) {
        gs_test_program(&output, "%s", ones[i]);
        o = last_line(output);
        share = i == 0 ? gs_test_field(cJSON_GetArrayItem(gs_test_field(o, "per_worker"), 0), "share")
                       : gs_test_field(o, "share");
        assert_int_equal(cJSON_GetArraySize(share), GS_PHASES);
        for (const cJSON *s = share->child; s; s = s->next) assert_true(cJSON_IsNull(s));
    }
}

/* A single worker gets no more threads than each of two workers would, so that the comparison is fair. */
TEST(sets_have_equal_threads) {
    char *output, text[40];
    int most = gs_cpu_cores() / 2 > 0 ? gs_cpu_cores() / 2 : 1;
    for (int chosen = 0; chosen <= 1; chosen++) {
        int wanted = chosen ? 3 : most;
        gs_test_program(&output, "compare --model softmax --steps 9 --devices-list 'cpu; cpu,cpu' %s --json",
                        chosen ? "--threads 3" : "");
        snprintf(text, sizeof text, "\"threads\":%d,", wanted);
        char *first = strstr(output, text);
        if (!first || !strstr(first + 1, text)) fail_msg("wanted '%s' twice: %s", text, output);
    }
    snprintf(text, sizeof text, "each cpu worker has %d thread", most);
    assert_prints(0, text, "compare --model softmax --steps 9");
}

/* The results of a training run are printed even if its weights cannot be written (here: files of 4 KB at most). */
TEST(a_full_disk_takes_no_result) {
    char *output;
    int status = gs_test_shell(&output,
                               "ulimit -f 8; %s/gradsum train --model softmax --steps 9 --threads 1 --save "
                               "%s/w.safetensors",
                               GS_BUILD_DIR, gs_test_folder());
    assert_int_equal(status, 1);
    const char *done = strstr(output, "\ndone     9 steps, test accuracy"),
               *hash = strstr(output, "weights  sha256");
    if (!done || !hash || !strstr(output, "gradsum train: cannot write ")) fail_msg("%s", output);
    if (strstr(output, "saved ")) fail_msg("the weights are not saved: %s", output);
    gs_test_shell(&output,
                  "ulimit -f 8; %s/gradsum train --model softmax --steps 9 --json --save %s/w.st 2>/dev/null",
                  GS_BUILD_DIR, gs_test_folder());
    cJSON *o = last_line(output);
    assert_string_equal(gs_test_field(o, "status")->valuestring, "failed");
    assert_non_null(strstr(gs_test_field(o, "message")->valuestring, "cannot write"));
    assert_true(gs_test_field(o, "test_accuracy")->valuedouble > 0.1);
}

/* run.json records how a run ended, even if some lines of its steps could not be written. */
TEST(a_log_that_fails_has_an_end) {
    char *output = gs_test_shell_output(
        0,
        "ulimit -f 16; cd %s; %s/gradsum train --model softmax --epochs 3 --threads 1 --log l; "
        "echo status $?; cat l/run.json",
        gs_test_folder(), GS_BUILD_DIR);
    assert_has(output, "the log stops here, training continues", "\nstatus 1\n", "\"why\":\t\"done\"",
               "\"log\":\t\"");
}

/* Prints 0.05, not 0.05000000074505806. */
TEST(numbers_as_they_were_typed) {
    assert_prints(0, "\"lr_first\":0.05,\"lr_scaled\":0.05,", "train --model softmax --steps 1 --json");
    assert_prints(0,
                  "\"lr\":0.05,\"lr_rule\":\"none\",\"base_batch\":128,\"schedule\":\"constant\","
                  "\"momentum\":0.9,\"weight_decay\":0.001,",
                  "train --model softmax --steps 1 --json --weight-decay 0.001");
    assert_prints(0, "\"lr\":0.05,", "sweep --model softmax --batch 512 --epochs 1 --json");
}
