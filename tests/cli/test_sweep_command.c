/* gradsum sweep: wrong usage, table, JSON, Ctrl-C. */
#include "tests/support/files.h"
#include "tests/support/launched.h"
#include "tests/support/program.h"
#include "tests/support/tiny_set.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(wrong_usage) {
    assert_prints(2, "--batch LIST is required", "sweep");
    assert_prints(2, "two numbers before it and one after it, such as 32,64,...,2048",
                  "sweep --batch 32,...");
    assert_prints(2, "larger than the training set, which has 6000", "sweep --batch 32,6001");
    assert_prints(2, "--target: '200' is not a number from 1 to 100", "sweep --batch 32 --target 200");
    assert_prints(2, "--target: '0.8' is not a number from 1 to 100", "sweep --batch 32 --target 0.8");
    assert_prints(2, "--warmup: '-1' is not a number from 0", "sweep --batch 32 --warmup -1");
    assert_prints(2, "--base-batch 64 needs --lr-rule", "sweep --batch 32 --base-batch 64");
    assert_prints(2, "unknown --lr-rule 'cube'; choose one of: none, linear, sqrt",
                  "sweep --batch 32 --lr-rule cube");
    assert_prints(2, "--seeds: '0' is not", "sweep --batch 32 --seeds 0");
    assert_prints(2, "--seeds: '65' is not", "sweep --batch 32 --seeds 65");
    assert_prints(2, "--save: sweep keeps no weights; to keep", "sweep --batch 32 --save x");
    assert_prints(2, "did you mean --target?", "sweep --batch 32 --taget 5");
    assert_prints(1, "no data at", "sweep --batch 32 --data /no/such/folder");
    char *table = gs_test_shell_output(
        2, "%s/gradsum sweep --batch 8 --devices cpu,cpu,cpu --exact 2>/dev/null", GS_BUILD_DIR);
    assert_string_equal(table, ""); /* no table header if no table follows */
}

static void tiny_program(char **output, const char *options) {
    int status = gs_test_program(output,
                                 "sweep --data %s --model 'flatten, linear 4' --momentum 0 --epochs 4 "
                                 "--threads 1 --batch 10,20,...,80 %s",
                                 gs_test_tiny_data(), options);
    if (status != 0) fail_msg("exit %d: %s", status, *output);
}

static void assert_width(const char *output, size_t most) {
    for (const char *line = output; *line;) {
        size_t length = strcspn(line, "\n");
        if (length > most) fail_msg("%zu columns, wanted %zu: %.*s", length, most, (int)length, line);
        line += length + (line[length] == '\n');
    }
}

TEST(table) {
    setenv("COLUMNS", "60", 1);
    char *output;
    tiny_program(&output, "--target 99");
    unsetenv("COLUMNS");
    char *from = strstr(output, "batch       lr"); /* the text before it is the folder's name */
    assert_non_null(from);
    assert_width(from, 60);
    assert_has(output, "to 99 % accuracy");
    for (const char *c = output; *c; c++) assert_true((unsigned char)*c < 128 && *c != '\033');
    tiny_program(&output, "--target 100 --lr 0");
    from = strstr(output, "batch       lr");
    assert_non_null(from);
    assert_width(from, 80);
    assert_has(output, "never: not within 4 epochs.", "  not reached\n");
    tiny_program(&output, "--target 100 --lr 0 --steps 2");
    assert_has(output, "never: not within 4 epochs, or 2 steps.");
}

TEST(json) {
    char *output;
    tiny_program(&output, "--target 90 --lr-rule sqrt --base-batch 20 --warmup 0.5 --json");
    int lines = 0;
    for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        cJSON *o = gs_test_parse(line);
        const char *event = gs_test_field(o, "event")->valuestring;
        assert_string_equal(event, lines == 0 ? "start" : lines == 5 ? "end" : "run");
        if (lines == 0) {
            assert_int_equal(cJSON_GetArraySize(gs_test_field(o, "batches")), 4);
            assert_near(gs_test_field(o, "target_accuracy")->valuedouble, 0.9, 1e-12, 0);
            assert_string_equal(gs_test_field(o, "lr_rule")->valuestring, "sqrt");
        } else if (lines == 5) {
            assert_int_equal(gs_test_field(o, "runs")->valueint, 4);
            assert_true(cJSON_IsFalse(gs_test_field(o, "interrupted")));
            assert_string_equal(gs_test_field(o, "status")->valuestring, "done");
        } else {
            int batch = 10 << (lines - 1);
            assert_int_equal(gs_test_field(o, "batch")->valueint, batch);
            assert_near(gs_test_field(o, "lr_scaled")->valuedouble, 0.05 * sqrt(batch / 20.0), 0, 1e-6);
            bool reached = cJSON_IsTrue(gs_test_field(o, "reached"));
            assert_true(reached ? cJSON_IsNumber(gs_test_field(o, "seconds_to_target"))
                                : cJSON_IsNull(gs_test_field(o, "seconds_to_target")));
            assert_true(cJSON_GetArraySize(gs_test_field(o, "tests")) >= 12);
            assert_true(gs_test_field(cJSON_GetArrayItem(gs_test_field(o, "tests"), 0), "step")->valueint >
                        0);
            assert_true(gs_test_field(o, "samples_per_s")->valuedouble > 0);
        }
    }
    assert_int_equal(lines, 6);
}

