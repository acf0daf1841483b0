/* A signal loses nothing and leaves nothing behind: weights are saved, folders are removed, and the exit status is 128
 * + N, as in a shell. */
#include "cli/cli.h"
#include "tests/support/launched.h"
#include "tests/support/training.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define AWAIT_STEPS GS_TEST_AWAIT("step ") "\n"
/* Sends two signals at once: both are pending while the process is stopped. */
#define TERM_AND_HUP                                                                                         \
    "kill -STOP $!; until grep -q '^State:.T' /proc/$!/status; do :; done; kill -TERM $!; kill -HUP $!; "    \
    "kill -CONT $!; wait $!; S=$?; case $S in 129|143) S=stopped;; esac"

/* The command must end with `status` and print `part`, and `weights` (NULL: none) must load. */
static void assert_saved(const char *output, const char *status, const char *part, const char *weights) {
    assert_has(output, status, part);
    if (weights) assert_prints(0, "test accuracy", "eval --load %s", weights);
}

/* A closing terminal; Ctrl-C, which background jobs of a shell ignore; and two signals at once, as from `timeout`: the
 * one delivered first determines the exit status. */
TEST(a_signal_saves_weights) {
    static const char *const cases[][3] = {{"kill -HUP $!; wait $!; S=$?", "status 129", "cpu"},
                                           {"kill -INT $!; wait $!; S=$?", "status 130", "cpu,cpu"},
                                           {TERM_AND_HUP, "status stopped", "cpu"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *output;
        const char *path = gs_test_format("%s/w.safetensors", gs_test_folder());
        gs_test_shell(&output,
                      "cd %s; env --default-signal=INT %s/gradsum train --model lenet --epochs 100000 "
                      "--threads 1 --devices %s --save %s >out &\n" AWAIT_STEPS "%s; echo status $S",
                      gs_test_folder(), GS_BUILD_DIR, cases[i][2], path, cases[i][0]);
        assert_saved(output, cases[i][1], "stopped by a signal after step", path);
    }
}

/* `timeout` signals its process and then the process group: both count as one request. */
TEST(a_second_signal_soon_after_ends_nothing) {
    int status;
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGTERM, SIG_DFL);
        gs_stop_on_signals();
        raise(SIGTERM);
        raise(SIGTERM);
        _exit(gs_stop_requested == SIGTERM ? 0 : 1);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* Under nohup, an ignored signal stays ignored. A scheduler's warning signal does not end the run. */
TEST(an_ignored_signal_stays_ignored) {
    char *output;
    gs_test_shell(
        &output,
        "cd %s; trap '' HUP; %s/gradsum train --model lenet --epochs 100000 --threads 1 >out &\n" AWAIT_STEPS
        "kill -USR1 $!; kill -HUP $!; " GS_TEST_AWAIT("epoch 2/") "kill -TERM $!; wait $!; echo status $?",
        gs_test_folder(), GS_BUILD_DIR);
    assert_saved(output, "status 143", "", NULL);
}

TEST(a_closed_output_saves_weights) {
    static const char *const starts[] = {"", "launch -n 2 --"};
    char *output;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        const char *path = gs_test_format("%s/w.safetensors", gs_test_folder());
        gs_test_shell(&output,
                      "{ %s/gradsum %s train --model softmax --epochs 100000 --threads 1 --save %s; "
                      "echo status $? >&2; } | head -1",
                      GS_BUILD_DIR, starts[i], path);
        assert_saved(output, "status 141", "stopped by the closing of its output after step", path);
    }
}

/* explain starts a run by itself, which records into a separate folder. */
TEST(explain_leaves_no_folder) {
    char *output;
    const char *folder = gs_test_folder();
    assert_prints(0, "sha256", "train --model softmax --threads 1 --steps 1 --digest %s/a", folder);
    gs_test_shell(&output,
                  "cd %s && mkdir tmp && sed -i 's/^option steps .*/option steps 0/; "
                  "s/^option epochs .*/option epochs 100000/; s/^end 1 .*/end 1/' a/rank-0.digest\n"
                  "TMPDIR=$PWD/tmp %s/gradsum explain a & until find tmp -name '*.digest' -size +0 "
                  "2>/dev/null | grep -q .; do sleep 0.02; done\n" TERM_AND_HUP
                  "; echo left: $(ls -A tmp) status $S",
                  folder, GS_BUILD_DIR);
    assert_saved(output, "left: status stopped", "was stopped by a signal after step", NULL);
}

