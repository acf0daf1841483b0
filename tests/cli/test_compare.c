/* gradsum compare, and the lines that train prints about each worker. */
#include "tests/support/program.h"

TEST(compare_prints_a_row_a_set) {
    char *output =
        gs_test_output(0, "compare --model softmax --steps 12 --devices-list 'cpu; cpu,cpu' --json");
    int lines = 0;
    for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        cJSON *o = gs_test_parse(line);
        assert_true(gs_test_field(o, "samples_per_s")->valuedouble > 0);
        assert_true(gs_test_field(o, "largest_difference")->valuedouble < 1e-5);
        const cJSON *share = gs_test_field(o, "share");
        double sum = 0;
        for (const cJSON *s = share->child; s; s = s->next) sum += s->valuedouble;
        assert_near(sum, 1, 1e-9, 0);
    }
    assert_int_equal(lines, 2);
}

TEST(compare_looks_at_all_sets) {
    assert_prints(0, "0\n", "compare --steps 1 --devices-list 'cpu; cl:9.9' 2>/dev/null | wc -l");
}

static void assert_is_plain(const char *output) {
    gs_test_fits(output, 80);
    for (size_t i = 0; output[i]; i++) assert_true((unsigned char)output[i] < 128 && output[i] != '\033');
}

TEST(compare_fits_the_screen) {
    char *output = gs_test_output(0, "compare --model softmax --steps 12 --threads 1 "
                                     "--devices-list 'cpu; cpu,cpu; cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu'");
    assert_is_plain(output);
}

/* `train` prints what each rank did, and the sum over all ranks of all processes. */
TEST(each_worker_has_a_line) {
    setenv("COLUMNS", "60", 1);
    char *output = gs_test_output(0, "launch -n 2 -- train --model softmax --steps 20 --threads 1 --devices "
                                     "cpu,cpu | sed -n '/rank/,$p'");
    unsetenv("COLUMNS");
    static const char *const lines[] = {"rank device", "\n   0 cpu ", "\n   1 cpu ",
                                        "\n   2 cpu ", "\n   3 cpu ", "\n all 4 "};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) assert_has(output, lines[i]);
    output = gs_test_output(0, "train --model softmax --steps 4 --threads 1");
    if (strstr(output, "rank")) fail_msg("a table for one worker: %s", output);
}

/* The workers' speeds add up to the run's speed, and their shares to 1. */
TEST(workers_add_up) {
    char *output = gs_test_output(0, "train --model softmax --steps 40 --threads 1 --devices cpu,cpu,cpu "
                                     "--batch 100 --json 2>/dev/null | tail -n 1");
    cJSON *o = gs_test_parse(output);
    const cJSON *workers = gs_test_field(o, "per_worker");
    double speed = 0;
    assert_int_equal(cJSON_GetArraySize(workers), 3);
    for (int r = 0; r < 3; r++) {
        const cJSON *w = cJSON_GetArrayItem(workers, r);
        double sum = 0;
        for (const cJSON *s = gs_test_field(w, "share")->child; s; s = s->next) sum += s->valuedouble;
        assert_near(sum, 1, 1e-9, 0);
        assert_int_equal(gs_test_field(w, "rank")->valueint, r);
        assert_string_equal(gs_test_field(w, "device")->valuestring, "cpu");
        speed += gs_test_field(w, "samples_per_s")->valuedouble;
    }
    assert_near(speed, gs_test_field(o, "samples_per_s")->valuedouble, 0, 1e-9);
}
