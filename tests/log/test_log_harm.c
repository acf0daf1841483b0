/* train --log: no damage to the log harms the run, and no failure of the run harms the log. */
#include "tests/support/logs.h"

#include "log/log.h"
#include "tests/support/training.h"

TEST(wrong_use_is_explained) {
    assert_prints(2, "--log-every needs --log DIR", "train --log-every 5");
    assert_prints(2, "--trace-steps needs --log DIR", "train --trace-steps 1-2");
    assert_prints(2, "--log: '-' is no folder", "train --log -");
    assert_prints(2, "--digest: '-' is no folder", "train --digest -");
    assert_prints(2, "--checkpoint: '-' is no folder", "train --checkpoint=-");
    static const char *const ranges[] = {"0-3", "4-3",   "a",   "1-",
                                         "-3",  "1-2-3", "1,2", "99999999999999999999"};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        assert_prints(2, "FIRST-LAST", "train --log x --trace-steps=%s", ranges[i]);
}

TEST(bad_targets_are_refused) {
    const char *folder = gs_test_folder();
    assert_int_equal(gs_test_shell(NULL, "echo keep > %s/file", folder), 0);
    assert_prints(1, "it is a file; wanted a folder", "train --model softmax --steps 3 --log %s/file",
                  folder);
    assert_prints(1, "cannot create the folder: Not a directory", "train --steps 3 --log %s/file/log",
                  folder);
    assert_prints(1, "cannot create the folder: No such file or directory", "train --log %s/no/log", folder);
    assert_prints(1, "cannot create the folder: No such file or directory", "train --log /proc/self/fd/log");
    assert_prints(1, "cannot write", "train --log /proc/self");
    assert_int_equal(gs_test_shell(NULL, "grep -qx keep %s/file", folder), 0);

    assert_prints(0, "done", "train --model softmax --steps 3 --log %s/log", folder);
    assert_int_equal(gs_test_shell(NULL, "cat %s/log/* | sha256sum > %s/before", folder, folder), 0);
    assert_prints(1, "already holds a log (run.json); choose another one",
                  "train --model softmax --steps 3 --log %s/log", folder);
    assert_int_equal(gs_test_shell(NULL, "cat %s/log/* | sha256sum | cmp - %s/before", folder, folder), 0);
}

/* Files can be created, but the event file's header cannot be written: nothing is trained, and nothing left behind. */
TEST(a_log_that_cannot_begin_is_refused) {
    const char *folder = gs_test_folder();
    char *output = gs_test_shell_output(1,
                                        "ulimit -f 0; trap '' XFSZ; %s/gradsum train --model softmax --steps "
                                        "3 --log %s/log 2>&1 | cat; exit 1",
                                        GS_BUILD_DIR, folder);
    assert_has(output, "gradsum train: --log ", "/events.out.tfevents.", "File too large");
    assert_null(strstr(output, "done"));
    assert_false(gs_test_is_there(folder, "log"));
}

/* A run that fails before its first step leaves no log behind, and its path can be used again. */
TEST(a_run_that_never_began_leaves_nothing) {
    const char *folder = gs_test_folder();
    assert_prints(1, "no/such/data", "train --data no/such/data --log %s/log", folder);
    assert_false(gs_test_is_there(folder, "log"));
    assert_prints(0, "done", "train --model softmax --steps 3 --log %s/log", folder);
    assert_true(gs_test_is_there(in_folder(folder, "log"), "run.json"));
}

/* Files may not exceed a few blocks, and doing so raises a signal: as on a full disk, only the log ends. Three cases:
 * the lines do not fit, the trace does not fit, or either may fail first. */
