/* The launcher: what it refuses, what it hands on, and that it leaves nothing behind, neither processes
 * nor files. */
#include "tests/program.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void wrong_usage(void **state) {
    (void)state;
    gs_test_program_prints(2, "-n N is wanted", "launch -- train");
    gs_test_program_prints(2, "'0' is not a whole number from 1 to 256", "launch -n 0 -- train");
    gs_test_program_prints(2, "'-3' is not a whole number", "launch -n -3 -- train");
    gs_test_program_prints(2, "'257' is not a whole number", "launch -n 257 -- train");
    gs_test_program_prints(2, "'two' is not a whole number", "launch -n two -- train");
    gs_test_program_prints(2, "'2x' is not a whole number", "launch -n 2x -- train");
    gs_test_program_prints(2, "how many processes", "launch -n -- train");
    gs_test_program_prints(2, "no command after '--'", "launch -n 2");
    gs_test_program_prints(2, "no command after '--'", "launch -n 2 --");
    gs_test_program_prints(2, "'--' must stand before the command", "launch -n 2 train");
    gs_test_program_prints(2, "there is no option --workers", "launch --workers 2 -- train");
    gs_test_program_prints(2, "--timeout: '0' is not", "launch -n 2 --timeout 0 -- train");
    gs_test_program_prints(2, "--timeout: 'nan' is not", "launch -n 2 --timeout=nan -- train");
    gs_test_program_prints(0, "example:", "launch --help");
}

static int count(const char *text, const char *part) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) n++;
    return n;
}

static int entries(const char *folder) {
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    while (readdir(d)) n++;
    closedir(d);
    return n - 2; /* . and .. */
}

static void statuses_are_handed_on(void **state) {
    (void)state;
    char *output;
    assert_int_equal(gs_test_program(&output, "launch -n3 -- --version"), 0);
    assert_int_equal(count(output, "gradsum " GRADSUM_VERSION), 3);
    free(output);
    /* all of them say that the usage is wrong, and so does the launcher */
    assert_int_equal(gs_test_program(&output, "launch -n 2 -- launch -n 0 -- x"), 2);
    assert_int_equal(count(output, "'0' is not a whole number"), 2);
    free(output);
    gs_test_program_prints(1, "gradsum launch: rank ", "launch -n 2 -- train --data /no/such/folder");
    gs_test_program_prints(1, "failed with exit status 1", "launch -n 2 -- train --data /no/such/folder");
}

/* Each rank is told who it is, and has a cache for PoCL of its own. */
static void the_folder_of_a_launch_is_removed(void **state) {
    (void)state;
    const char *folder = gs_test_folder();
    char tmp[400], cache[400], path[500], *output;
    snprintf(tmp, sizeof tmp, "%s/tmp", folder);
    snprintf(cache, sizeof cache, "%s/cache", folder);
    assert_int_equal(mkdir(tmp, 0700), 0);
    assert_int_equal(gs_test_shell(&output, "TMPDIR=%s XDG_CACHE_HOME=%s %s/gradsum launch -n 2 -- --version",
                                   tmp, cache, GS_BUILD_DIR),
                     0);
    free(output);
    assert_int_equal(entries(tmp), 0);
    snprintf(path, sizeof path, "%s/gradsum", cache);
    assert_int_equal(entries(path), 2);
    snprintf(path, sizeof path, "%s/gradsum/pocl-rank-1", cache);
    assert_int_equal(access(path, W_OK), 0);

    assert_int_equal(
        gs_test_shell(&output, "TMPDIR=/no/such/folder %s/gradsum launch -n 2 -- --version", GS_BUILD_DIR),
        1);
    assert_non_null(strstr(output, "cannot make a folder in /no/such/folder"));
    free(output);
    /* no place for a cache anywhere: it goes where the rest goes, and leaves with it */
    assert_int_equal(
        gs_test_shell(&output,
                      "unset POCL_CACHE_DIR XDG_CACHE_HOME; HOME=/dev/null TMPDIR=%s %s/gradsum launch -n 2 "
                      "-- --version",
                      tmp, GS_BUILD_DIR),
        0);
    free(output);
    assert_int_equal(entries(tmp), 0);
}

/* ---- a launch that is watched from here ---- */

typedef struct watched {
    pid_t launcher, rank[2];
    char folder[400], log[500];
} watched;

/* The variable's value in the environment of another process; false if it is not there. */
static bool variable_of(pid_t pid, const char *name, char *value, size_t size) {
    static char text[1 << 17];
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    FILE *f = fopen(path, "r");
    if (!f) return false;
    size_t length = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[length] = 0;
    for (const char *at = text; at < text + length; at += strlen(at) + 1) {
        if (strncmp(at, name, strlen(name)) != 0 || at[strlen(name)] != '=') continue;
        snprintf(value, size, "%s", at + strlen(name) + 1);
        return true;
    }
    return false;
}

/* Find the launcher's children and put each in its rank's place. */
static void find_ranks(watched *w) {
    DIR *proc = opendir("/proc");
    assert_non_null(proc);
    for (const struct dirent *e; (e = readdir(proc));) {
        char path[300], number[16];
        int pid, parent;
        snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
        FILE *f = fopen(path, "r");
        if (!f) continue;
        bool is_child = fscanf(f, "%d (%*[^)]) %*c %d", &pid, &parent) == 2 && parent == w->launcher;
        fclose(f);
        if (!is_child || !variable_of(pid, "GRADSUM_RANK", number, sizeof number)) continue;
        if (strcmp(number, "0") == 0) w->rank[0] = pid;
        if (strcmp(number, "1") == 0) w->rank[1] = pid;
    }
    closedir(proc);
}