/* One thread receives the signal while another one sleeps. */
TEST(a_signal_ends_a_pause) {
    char *output;
    gs_test_shell(&output,
                  "cd %s; %s/gradsum train --model softmax --devices cpu,cpu --jitter 1:1000s@100%% "
                  "--timeout 2000 --steps 9 >out &\n" AWAIT_STEPS "kill -TERM $!\n"
                  "for i in $(seq 6000); do kill -0 $! 2>/dev/null || break; sleep 0.05; done\n"
                  "kill -KILL $!; wait $!; echo status $?",
                  gs_test_folder(), GS_BUILD_DIR);
    assert_saved(output, "status 143", "stopped by a signal after step", NULL);
}

/* A rank waits for another one that never arrives. */
TEST(a_signal_ends_the_wait_at_the_start) {
    char *output;
    const char *folder = gs_test_format("%s/meet", gs_test_folder());
    assert_int_equal(mkdir(folder, 0700), 0);
    gs_test_shell(&output,
                  "export GRADSUM_RANK=0 GRADSUM_WORLD_SIZE=2 GRADSUM_RENDEZVOUS=%s GRADSUM_TIMEOUT=200\n"
                  "%s/gradsum train --model softmax & "
                  "while ! [ -e %s/rank-0 ]; do sleep 0.1; done; kill -TERM $!; wait $!; echo status $?",
                  folder, GS_BUILD_DIR, folder);
    assert_saved(output, "status 143", "stopped by a signal while it waited for the other ranks", NULL);
    assert_int_not_equal(access(folder, F_OK), 0);
}

TEST(schemes_leaves_no_folder) {
    static const char *const overs[] = {"threads", "gloo"};
    for (size_t i = 0; i < sizeof overs / sizeof *overs; i++) {
        char *output;
        gs_test_shell(&output,
                      "export TMPDIR=%s; timeout -s INT 0.5 %s/gradsum schemes -n 2 --over %s; ls $TMPDIR",
                      gs_test_folder(), GS_BUILD_DIR, overs[i]);
        assert_string_equal(output, "");
    }
}

/* Each launch is paused for longer than its timeout while its ranks wait for each other, and ends with the weights of
 * an undisturbed run. */
TEST(a_pause_is_no_time_out) {
    char *output, *at, one[65], other[65];
    gs_test_shell(
        &output,
        "cd %s; G=%s/gradsum T='train --model softmax --threads 1 --steps 60 --exact --timeout 4'\n"
        "paused() {\n"
        "mkdir $1; cd $1; shift; $G $* --jitter 0:30ms >out 2>&1 & p=$!\n" AWAIT_STEPS
        "kill -TSTP $p; for i in $(seq 1200); do n=0\n"
        "for q in $p $(cat /proc/$p/task/$p/children); do grep -q ') T ' /proc/$q/stat || n=1; done\n"
        "[ $n = 1 ] || break; sleep 0.05; done\n"
        "sleep 5; kill -CONT $p; wait $p; echo ran $n $? $(tail -n 3 out); }\n"
        "(paused shm launch -n 2 --transport shm -- $T)& (paused threads $T --devices cpu,cpu)&\n"
        "(paused gloo launch -n 4 --transport gloo -- $T)&\n"
        "(paused elastic launch --elastic 1:2 -n 2 -- $T)& wait; echo ran 0 0 $($G $T | tail -n 1)",
        gs_test_folder(), GS_BUILD_DIR);
    at = output;
    for (int i = 0; i < 5; i++, at++) {
        if (!(at = strstr(at, "ran 0 0 "))) fail_msg("%d of 5 finished: %s", i, output);
        gs_test_hash_of(at, i == 0 ? one : other);
        if (i > 0) assert_string_equal(one, other);
    }
}

static void ask_to_stop(void *context, int epoch, uint64_t done, uint64_t of, const gs_score *score) {
    (void)context, (void)epoch, (void)done, (void)of, (void)score;
    gs_stop_requested = SIGTERM;
}

/* The request to stop arrives after the last step, just before the test. If the workers need each other for the test,
 * it is completed. */
TEST(a_test_is_stopped) {
    static const gs_observer observer = {.step = ask_to_stop};
    for (int zero = 0; zero <= 3; zero += 3) {
        gs_settings s = gs_test_options("--model softmax --devices cpu,cpu,cpu --steps 1");
        gs_result r;
        s.zero = zero;
        assert_ok(gs_train(&s, &observer, &r));
        gs_stop_requested = 0;
        assert_int_equal(r.interrupted, zero == 0);
        assert_int_equal(r.tested_epoch, zero == 0 ? 0 : 1);
        assert_int_equal(r.steps, 1);
        gs_result_free(&r);
    }
}