TEST(a_full_disk_ends_the_log_alone) {
    static const char args[] = "train --model 'flatten, linear 10' --batch 64 --epochs 4 --threads 1";
    static const struct {
        const char *more, *blocks; /* of 512 bytes */
    } cases[] = {{"", "80"},
                 {"--log-every 1000 --trace-steps 1-200", "80"},
                 {"--sync ring --devices cpu,cpu --trace-steps 1-90", "90"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *output;
        const char *folder = gs_test_folder();
        gs_test_output(0, "%s %s --trace-steps none --log %s/all --save %s/a.safetensors", args,
                       i < 2 ? cases[i].more : "--sync ring --devices cpu,cpu", folder, folder);
        int status =
            gs_test_shell(&output, "ulimit -f %s; %s/gradsum %s %s --log %s/log --save %s/b.safetensors",
                          cases[i].blocks, GS_BUILD_DIR, args, cases[i].more, folder, folder);
        const char *said = strstr(output, "the log stops here, training continues");
        if (status != 1 || !said || strstr(said + 1, "the log ends here") ||
            !strstr(output, "File too large"))
            fail_msg("case %zu: exit %d: %s", i, status, output);
        assert_has(output, "epoch 4/4");
        assert_string_equal(strstr(output, "weights  sha256") ? "" : output, "");
        assert_int_equal(gs_test_shell(NULL, "cmp %s/a.safetensors %s/b.safetensors", folder, folder), 0);
        cJSON *lines = gs_test_metrics(in_folder(folder, "log")); /* complete, except for the last line */
        if (i != 1) assert_true(cJSON_GetArraySize(lines) > 50);
        cJSON *run = gs_test_json(in_folder(folder, "log"), "run.json");
        const cJSON *ended = cJSON_GetObjectItem(
            run, "ended"); /* run.json says that the run ended, and that the log ended earlier */
        assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(ended, "why")), "done");
        assert_non_null(strstr(cJSON_GetStringValue(cJSON_GetObjectItem(ended, "log")), "File too large"));
        assert_prints(0, "", "report %s/log -o %s/x.html", folder, folder);
        assert_int_equal(gs_test_shell(NULL, "grep -q 'The log is incomplete: ' %s/x.html", folder), 0);
    }
}

/* The disk itself is full: there is no space for a second run.json. */
TEST(a_full_disk_is_told_all_the_same) {
    char *output;
    const char *folder = gs_test_folder();
    const int status = gs_test_shell(
        &output,
        "cd %s; mkdir m; unshare -rm sh -c 'mount -t tmpfs -o size=96k x m || exit 77; G=%s/gradsum\n"
        "$G train --model softmax --epochs 9 --threads 1 --log m/log --trace-steps none; echo exit $?\n"
        "$G report m/log -o x.html; cp m/log/run.json .'",
        folder, GS_BUILD_DIR);
    if (status == 77 || strstr(output, "unshare")) {
        print_message("a full disk is not tested: no file system can be mounted here\n");
        return;
    }
    assert_has(output, "gradsum train: --log m/log: ", "No space left on device; the log stops here",
               "exit 1\n", "The log is incomplete: ");
    assert_null(strstr(output, "has not ended"));
    const cJSON *ended = gs_test_field(gs_test_json(folder, "run.json"), "ended");
    assert_string_equal(gs_test_text_of(ended, "why"), "done");
    assert_has(gs_test_text_of(ended, "log"), "No space left on device");
}

TEST(a_killed_run_leaves_what_it_wrote) {
    const char *folder = gs_test_folder();
    gs_test_shell_output(137,
                         "%s/gradsum train --model softmax --epochs 100000 --log %s/log >%s/out & pid=$!; "
                         "until grep -q '\"epoch\":3,' %s/log/metrics.jsonl 2>/dev/null; do sleep 0.02; "
                         "done; kill -9 $pid; wait $pid",
                         GS_BUILD_DIR, folder, folder, folder);
    cJSON *lines = gs_test_metrics(in_folder(folder, "log")),
          *run = gs_test_json(in_folder(folder, "log"), "run.json");
    assert_true(gs_test_count_kind(lines, "step") > 2 * 47);
    assert_null(cJSON_GetObjectItem(run, "ended"));
    assert_true(gs_test_is_there(in_folder(folder, "log"), "trace.json"));
}

