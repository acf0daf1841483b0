/* The launcher: what it rejects, what it passes on, and that it leaves no processes or files behind. */
#include "cli/launch/shared.h"
#include "tests/support/disturbed.h"
#include "tests/support/files.h"
#include "tests/support/launched.h"
#include "tests/support/program.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(wrong_usage) {
    assert_prints(2, "-n N is required", "launch -- train");
    assert_prints(2, "'0' is not a whole number from 1 to 256", "launch -n 0 -- train");
    assert_prints(2, "'-3' is not a whole number", "launch -n -3 -- train");
    assert_prints(2, "'257' is not a whole number", "launch -n 257 -- train");
    assert_prints(2, "'two' is not a whole number", "launch -n two -- train");
    assert_prints(2, "'2x' is not a whole number", "launch -n 2x -- train");
    assert_prints(2, "-n needs a value: N", "launch -n -- train");
    assert_prints(2, "a command is required after '--'", "launch -n 2");
    assert_prints(2, "a command is required after '--'", "launch -n 2 --");
    assert_prints(2, "put '--' before the command", "launch -n 2 train");
    assert_prints(2, "unknown option --workers", "launch --workers 2 -- train");
    assert_prints(2, "--timeout: '0' is not", "launch -n 2 --timeout 0 -- train");
    assert_prints(2, "--timeout: 'nan' is not", "launch -n 2 --timeout=nan -- train");
    assert_prints(2, "unknown command 'trian'; did you mean 'train'?", "launch -n 2 -- trian");
    assert_prints(2, "unknown command 'x'; launch can start: train, eval", "launch -n 2 -- x");
    assert_prints(2, "--secret-file x: no secret is needed on one machine without --meet",
                  "launch -n 2 --secret-file x -- train");
    assert_prints(2, "--secret-file x: no secret is needed in a folder",
                  "launch -n 2 --meet file:/no/such --secret-file x -- train");
    assert_prints(0, "example:", "launch --help");
}

/* Each command gets one message that says what to use instead; no process is started. */
TEST(commands_whose_processes_would_not_meet_are_refused) {
    static const char *const names[] = {
        "devices", "model", "predict", "compare", "profile",  "sweep",  "report", "step",     "collectives",
        "schemes", "grade", "lesson",  "launch",  "generate", "memory", "layout", "simulate", "doctor"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char wanted[120], *output;
        snprintf(wanted, sizeof wanted,
                 "gradsum launch: '%s' is for one process, so launch cannot start it; use: gradsum %s",
                 names[i], names[i]);
        int status = gs_test_program(&output, "launch -n 2 -- %s --help", names[i]);
        if (status != 2 || strstr(output, wanted) != output || strstr(output, "usage:"))
            fail_msg("exit status %d, wanted 2 and '%s': %s", status, wanted, output);
    }
}

TEST(statuses_are_handed_on) {
    char *output = gs_test_output(0, "launch -n3 -- --version");
    assert_int_equal(gs_test_count(output, "gradsum " GRADSUM_VERSION), 3);
    /* one message says that the usage is wrong and that all ranks report it */
    output = gs_test_output(2, "launch -n 2 -- train --steps x");
    assert_int_equal(gs_test_count(output, "gradsum train: --steps"), 1);
    assert_int_equal(gs_test_count(output, "gradsum launch: all 2 processes failed with this error\n"), 1);
    assert_prints(1, "gradsum launch: rank ", "launch -n 2 -- train --data /no/such/folder");
    assert_prints(1, "failed with exit status 1", "launch -n 2 -- train --data /no/such/folder");
    output = gs_test_shell_output(2,
                                  "GRADSUM_FAULT=usage:rank=2,operation=12 %s/gradsum launch -n 3 -- train "
                                  "--model softmax --threads 1 --steps 12",
                                  GS_BUILD_DIR); /* the other ranks only lost this one */
    assert_has(output, "gradsum launch: rank 2 failed with exit status 2; ");
}

TEST(the_cause_is_a_reason_of_its_own) {
    static const gs_status codes[] = {GS_E_INTERRUPTED, GS_E_PEER, GS_E_PEER, GS_E_FILE, GS_E_FILE};
    static const int wanted[] = {-1, 0, 1, 1, 3, 3};
    gs_shared *s;
    assert_ok(gs_shared_create(false, &s));
    for (int n = 0; n <= 5; n++) {
        const gs_launch_report *cause = gs_shared_cause(s);
        assert_int_equal(cause ? cause->slot : -1, wanted[n]);
        if (n == 5) break;
        s->report[n] = (gs_launch_report){.slot = n, .code = codes[n]};
        atomic_store(&s->reports, n + 1);
    }
    gs_shared_free(s);
}

/* Ranks that are stopped because of another's failure print nothing. */
TEST(the_stopped_are_silent) {
    const char *folder = gs_test_folder();
    char *output = gs_test_output(1, "launch -n 3 -- train --model softmax --log %s/no/log", folder);
    assert_int_equal(gs_test_count(output, "gradsum train: "), 1);
    assert_has(output, "cannot create the folder", "gradsum launch: rank 0 failed with exit status 1");
}

