/* gradsum step: it shows what happened, in 80 columns, for every scheme. */
#include "tests/support/program.h"

static char *step(const char *scheme, int workers, int size, const char *more) {
    char *output = gs_test_output(0, "step --sync %s --workers %d --size %d %s", scheme, workers, size, more);
    return output;
}

TEST(tables_fit_80_columns) {
    static const int sizes[] = {1, 8, 1003};
    for (int i = 0; gs_sync_schemes()[i]; i++)
        for (int workers = 1; workers <= 16; workers += workers < 8 ? 1 : 4) {
            int size = sizes[(i + workers) % 3];
            const char *output = step(gs_sync_schemes()[i]->name, workers, size, "--no-pause");
            gs_test_fits(output, 80);
            assert_null(strstr(output, " \n"));
        }
}

/* Every table to the letter, for a case that a reader can follow by hand. */
TEST(a_ring_of_three) {
    static const char wanted[] =
        "ring: each rank passes chunks on to its right neighbour\n"
        "3 workers, 4 floats; each worker begins with its own gradient\n"
        "chunks  a = 0..1  b = 2  c = 3\n"
        "cells   0+1: the sum of these workers' gradients   all: of all   *: just changed\n"
        "\n"
        "before     a    b    c\n"
        "worker 0   0    0    0\n"
        "worker 1   1    1    1\n"
        "worker 2   2    2    2\n"
        "\n"
        "round 1 of 4\n"
        "  0 -> 1: a  1 -> 2: b  2 -> 0: c\n"
        "after      a    b    c\n"
        "worker 0   0    0    0+2*\n"
        "worker 1   0+1* 1    1\n"
        "worker 2   2    1+2* 2\n"
        "\n"
        "round 2 of 4\n"
        "  0 -> 1: c  1 -> 2: a  2 -> 0: b\n"
        "after      a    b    c\n"
        "worker 0   0    all* 0+2\n"
        "worker 1   0+1  1    all*\n"
        "worker 2   all* 1+2  2\n"
        "\n"
        "round 3 of 4\n"
        "  0 -> 1: b  1 -> 2: c  2 -> 0: a\n"
        "after      a    b    c\n"
        "worker 0   all* all  0+2\n"
        "worker 1   0+1  all* all\n"
        "worker 2   all  1+2  all*\n"
        "\n"
        "round 4 of 4\n"
        "  0 -> 1: a  1 -> 2: b  2 -> 0: c\n"
        "after      a    b    c\n"
        "worker 0   all  all  all*\n"
        "worker 1   all* all  all\n"
        "worker 2   all  all* all\n"
        "\n"
        "sent by             rounds           messages                      bytes\n"
        "           counted formula   counted  formula       counted      formula\n"
        "worker 0         4       4         4        4            24           24\n"
        "worker 1         4       4         4        4            20           20\n"
        "worker 2         4       4         4        4            20           20\n";
    char *output = step("ring", 3, 4, "--no-pause");
    if (strcmp(output, wanted) != 0) fail_msg("it shows:\n%s\nwanted:\n%s", output, wanted);
}

/* The two exchanges of allreduce, one with chunks of unequal length: all messages are as long as the longest. */
TEST(an_all_reduce_in_16_bits) {
    static const char wanted[] = "round 1 of 2\n"
                                 "  0 -> 1: b  0 -> 2: c  1 -> 0: a  1 -> 2: c  2 -> 0: a  2 -> 1: b\n"
                                 "after      a    b    c\n"
                                 "worker 0   all* 0    0\n"
                                 "worker 1   1    all* 1\n"
                                 "worker 2   2    2    all*\n"
                                 "\n"
                                 "round 2 of 2\n"
                                 "  0 -> 1: a  0 -> 2: a  1 -> 0: b  1 -> 2: b  2 -> 0: c  2 -> 1: c\n"
                                 "after      a    b    c\n"
                                 "worker 0   all  all* all*\n"
                                 "worker 1   all* all  all*\n"
                                 "worker 2   all* all* all\n"
                                 "\n"
                                 "sent by             rounds           messages                      bytes\n"
                                 "           counted formula   counted  formula       counted      formula\n"
                                 "worker 0         2       2         4        4            24           24\n"
                                 "worker 1         2       2         4        4            24           24\n"
                                 "worker 2         2       2         4        4            24           24\n";
    char *output = step("allreduce", 3, 7, "--no-pause --wire bf16");
    assert_has(output, "chunks  a = 0..2  b = 3..5  c = 6\n", wanted);
}

/* The cells follow from the parts, so showing them twice gives the same. */
TEST(it_shows_the_same_again) {
    for (int i = 0; gs_sync_schemes()[i]; i++) {
        if (gs_sync_schemes()[i] == &gs_sync_auto) continue; /* it measures */
        char *once = step(gs_sync_schemes()[i]->name, 7, 13, "--no-pause");
        char *again = step(gs_sync_schemes()[i]->name, 7, 13, "--no-pause");
        assert_string_equal(once, again);
    }
}

/* ---- JSON ---- */

static int number(const cJSON *o, const char *name) {
    const cJSON *f = cJSON_GetObjectItemCaseSensitive(o, name);
    if (!cJSON_IsNumber(f)) fail_msg("no number \"%s\"", name);
    return f->valueint;
}

static bool is_event(const cJSON *o, const char *name) {
    const cJSON *f = cJSON_GetObjectItemCaseSensitive(o, "event");
    return cJSON_IsString(f) && strcmp(f->valuestring, name) == 0;
}

/* The parts are in order and without gaps; returns how many elements they cover. all: the number of workers that each
 * part must be the sum of; 0: any. */