TEST(an_interrupted_run_says_so) {
    const char *folder = gs_test_folder();
    gs_test_shell_output(128 + SIGTERM,
                         "%s/gradsum train --model softmax --devices cpu,cpu --epochs 100000 --trace-steps "
                         "2-1000000 --log %s/log >%s/out & pid=$!; "
                         "until grep -q '\"step\":9,' %s/log/metrics.jsonl 2>/dev/null; do sleep 0.02; "
                         "done; kill -TERM $pid; wait $pid",
                         GS_BUILD_DIR, folder, folder, folder);
    cJSON *lines = gs_test_metrics(in_folder(folder, "log")),
          *run = gs_test_json(in_folder(folder, "log"), "run.json");
    assert_string_equal(gs_test_text_of(gs_test_field(run, "ended"), "why"), "interrupted");
    assert_int_equal(gs_test_number(gs_test_field(run, "ended"), "steps"), gs_test_count_kind(lines, "step"));
    cJSON *trace = gs_test_json(in_folder(folder, "log"), "trace.json"); /* of the recorded steps */
    assert_true(cJSON_GetArraySize(gs_test_field(trace, "traceEvents")) > 2 * 7 * 8);
}

/* If only some processes had a log, they would wait for each other. */
TEST(all_processes_log_or_none) {
    char *output;
    const char *folder = gs_test_folder();
    static const char *const other[] = {"", "--trace-steps 5 --log"};
    static const char *const said[] = {"rank 1 runs without --log, rank 0 with it",
                                       "rank 1 and rank 0 differ in --trace-steps"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gs_test_shell(NULL, "mkdir %s/meet%d", folder, i), 0);
        output = gs_test_shell_output(
            2,
            "export GRADSUM_WORLD_SIZE=2 GRADSUM_RENDEZVOUS=%s/meet%d GRADSUM_TIMEOUT=200; "
            "GRADSUM_RANK=1 %s/gradsum train --steps 3 %s %s >%s/one%d 2>&1 & "
            "GRADSUM_RANK=0 %s/gradsum train --steps 3 --log %s/log; status=$?; wait; exit $status",
            folder, i, GS_BUILD_DIR, other[i], i ? folder : "", folder, i, GS_BUILD_DIR, folder);
        assert_has(output, said[i]);
        assert_false(gs_test_is_there(folder, "log"));
    }
}

static void fail_at_step_6(gs_worker *w) {
    if (w->step == 6 && w->comm->rank == 1) gs_comm_abort(w->comm, "the test wants it so");
}

static void tell_nobody(void *context, const char *problem) {
    (void)context;
    fail_msg("the log failed: %s", problem);
}

/* A worker is lost in a recorded step: the run fails as it would without a log, and the log says how. */
TEST(a_failed_run_says_why) {
    char folder[600], *command[] = {"train"};
    snprintf(folder, sizeof folder, "%s", gs_test_new_log());
    gs_settings s = gs_test_settings("cpu,cpu --sync ring --log");
    s.trace.first = 5, s.trace.last = 9;
    s.test_hook = fail_at_step_6;
    const gs_observer next = {.note = tell_nobody};
    gs_log_options options = {.folder = folder, .argc = 1, .argv = command, .next = &next};
    gs_log *log;
    gs_result result;
    assert_ok(gs_log_open(&options, &log));
    gs_observer observer = gs_log_observer(log);
    gs_status status = gs_train(&s, &observer, &result);
    gs_log_end(log, status, &result);
    assert_int_equal(status, GS_E_PEER);
    assert_non_null(strstr(gs_message(), "the test wants it so"));
    gs_log_free(log);
    cJSON *run = gs_test_json(folder, "run.json");
    assert_non_null(strstr(gs_test_text_of(gs_test_field(run, "ended"), "why"), "failed: "));
    assert_non_null(strstr(gs_test_text_of(gs_test_field(run, "ended"), "why"), "the test wants it so"));
    assert_in_range((int)gs_test_number(gs_test_field(run, "ended"), "steps"), 5,
                    6); /* rank 0 may be one step behind */
}