/* Is there such a process, and is it more than what waits to be reaped? */
static bool lives(pid_t pid) {
    char path[64], mark = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (!f) return false;
    bool read = fscanf(f, "%*d (%*[^)]) %c", &mark) == 1;
    fclose(f);
    return read && mark != 'Z' && mark != 'X';
}

/* Two ranks that train until they are ended; returns when both run. `wait`: until they are past the
 * meeting too. */
static void start(watched *w, bool wait) {
    memset(w, 0, sizeof *w);
    snprintf(w->folder, sizeof w->folder, "%s", gs_test_folder());
    snprintf(w->log, sizeof w->log, "%s/log", gs_test_folder());
    w->launcher = fork();
    if (w->launcher == 0) {
        int log = open(w->log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (log < 0 || dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0) _exit(99);
        setenv("TMPDIR", w->folder, 1);
        execl(GS_BUILD_DIR "/gradsum", "gradsum", "launch", "-n", "2", "--", "train", "--model", "softmax",
              "--threads", "1", "--batch", "12", "--epochs", "1000000", (char *)NULL);
        _exit(99);
    }
    assert_true(w->launcher > 0);
    char meet[400] = "";
    for (int i = 0; i < 3000 && !(w->rank[0] && w->rank[1]); i++) {
        usleep(10000);
        find_ranks(w);
    }
    assert_true(w->rank[0] > 0 && w->rank[1] > 0);
    assert_true(variable_of(w->rank[0], "GRADSUM_RENDEZVOUS", meet, sizeof meet));
    assert_int_equal(strncmp(meet, w->folder, strlen(w->folder)), 0);
    for (int i = 0; wait && i < 3000 && access(meet, F_OK) == 0; i++) usleep(10000);
}

/* The launcher's exit status; the log holds `part` in its last line; no process and no file is left. */
static void assert_ended(const watched *w, int wanted, const char *part) {
    int status = 0;
    pid_t ended = 0;
    for (int i = 0; i < 6000 && (ended = waitpid(w->launcher, &status, WNOHANG)) == 0; i++) usleep(10000);
    if (ended == 0) kill(w->launcher, SIGKILL);
    assert_int_equal(ended, w->launcher);
    char text[4096] = "";
    FILE *f = fopen(w->log, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != wanted) fail_msg("wait status %d: %s", status, text);
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == '\n') text[--length] = 0;
    const char *last = strrchr(text, '\n') ? strrchr(text, '\n') + 1 : text;
    if (!strstr(last, part)) fail_msg("wanted '%s' in the last line of: %s", part, text);
    for (int r = 0; r < 2; r++) assert_false(lives(w->rank[r]));
    assert_int_equal(entries(w->folder), 0);
}

static void a_killed_rank_ends_all(void **state) {
    (void)state;
    watched w;
    start(&w, true);
    kill(w.rank[1], SIGKILL);
    assert_ended(&w, 1, "gradsum launch: rank 1 was killed by signal 9 (Killed); ");
}

/* Nothing that it would do by itself ends the other one: it is stopped, as by a debugger. */
static void a_rank_that_hangs_is_killed(void **state) {
    (void)state;
    watched w;
    start(&w, true);
    kill(w.rank[0], SIGSTOP);
    kill(w.rank[1], SIGKILL);
    assert_ended(&w, 1, "gradsum launch: rank 1 was killed by signal 9 (Killed); ended the other 1");
}

static void signals_are_passed_on(void **state) {
    (void)state;
    static const int numbers[] = {SIGINT, SIGTERM};
    for (int i = 0; i < 2; i++) {
        watched w;
        char wanted[64];
        start(&w, true);
        kill(w.launcher, numbers[i]);
        snprintf(wanted, sizeof wanted, "gradsum launch: stopped by signal %d", numbers[i]);
        assert_ended(&w, 1, wanted);
    }
}

static void a_second_signal_kills(void **state) {
    (void)state;
    watched w;
    start(&w, true);
    kill(w.rank[0], SIGSTOP);
    kill(w.rank[1], SIGSTOP);
    kill(w.launcher, SIGINT);
    sleep(1);
    kill(w.launcher, SIGINT);
    assert_ended(&w, 1, "gradsum launch: stopped by signal 2");
}

/* The launcher itself is killed: its processes do not live on, and leave nothing. */
static void ranks_die_with_the_launcher(void **state) {
    (void)state;
    watched w;
    start(&w, true);
    kill(w.launcher, SIGKILL);
    waitpid(w.launcher, NULL, 0);
    for (int r = 0; r < 2; r++) {
        for (int i = 0; i < 3000 && lives(w.rank[r]); i++) usleep(10000);
        assert_false(lives(w.rank[r]));
    }
    assert_int_equal(entries(w.folder), 0);
}

GS_TESTS(launch, cmocka_unit_test(wrong_usage), cmocka_unit_test(statuses_are_handed_on),
         cmocka_unit_test(the_folder_of_a_launch_is_removed), cmocka_unit_test(a_killed_rank_ends_all),
         cmocka_unit_test(a_rank_that_hangs_is_killed), cmocka_unit_test(signals_are_passed_on),
         cmocka_unit_test(a_second_signal_kills), cmocka_unit_test(ranks_die_with_the_launcher))