/* With several seeds: one line per batch size, with medians. */
TEST(table_of_seeds) {
    char *output;
    setenv("COLUMNS", "60", 1);
    tiny_program(&output, "--target 90 --seeds 3 --seed 7");
    unsetenv("COLUMNS");
    char *from = strstr(output, "batch       lr reached");
    assert_non_null(from);
    assert_width(from, 60);
    assert_has(output, "to 90 % accuracy, 3 seeds", "seeds 7 to 9.");
    tiny_program(&output, "--target 100 --lr 0 --seeds 3");
    assert_width(strstr(output, "batch       lr reached"), 80);
    assert_has(output, "     0/3  never           -       -       -");
}

/* Prints each run, then each batch size, whose figures are the medians of its runs. */
TEST(json_of_seeds) {
    char *output;
    double steps[3];
    int runs = 0, batches = 0, reached = 0;
    tiny_program(&output, "--target 90 --seeds 3 --seed 7 --json");
    for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n")) {
        cJSON *o = gs_test_parse(line);
        const char *event = gs_test_field(o, "event")->valuestring;
        if (strcmp(event, "start") == 0) assert_int_equal(gs_test_field(o, "seeds")->valueint, 3);
        if (strcmp(event, "run") == 0) {
            bool got = cJSON_IsTrue(gs_test_field(o, "reached"));
            assert_int_equal(gs_test_field(o, "seed")->valueint, 7 + runs % 3);
            steps[runs++ % 3] = got ? gs_test_field(o, "steps_to_target")->valuedouble : INFINITY;
            reached += got;
        } else if (strcmp(event, "batch") == 0) {
            const cJSON *spread = gs_test_field(o, "steps_to_target");
            double low = fmin(fmin(steps[0], steps[1]), steps[2]);
            double high = fmax(fmax(steps[0], steps[1]), steps[2]);
            double middle = steps[0] + steps[1] + steps[2] - low - high;
            assert_int_equal(runs, 3 * ++batches);
            assert_int_equal(gs_test_field(o, "batch")->valueint, 10 << (batches - 1));
            assert_int_equal(gs_test_field(o, "reached")->valueint, reached);
            if (reached == 3) {
                assert_true(gs_test_field(spread, "least")->valuedouble == low);
                assert_true(gs_test_field(spread, "median")->valuedouble == middle);
                assert_true(gs_test_field(spread, "most")->valuedouble == high);
            }
            reached = 0;
        }
    }
    assert_int_equal(runs, 12);
    assert_int_equal(batches, 4);
}

/* Ctrl-C: the finished runs are shown, and the exit status reports the signal. */
TEST(ctrl_c_ends_it) {
    const char *log = gs_test_format("%s/log", gs_test_folder());
    const char *data = gs_test_tiny_data();
    fclose(fopen(log, "w"));
    pid_t child = fork();
    if (child == 0) {
        if (!freopen(log, "w", stdout) || dup2(STDOUT_FILENO, STDERR_FILENO) < 0) _exit(99);
        execl(GS_BUILD_DIR "/gradsum", "gradsum", "sweep", "--data", data, "--model", "flatten, linear 4",
              "--batch", "120,240", "--epochs", "1000000", (char *)NULL);
        _exit(99);
    }
    /* once the table header is printed, the program handles signals */
    for (int i = 0; i < 3000 && !strstr(gs_test_text(log, NULL), "samples/s"); i++) usleep(100000);
    kill(child, SIGINT);
    const int status = gs_test_launcher_end(child);
    assert_true(WIFEXITED(status));
    char *text = gs_test_text(log, NULL);
    if (WEXITSTATUS(status) != 128 + SIGINT || !strstr(text, "stopped by a signal after 0 of 2 runs"))
        fail_msg("exit %d: %s", WEXITSTATUS(status), text);
}
