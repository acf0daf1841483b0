/* gradsum step shows what happened, in 80 columns, for every scheme. */
#include "cli/step/step.h"
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

/* Compares every table character by character, for a case that a reader can follow by hand. */
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

/* Both exchanges of allreduce. With chunks of unequal length, all messages are as long as the longest. */
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

/* Cells follow from the recorded parts, so a record that is shown twice looks the same. */
TEST(it_shows_the_same_again) {
    for (int i = 0; gs_sync_schemes()[i]; i++) {
        if (gs_sync_schemes()[i] == &gs_sync_auto) continue; /* auto measures */
        char *once = step(gs_sync_schemes()[i]->name, 7, 13, "--no-pause");
        char *again = step(gs_sync_schemes()[i]->name, 7, 13, "--no-pause");
        assert_string_equal(once, again);
    }
}

/* ---- the record ---- */

/* Checks that the parts are in order and without gaps; returns how many elements they cover. If `all` is not 0, each
 * part must be the sum over this many workers. */
static size_t check_parts(const gs_step_event *e, int all) {
    size_t count = 0;
    assert_true(e->count > 0);
    for (int p = 0; p < e->count; p++) {
        const gs_step_part *part = &e->parts[p];
        assert_true(part->first == e->parts[0].first + count);
        count += part->count;
        assert_true(part->workers != 0);
        if (all) assert_int_equal(__builtin_popcount(part->workers), all);
    }
    return count;
}

/* With 16 bits allreduce uses chunks of equal length, so `size` must be divisible by the number of workers. */
static void check_record(const gs_sync_scheme *scheme, int workers, size_t size, gs_wire wire) {
    gs_step_record s = {.asked = scheme, .workers = workers, .size = size, .wire = wire};
    size_t messages[GS_STEP_WORKERS] = {0}, bytes[GS_STEP_WORKERS] = {0};
    int held[GS_STEP_WORKERS] = {0}, last = 0;
    assert_ok(gs_step_run(&s));
    assert_true(s.correct);
    assert_true(gs_step_counts_agree(&s));
    for (int i = 0; i < s.count; i++) {
        const gs_step_event *e = &s.events[i];
        assert_true(e->from >= 0 && e->from < workers && e->to < workers && e->from != e->to);
        assert_true(e->round >= last && e->round <= (s.rounds > 0 ? s.rounds : 1));
        last = e->round;
        if (e->to >= 0) {
            assert_true(e->round >= 1);
            messages[e->from]++;
            bytes[e->from] += (wire == GS_WIRE_F32 ? 4 : 2) * check_parts(e, 0);
        } else {
            const int all = e->round == 0 ? 1 : e->round >= s.rounds ? workers : 0;
            held[e->from]++;
            assert_true(check_parts(e, all) == size);
        }
    }
    for (int w = 0; w < workers; w++) {
        assert_int_equal(held[w], 1 + (s.rounds > 0 ? s.rounds : 1));
        assert_int_equal(s.counted[w].rounds, s.rounds);
        assert_int_equal(s.counted[w].messages, messages[w]);
        assert_int_equal(s.counted[w].bytes, bytes[w]);
        gs_sync_cost formula;
        const bool has_formula = gs_sync_cost_of(s.scheme, workers, w, gs_step_array(&s), &formula);
        assert_int_equal(has_formula, wire != GS_WIRE_F32 || scheme->cost);
        if (!has_formula) continue;
        assert_int_equal(formula.rounds, s.rounds);
        assert_int_equal(formula.messages, messages[w]);
        assert_int_equal(formula.bytes, bytes[w]);
    }
    gs_step_record_free(&s);
}

TEST(the_record_has_every_message) {
    for (int i = 0; gs_sync_schemes()[i]; i++) {
        if (gs_sync_schemes()[i] == &gs_sync_auto) continue;
        check_record(gs_sync_schemes()[i], 1, 3, GS_WIRE_F32);
        check_record(gs_sync_schemes()[i], 4, 8, GS_WIRE_F32);
        check_record(gs_sync_schemes()[i], 7, 5, GS_WIRE_F32);
        check_record(gs_sync_schemes()[i], 16, 100, GS_WIRE_F32);
        for (int workers = 1; workers <= 4; workers++) {
            check_record(gs_sync_schemes()[i], workers, 12, GS_WIRE_F16);
            check_record(gs_sync_schemes()[i], workers, 12, GS_WIRE_BF16);
        }
    }
    check_record(&gs_sync_ring, 11, 22, GS_WIRE_F16); /* f16 can hold the sum of at most 11 */
    assert_prints(0, "chosen by auto: ", "step --sync auto --no-pause");
    assert_prints(0, "chosen by auto: ", "step --sync auto --wire bf16 --no-pause");
}

/* ---- use ---- */

/* On a terminal the program waits before each round; at the end of input it stops waiting and prints the rest. */
TEST(enter_shows_the_next_round) {
    char *output = gs_test_shell_output(
        0, "printf '\\n\\n\\n\\n' | script -qec '%s/gradsum step --sync ring --workers 3' /dev/null",
        GS_BUILD_DIR);
    if (gs_test_count(output, "Enter: next round") != 4 || !strstr(output, "round 4 of 4"))
        fail_msg("%s", output);
    output = step("ring", 3, 8, "</dev/null"); /* with output to a pipe, it never waits */
    assert_int_equal(gs_test_count(output, "Enter"), 0);
    assert_has(output, "round 4 of 4");
}

TEST(the_library_cannot_be_watched) {
    assert_prints(0, "there are no messages to show", "step --sync gloo --no-pause");
    assert_prints(0, "all*", "step --sync hierarchical --no-pause");
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