static int check_parts(const cJSON *o, int all) {
    const cJSON *parts = cJSON_GetObjectItemCaseSensitive(o, "parts"), *p;
    int first = -1, count = 0;
    cJSON_ArrayForEach(p, parts) {
        const cJSON *sum = cJSON_GetObjectItemCaseSensitive(p, "sum_of");
        if (first < 0) first = number(p, "first");
        assert_int_equal(number(p, "first"), first + count);
        count += number(p, "count");
        assert_true(cJSON_GetArraySize(sum) > 0);
        if (all) assert_int_equal(cJSON_GetArraySize(sum), all);
    }
    assert_true(first >= 0);
    return count;
}

/* wire: NULL, or a 16-bit one. With 16 bits allreduce uses chunks of equal length, so `size` must be divisible by the
 * number of workers. */
static void check_json(const gs_sync_scheme *scheme, int workers, int size, const char *wire) {
    int width = wire ? 2 : 4; /* bytes of a value */
    int messages[16] = {0}, bytes[16] = {0}, held[16] = {0}, rounds = 0, last = 0, totals = 0, ends = 0;
    const char *more = gs_test_format("--json%s%s", wire ? " --wire " : "", wire ? wire : "");
    char *output = step(scheme->name, workers, size, more);
    for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n")) {
        cJSON *o = gs_test_parse(line);
        if (is_event(o, "start")) {
            rounds = number(o, "rounds");
            assert_int_equal(number(o, "workers"), workers);
        } else if (is_event(o, "message")) {
            int from = number(o, "from"), to = number(o, "to"), round = number(o, "round");
            assert_true(from != to && from >= 0 && from < workers && to >= 0 && to < workers);
            assert_true(round >= last && round >= 1 && round <= rounds);
            last = round;
            messages[from]++;
            bytes[from] += width * check_parts(o, 0);
        } else if (is_event(o, "holds")) {
            int round = number(o, "round"), worker = number(o, "worker");
            assert_true(round >= last);
            last = round;
            held[worker]++;
            int all = round == 0 ? 1 : round == rounds || rounds == 0 ? workers : 0;
            assert_int_equal(check_parts(o, all), size);
        } else if (is_event(o, "total")) {
            int worker = number(o, "worker");
            assert_int_equal(worker, totals++);
            const cJSON *formula = cJSON_GetObjectItemCaseSensitive(o, "formula");
            assert_int_equal(formula != NULL, wire || scheme->cost);
            if (formula) {
                assert_int_equal(number(o, "messages"), messages[worker]);
                assert_int_equal(number(o, "bytes"), bytes[worker]);
                assert_int_equal(number(o, "rounds"), rounds);
                assert_int_equal(number(formula, "messages"), messages[worker]);
                assert_int_equal(number(formula, "bytes"), bytes[worker]);
                assert_int_equal(number(formula, "rounds"), rounds);
            }
        } else {
            assert_true(is_event(o, "end"));
            assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "correct")));
            assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "as_formula")));
            ends++;
        }
    }
    for (int r = 0; r < workers; r++) assert_int_equal(held[r], 1 + (rounds > 0 ? rounds : 1));
    assert_int_equal(totals, workers);
    assert_int_equal(ends, 1);
}

TEST(json_has_every_message) {
    for (int i = 0; gs_sync_schemes()[i]; i++) {
        if (gs_sync_schemes()[i] == &gs_sync_auto) continue;
        check_json(gs_sync_schemes()[i], 1, 3, NULL);
        check_json(gs_sync_schemes()[i], 4, 8, NULL);
        check_json(gs_sync_schemes()[i], 7, 5, NULL);
        check_json(gs_sync_schemes()[i], 16, 100, NULL);
        for (int workers = 1; workers <= 4; workers++) {
            check_json(gs_sync_schemes()[i], workers, 12, "f16");
            check_json(gs_sync_schemes()[i], workers, 12, "bf16");
        }
    }
    assert_prints(0, "\"sync_chosen\":", "step --sync auto --json");
    assert_prints(0, "\"as_formula\":true", "step --sync auto --wire bf16 --json");
}

/* ---- use ---- */

/* On a terminal it waits before each round; at the end of input it stops waiting, and prints the rest. */
TEST(enter_shows_the_next_round) {
    char *output = gs_test_shell_output(
        0, "printf '\\n\\n\\n\\n' | script -qec '%s/gradsum step --sync ring --workers 3' /dev/null",
        GS_BUILD_DIR);
    if (gs_test_count(output, "Enter: next round") != 4 || !strstr(output, "round 4 of 4"))
        fail_msg("%s", output);
    output = step("ring", 3, 8, "</dev/null"); /* into a pipe: it never waits */
    assert_int_equal(gs_test_count(output, "Enter"), 0);
    assert_has(output, "round 4 of 4");
}

TEST(the_library_cannot_be_watched) {
    assert_prints(0, "there are no messages to show", "step --sync gloo --no-pause");
    assert_prints(0, "all*", "step --sync hierarchical --no-pause");
    assert_prints(0, "\"watched\":false", "step --sync allreduce --json");
    assert_prints(0, "Threads send nothing here", "step --sync allreduce --no-pause");
    assert_prints(0, "One worker has nothing to sum", "step --workers 1 --no-pause");
}

TEST(wrong_use_is_explained) {
    assert_prints(2, "--workers: '0' is not a whole number from 1 to 16", "step --workers 0");
    assert_prints(2, "--workers: '17' is not a whole number from 1 to 16", "step --workers 17");
    assert_prints(2, "--size: '0' is not a whole number from 1 to 1000000", "step --size 0");
    assert_prints(2, "did you mean --size?", "step --sise 3");
    assert_prints(2, "'ring' is not an option", "step ring");
    assert_prints(0, "recursive_doubling", "step --help");
}