/* The signal arrives while one rank waits in the folder and the other has not yet reached the folder. */
TEST(stopped_before_all_have_met) {
    disturbed d;
    setenv("GRADSUM_FAULT", "delay:rank=1,operation=0,seconds=1", 1);
    gs_test_disturbed_start(&d, "-n 2 -- train --model softmax --threads 1");
    unsetenv("GRADSUM_FAULT");
    gs_test_disturbed_wait(d.err, "delay at operation 0");
    usleep(300000);
    kill(d.launcher, SIGINT);
    gs_test_disturbed_end(&d, 128 + SIGINT);
    assert_null(strstr(d.said, "rendezvous folder"));
}

/* Each rank receives its rank number and its own cache for PoCL. */
TEST(the_folder_of_a_launch_is_removed) {
    const char *folder = gs_test_folder();
    const char *tmp = gs_test_format("%s/tmp", folder);
    const char *cache = gs_test_format("%s/cache", folder);
    assert_int_equal(mkdir(tmp, 0700), 0);
    char *output = gs_test_shell_output(0, "TMPDIR=%s XDG_CACHE_HOME=%s %s/gradsum launch -n 2 -- --version",
                                        tmp, cache, GS_BUILD_DIR);
    assert_int_equal(entries(tmp), 0);
    const char *path = gs_test_format("%s/gradsum", cache);
    assert_int_equal(entries(path), 2);
    path = gs_test_format("%s/gradsum/pocl-rank-1", cache);
    assert_int_equal(access(path, W_OK), 0);

    output =
        gs_test_shell_output(1, "TMPDIR=/no/such/folder %s/gradsum launch -n 2 -- --version", GS_BUILD_DIR);
    assert_has(output, "cannot make a folder in /no/such/folder");
    /* even if there is no folder for a cache, none is made in the rendezvous folder */
    static const char *const homes[] = {"HOME=/dev/null", "-u HOME", "HOME=/proc"};
    for (size_t i = 0; i < sizeof homes / sizeof *homes; i++) {
        output = gs_test_shell_output(0,
                                      "unset POCL_CACHE_DIR XDG_CACHE_HOME; TMPDIR=%s env %s %s/gradsum "
                                      "launch -n 2 -- train --model softmax --steps 1 --devices cpu",
                                      tmp, homes[i], GS_BUILD_DIR);
        assert_int_equal(entries(tmp), 0);
    }
}

/* ---- a launch that this process watches ---- */

typedef struct watched {
    disturbed d;
    pid_t rank[2];
} watched;

static void start(watched *w, const char *options) {
    memset(w->rank, 0, sizeof w->rank);
    gs_test_disturbed_start(&w->d, options);
    for (int i = 0; i < 30000 && !(w->rank[0] && w->rank[1]); i++, usleep(10000))
        for (int r = 0; r < 2; r++)
            if (!w->rank[r]) w->rank[r] = gs_test_rank_of(w->d.launcher, r);
    assert_true(w->rank[0] > 0 && w->rank[1] > 0);
}

/* Starts two ranks that train until they are stopped; returns once they have met. */
static void start_training(watched *w) {
    char meet[400] = "";
    start(w, "-n 2 -- train --model softmax --threads 1 --batch 12 --epochs 1000000");
    assert_true(gs_test_variable_of(w->rank[0], "GRADSUM_RENDEZVOUS", meet, sizeof meet));
    assert_int_equal(strncmp(meet, w->d.tmp, strlen(w->d.tmp)), 0);
    for (int i = 0; i < 30000 && access(meet, F_OK) == 0; i++) usleep(10000);
}

/* Checks the launcher's exit status, that its last line contains `part`, and that no process or file is left. */
static const char *ended_wrongly(const watched *w, int wanted, const char *part) {
    const int status = gs_test_launcher_end(w->d.launcher);
    char *text = gs_test_text(w->d.err, NULL);
    for (int r = 0; r < 2; r++) assert_false(gs_test_lives(w->rank[r]));
    assert_int_equal(entries(w->d.tmp), 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != wanted)
        return gs_test_wrong("wait status %d: %s", status, text);
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == '\n') text[--length] = 0;
    const char *last = strrchr(text, '\n') ? strrchr(text, '\n') + 1 : text;
    return strstr(last, part) ? NULL : gs_test_wrong("wanted '%s' in the last line of: %s", part, text);
}

static void assert_ended(const watched *w, int wanted, const char *part) {
    const char *wrong = ended_wrongly(w, wanted, part);
    if (wrong) fail_msg("%s", wrong);
}

TEST(a_killed_rank_ends_all) {
    watched w;
    start_training(&w);
    kill(w.rank[1], SIGKILL);
    assert_ended(&w, 1, "gradsum launch: rank 1 was killed by signal 9 (Killed); ");
}

