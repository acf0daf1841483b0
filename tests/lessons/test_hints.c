/* What a student reads about a failed task: the note, and a hint that fits the cause. */
#include "tests/support/test.h"

#include "lessons/grader.h"

static const lab_task task = {"5.2", "an order for each epoch", 3, NULL, "the task's own hint"};

/* The grader's verdict on a job. */
static lab_outcome judge(lab_job job, const char *output) {
    lab_outcome o;
    lab_grading g = {.lab = "05", .folder = "build/lessons/05"};
    job.output = gs_test_format("%s", output);
    job.limits = (lab_limits){10, 1 << 30, 1 << 20};
    lab_judge(&g, &task, &job, "lab.c", &o);
    return o;
}

static lab_outcome judge_failure(const char *message, const char *hint) {
    lab_job job = {.has_verdict = true};
    snprintf(job.verdict.message, sizeof job.verdict.message, "%s", message);
    snprintf(job.verdict.hint, sizeof job.verdict.hint, "%s", hint);
    return judge(job, "");
}

TEST(a_wrong_result_gets_the_hint_of_its_task) {
    lab_outcome o = judge_failure("the mean is 0, got 3", "");
    assert_string_equal(o.note, "the mean is 0, got 3");
    assert_string_equal(o.hint, "the task's own hint");
    assert_string_equal(judge_failure("infants, bananas: the mean is inf, got 3", "").hint,
                        "the task's own hint");
    assert_int_equal(o.points, 0);
}

TEST(a_check_may_have_another_hint) {
    assert_string_equal(judge_failure("7 bytes, got 28", "bytes, not floats").hint, "bytes, not floats");
}

TEST(what_is_no_number_gets_a_hint_of_its_own) {
    assert_has(judge_failure("the mean is 0, got -nan (i = 0 of 1)", "another").hint, "0/0");
    assert_has(judge_failure("got 1 2 nan", "").hint, "0/0");
    assert_has(judge_failure("the scale is 4, got inf", "").hint, "a number divided by 0");
    assert_has(judge_failure("the mean is 4, got 1 -inf", "").hint, "a number divided by 0");
}

TEST(who_waits_for_ever_gets_a_hint_of_its_own) {
    const char *const waits = "rank 0: rank 0: recv of 4 bytes from rank 1: no answer within 8 s from rank 1";
    assert_has(judge_failure(waits, "").hint, "who sends this message");
}

TEST(a_crash_names_its_call) {
    lab_job job = {.has_verdict = true,
                   .verdict = {.ended = 1, .code = 1, .called = "seed = 3, epoch = 1, n = 0"}};
    lab_outcome o = judge(job, "==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x1 at pc 0x2\n"
                               "WRITE of size 4 at 0x1 thread T0\n"
                               "    #0 0x1 in gs_epoch_order lessons/05-splitting-the-data/lab.c:26\n\n");
    assert_has(o.note,
               "lab.c:26: in gs_epoch_order: heap-buffer-overflow (an access outside a block of memory)");
    assert_has(o.note, "; it was called with seed = 3, epoch = 1, n = 0");
    assert_has(o.hint, "`build/lessons/05/gradsum grade-task 5.2` shows");
    job.verdict = (lab_verdict){.ended = 1, .signal = 11};
    o = judge(job, "");
    assert_has(o.note, "it crashed: SIGSEGV");
    assert_null(strstr(o.note, "called"));
    assert_has(o.hint, "grade-task 5.2");
    job.verdict = (lab_verdict){.ended = 1, .code = 0};
    o = judge(job, "");
    assert_has(o.note, "it exited with status 0");
    assert_has(o.hint, "return");
}

TEST(a_loop_and_a_sleep_are_told_apart) {
    lab_job job = {.end = LAB_TOO_LONG, .seconds = 11};
    assert_has(judge(job, "").note, "did not end within 10 s: an endless loop");
    assert_has(judge(job, "").hint, "gdb --args build/lessons/05/gradsum grade-task 5.2");
    job.slept = true;
    assert_has(judge(job, "").note, "it slept for 10 s, and waits for a message");
    job = (lab_job){.end = LAB_TOO_LONG, .seconds = 101};
    assert_has(judge(job, "").note, "within 100 s by the clock");
}
