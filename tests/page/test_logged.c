/* Training logs as a page reads them: complete, truncated at any byte, and damaged. */
#include "tests/support/made_log.h"

#include <math.h>
#include <unistd.h>
#include "page/logged.h"

static bool has_note(const gs_logged *log, const char *part) {
    for (int i = 0; i < log->notes; i++)
        if (strstr(log->note[i], part)) return true;
    return false;
}

TEST(a_log_is_read) {
    gs_logged log;
    assert_ok(gs_logged_read(gs_made_log(), &log));
    assert_int_equal(log.notes, 0);
    assert_int_equal(log.steps.rows, 2);
    assert_int_equal(log.epochs.rows, 1);
    assert_int_equal(log.workers.rows, 1);
    assert_near(gs_logged_cell(&log.steps, 0, GS_LOGGED_LOSS), 2.5, 0, 0);
    assert_true(isnan(gs_logged_cell(&log.steps, 1, GS_LOGGED_LOSS)));
    assert_near(gs_logged_cell(&log.steps, 1, GS_LOGGED_SHARE + 1), 0.75, 0, 0); /* forward */
    assert_near(gs_logged_cell(&log.epochs, 0, GS_LOGGED_TEST_ACCURACY), 0.5, 0, 0);
    assert_near(gs_logged_cell(&log.workers, 0, GS_LOGGED_WORKER_SHARE + 3), 1, 0, 0);

    const gs_logged_trace *t = &log.trace;
    assert_int_equal(t->bars, 3);
    assert_int_equal(t->events, 7);
    assert_has(t->text + t->event[0].at, "process_name"); /* this name precedes all events that have a time */
    for (size_t i = 1; i < t->events; i++) assert_true(t->event[i].time >= t->event[i - 1].time);
    assert_true(t->event[6].is_bar);
    assert_near(t->event[6].time, 20, 0, 0);
    gs_logged_free(&log);
}

/* A log that is truncated after any byte is read up to its last complete line. */
TEST(cut_metrics_are_read) {
    const char *folder = gs_made_log();
    for (size_t length = 0; length <= strlen(gs_made_metrics); length++) {
        gs_logged log;
        size_t lines = 0, rest = 0;
        for (size_t i = 0; i < length; i++) {
            rest = gs_made_metrics[i] == '\n' ? 0 : rest + 1;
            lines += gs_made_metrics[i] == '\n';
        }
        bool all = gs_made_metrics[length] == '\n'; /* only the newline is missing */
        gs_made_file(folder, "metrics.jsonl", gs_made_metrics, length);
        assert_ok(gs_logged_read(folder, &log));
        size_t other = lines + all == GS_MADE_LINES;
        assert_int_equal(log.steps.rows + log.epochs.rows + log.workers.rows, lines + all - other);
        assert_int_equal(has_note(&log, "is cut off"), rest > 0 && !all);
        assert_int_equal(has_note(&log, "no curves"), lines + all == 0);
        gs_logged_free(&log);
    }
}

TEST(cut_traces_are_read) {
    const char *folder = gs_made_log(), *end = strstr(gs_made_trace, "]}");
    size_t before = 0;
    for (size_t length = 0; length <= strlen(gs_made_trace); length++) {
        gs_logged log;
        gs_made_file(folder, "trace.json", gs_made_trace, length);
        assert_ok(gs_logged_read(folder, &log));
        assert_true(log.trace.events >= before && log.trace.events <= 7);
        before = log.trace.events;
        assert_int_equal(log.notes, length <= (size_t)(end - gs_made_trace));
        gs_logged_free(&log);
    }
    assert_int_equal(before, 7);
}

TEST(a_file_that_is_too_large_is_left_out) {
    const char *folder = gs_made_log();
    gs_logged log;
    assert_int_equal(truncate(gs_test_format("%s/metrics.jsonl", folder), (off_t)1 << 40), 0);
    assert_ok(gs_logged_read(folder, &log));
    assert_true(has_note(&log, "metrics.jsonl is too large"));
    gs_logged_free(&log);
}

/* Lines that are not JSON or contain zeros; folders instead of files; a run.json that is not JSON. */
TEST(damage_is_told) {
    const char *folder = gs_made_log();
    char *text = gs_test_malloc(200000);
    gs_logged log;
    memset(text, 'x', 100000);
    int used = snprintf(text + 100000, 100000, "\n%s\n{\"kind\":\"step\"\n\n[1]\n%s", gs_made_metrics,
                        gs_made_metrics);
    gs_made_file(folder, "metrics.jsonl", text, 100000 + (size_t)used);
    GS_MADE_TEXT(folder, "run.json", "{\"format\":");
    GS_MADE_TEXT(folder, "trace.json", "\"traceEvents\"");
    assert_ok(gs_logged_read(folder, &log));
    assert_int_equal(log.steps.rows, 4);
    assert_true(has_note(&log, "run.json is damaged"));
    assert_true(has_note(&log, "3 lines are left out, the first of them line 1."));
    assert_true(has_note(&log, "trace.json has no list of events"));
    gs_logged_free(&log);

    used = snprintf(text, 200000, "[{\"ph\":\"M\",\"name\":\"%0*d\"}]", 5000, 0);
    gs_made_file(folder, "trace.json", text, (size_t)used);
    assert_ok(gs_logged_read(folder, &log));
    assert_true(has_note(&log, "trace.json has 1 event of more than 4096 bytes"));
    gs_logged_free(&log);

    gs_made_file(folder, "metrics.jsonl", "{\"kind\":\"step\",\"step\":1}\n\0\0\0\0", 30);
    assert_ok(gs_logged_read(folder, &log));
    assert_int_equal(log.steps.rows, 1);
    gs_logged_free(&log);

    /* a 0 does not end a line: no later line is lost, and the line with the 0 does not count as empty */
    static const char zeros[] =
        "{\"kind\":\"step\",\"step\":1}\n{\"kind\":\"st\0ep\"}\n{\"kind\":\"step\",\"step\":3}\n"
        "\0{\"kind\":\"step\"}\n{\"kind\":\"step\",\"step\":5}\n";
    gs_made_file(folder, "metrics.jsonl", zeros, sizeof zeros - 1);
    assert_ok(gs_logged_read(folder, &log));
    assert_int_equal(log.steps.rows, 3);
    assert_near(gs_logged_cell(&log.steps, 1, 0), 3, 0, 0);
    assert_true(has_note(&log, "2 lines are left out, the first of them line 2."));
    gs_logged_free(&log);

    gs_test_shell_output(0, "cd %s && rm *.json* && mkdir metrics.jsonl trace.json run.json", folder);
    assert_ok(gs_logged_read(folder, &log));
    assert_int_equal(log.notes, 3);
    gs_logged_free(&log);
    gs_test_shell_output(0, "cd %s && rmdir *.json* && touch run.json metrics.jsonl", folder);
    assert_prints(0, "no step and no epoch", "report %s -o %s/x.html", folder, folder);
}

/* Opening a FIFO would block forever. */
TEST(pipes_do_not_keep_it_waiting) {
    const char *folder = gs_made_log();
    gs_test_shell_output(0, "cd %s && rm *.json* && mkfifo metrics.jsonl trace.json run.json", folder);
    assert_prints(0, "", "report %s -o %s/x.html", folder, folder);
    gs_logged log;
    assert_ok(gs_logged_read(folder, &log));
    assert_true(has_note(&log, "run.json cannot be read"));
    assert_true(has_note(&log, "metrics.jsonl cannot be read"));
    assert_true(has_note(&log, "trace.json cannot be read"));
    gs_logged_free(&log);
}