/* A rank that is stopped, as in a debugger, does nothing that would end the other one. */
TEST(a_rank_that_hangs_is_killed) {
    watched w;
    start_training(&w);
    kill(w.rank[0], SIGSTOP);
    kill(w.rank[1], SIGKILL);
    assert_ended(&w, 1, "gradsum launch: rank 1 was killed by signal 9 (Killed); ended the other 1");
}

/* The last line names the stopped process, not one that waited for it. */
static const char *another_is_named_last(double timeout, void *context) {
    const int i = *(int *)context;
    static const char *const transports[] = {"shm", "gloo"};
    watched w;
    const char *text = gs_test_format("%g", timeout);
    setenv("GRADSUM_TIMEOUT", text, 1);
    setenv("GRADSUM_TRANSPORT", transports[i], 1);
    start_training(&w);
    unsetenv("GRADSUM_TIMEOUT");
    unsetenv("GRADSUM_TRANSPORT");
    kill(w.rank[i], SIGSTOP);
    text = gs_test_format("gradsum launch: rank %d hangs: process %d is stopped; ", i, (int)w.rank[i]);
    return ended_wrongly(&w, 1, text);
}

TEST(a_stopped_rank_is_named_last) {
    for (int i = 0; i < 2; i++) gs_test_patiently(4, another_is_named_last, &i);
}

/* Makes a full pipe: a process that writes into it blocks. */
static void full_pipe(int ends[2]) {
    static const char bytes[4096];
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    while (write(ends[1], bytes, sizeof bytes) > 0) continue;
    assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0);
}

/* Two independent ranks wait until their output is read. One is stopped; the other continues and exits with 0. The
 * launch gets the timeout `timeout`, and the command `own`. */
static void check_stopped_at_its_end(const char *timeout, const char *own) {
    static char bytes[4096];
    int ends[2];
    watched w;
    full_pipe(ends);
    start(&w, gs_test_format("-n 2 --timeout %s -- --version --timeout %s >/proc/%d/fd/%d", timeout, own,
                             (int)getpid(), ends[1]));
    kill(w.rank[0], SIGSTOP);
    for (int i = 0; i < 30000 && gs_test_lives(w.rank[1]); i++, usleep(10000))
        while (read(ends[0], bytes, sizeof bytes) > 0) continue;
    assert_ended(&w, 1,
                 gs_test_format("gradsum launch: rank 0 hangs: process %d is stopped", (int)w.rank[0]));
    close(ends[0]);
    close(ends[1]);
}

TEST(a_rank_stopped_at_its_end_is_ended) {
    check_stopped_at_its_end("0.2", "none");
    check_stopped_at_its_end("3000", "0.2");
}

TEST(signals_are_passed_on) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        watched w;
        start_training(&w);
        kill(w.d.launcher, numbers[i]);
        const char *wanted = gs_test_format("gradsum launch: stopped by signal %d", numbers[i]);
        assert_ended(&w, 128 + numbers[i], wanted);
    }
}

/* At the timeout the other rank ends by itself, and then the launch does not wait any longer for the stopped one. */
static const char *stopped_one_lives(double timeout, void *context) {
    (void)context;
    watched w;
    const char *text = gs_test_format("%g", timeout);
    setenv("GRADSUM_TIMEOUT", text, 1); /* not too short: on a busy machine one rank may start late */
    start_training(&w);
    unsetenv("GRADSUM_TIMEOUT");
    kill(w.d.launcher, SIGSTOP); /* so that it forwards the signal only after rank 0 has stopped */
    kill(w.d.launcher, SIGTERM);
    kill(w.rank[0], SIGSTOP);
    kill(w.d.launcher, SIGCONT);
    text = gs_test_format("stopped by signal 15 (Terminated); rank 0 hangs: process %d is stopped",
                          (int)w.rank[0]);
    return ended_wrongly(&w, 128 + SIGTERM, text);
}

TEST(one_that_stays_stopped_is_killed) {
    gs_test_patiently(3, stopped_one_lives, NULL);
}

TEST(a_second_signal_kills) {
    watched w;
    start_training(&w);
    kill(w.rank[0], SIGSTOP);
    kill(w.rank[1], SIGSTOP);
    kill(w.d.launcher, SIGINT);
    while (gs_test_signal_waits(w.d.launcher, SIGINT)) usleep(1000); /* otherwise both signals would merge */
    kill(w.d.launcher, SIGINT);
    assert_ended(&w, 128 + SIGINT, "gradsum launch: stopped by signal 2");
}

/* If the launcher itself is killed, its processes end and leave nothing behind. */
TEST(ranks_die_with_the_launcher) {
    watched w;
    start_training(&w);
    kill(w.d.launcher, SIGKILL);
    waitpid(w.d.launcher, NULL, 0);
    for (int r = 0; r < 2; r++) {
        for (int i = 0; i < 30000 && gs_test_lives(w.rank[r]); i++) usleep(10000);
        assert_false(gs_test_lives(w.rank[r]));
    }
    assert_int_equal(entries(w.d.tmp), 0);
}
