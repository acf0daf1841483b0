/* The sandbox of the hand-ins: anything that escapes it is a bug. The commands below are what an attacker would try
 * first. tests/lessons/labs.sh runs whole hand-ins that try to cheat.
 */
#include "tests/support/files.h"

#include "lessons/contain.h"
#include "lessons/sandbox.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the sandbox ---- */

static lab_sandbox room;
static char folder[4096], headers[4096];
static const lab_limits LIMITS = {5, (size_t)256 << 20, 1 << 20};

/* Makes a sandbox with a new folder, or says why this machine has none. */
static bool make_room(void) {
    if (*folder) return true;
    snprintf(folder, sizeof folder, "%s/hand-in", gs_test_folder());
    snprintf(headers, sizeof headers, "%s/headers", gs_test_folder());
    mkdir(folder, 0777);
    mkdir(headers, 0777);
    if (lab_sandbox_create(&room, folder, headers) == GS_OK) return true;
    *folder = '\0';
    return false;
}
#define need_room()                                                                                          \
    do {                                                                                                     \
        if (!make_room()) {                                                                                  \
            if (getenv("GRADSUM_SANDBOX")) fail_msg("%s", gs_message());                                     \
            skip_because("%s", gs_message());                                                                \
        }                                                                                                    \
    } while (0)

/* Runs a shell script inside or outside. Free with lab_job_free. */
static lab_job run_script(const char *script, bool inside, bool writable) {
    const char *words[LAB_SANDBOX_WORDS + 4];
    int count = inside ? lab_sandbox_words(&room, writable, NULL, words) : 0;
    words[count++] = "bash";
    words[count++] = "-c";
    words[count++] = script;
    words[count] = NULL;
    lab_job job = {.command = (char *const *)words, .limits = LIMITS};
    assert_ok(lab_contain(&job, 1, 1));
    return job;
}

static void assert_script(const char *script, bool inside, bool succeeds, const char *prints) {
    lab_job job = run_script(script, inside, false);
    bool success = job.end == LAB_EXITED && job.code == 0;
    if (success != succeeds || !strstr(job.output, prints))
        fail_msg("%s, %s: end %d, code %d, printed: %s", script, inside ? "inside" : "outside", (int)job.end,
                 job.code, job.output);
    lab_job_free(&job);
}

TEST(programs_run) {
    need_room();
    assert_script("echo here; pwd", true, true, "here\n/tree");
    assert_script("cd /work", true, true, "");
}

/* Inside, even a file that anybody may read and write is invisible. */
TEST(other_files_are_not_there) {
    need_room();
    const char *path = gs_test_format("%s/neighbour", gs_test_folder());
    write_times(path, "9 of 10", 1);
    chmod(path, 0666);
    const char *script = gs_test_format("cat %s", path);
    assert_script(script, false, true, "9 of 10");
    assert_script(script, true, false, "No such file");
    assert_script("ls -A /home /root /etc/passwd /var", true, false, "No such file");
}

TEST(nothing_can_be_changed) {
    need_room();
    assert_script("touch /usr/bin/x", true, false, "");
    assert_script("touch /tree/x", true, false, "");
    assert_script("touch /work/x", true, false, "");
    assert_script("rm -rf --no-preserve-root /usr/bin/env", true, false, "");
    assert_script("echo x >/tmp/x && cat /tmp/x", true, true, "x");
    lab_job job = run_script("echo x >/work/x", true, true); /* the folder for compiling */
    assert_int_equal(job.code, 0);
    lab_job_free(&job);
}

TEST(temporary_files_have_a_limit) {
    need_room();
    assert_script("for i in 1 2 3 4; do head -c 30000000 /dev/zero >/tmp/$i || exit 1; done", true, false,
                  "No space left");
}

/* Also runs as if the grader were not root. If root grades, root owns these folders, and they are closed anyway. */
TEST(no_other_folder_takes_files) {
    need_room();
    const unsigned user = room.user;
    for (int ordinary = 0; ordinary < 2; ordinary++) {
        room.user = ordinary ? 0 : user;
        assert_script("echo x >/tmp/x && cat /tmp/x", true, true, "x");
        assert_script(
            "for d in / /etc /dev /dev/shm /sys /usr /tree /work; do echo x >$d/x && exit 0; done; exit 1",
            true, false, "");
        assert_script("mkdir /dev/shm/x || mkdir /x", true, false, "");
        assert_script("echo x >/dev/null && head -c 3 /dev/zero | wc -c", true, true, "3");
    }
    room.user = user;
}

TEST(processes_have_a_limit) {
    need_room();
    const unsigned user = room.user;
    assert_script("ulimit -u", true, true, user ? "256\n" : "4096\n");
    room.user = 0;
    assert_script("ulimit -u", true, true, "4096\n");
    room.user = user;
    assert_script("ulimit -Hn", true, true, "64\n"); /* open files, per process */
}

/* Inside there are only bubblewrap's process, the shell, and tools like ps; outside, at least this test. */
TEST(other_processes_are_not_there) {
    need_room();
    const char *script = gs_test_format("kill -9 %d %d", (int)getpid(), (int)getppid());
    assert_script(script, true, false, "No such process");
    assert_script("kill -9 -1; exit 1", true, false, "");
    assert_script("n=$(ls /proc | grep -c '^[0-9]'); test $n -lt 8 || echo $n", true, true, "");
    assert_script("ls /proc/self/fd | wc -l", true, true, "4\n"); /* 0, 1, 2 and the one that ls opens */
}

TEST(the_user_is_nobody) {
    need_room();
    assert_script("test $(id -u) -ge 60000 || id", true, true, "");
    assert_script("chown 0 /tmp", true, false, "");
    assert_script("mount -t tmpfs x /tmp", true, false, "");
}

TEST(the_environment_is_empty) {
    need_room();
    setenv("GRADSUM_TEST_SECRET", "tell nobody", 1);
    assert_script("echo $GRADSUM_TEST_SECRET", false, true, "tell nobody");
    assert_script("! cat /proc/*/environ 2>/dev/null | grep -q 'tell nobody' && ! env | grep SECRET", true,
                  true, "");
    unsetenv("GRADSUM_TEST_SECRET");
}

TEST(there_is_no_network) {
    need_room();
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(listener, 4), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &size), 0);
    const char *script = gs_test_format("echo hello >/dev/tcp/127.0.0.1/%d", ntohs(a.sin_port));
    assert_script(script, false, true, "");
    assert_script(script, true, false, "");
    close(listener);
}

/* All leftover processes end, even one that has left its session and its parent and holds the output open. */
TEST(children_end_with_it) {
    need_room();
    lab_job job = run_script(
        "setsid sleep 1000 & setsid bash -c 'trap \"\" TERM HUP; sleep 1000' & echo done", true, false);
    assert_int_equal(job.end, LAB_EXITED);
    assert_int_equal(job.code, 0);
    assert_true(job.seconds < 5); /* below the limit: it was not killed for exceeding it */
    lab_job_free(&job);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no process is left as our child */
    assert_int_equal(errno, ECHILD);
}

/* Starts three programs that hold 120 MB each until their pipes close. */
#define HOLD_MEMORY                                                                                          \
    "for i in 1 2 3; do (head -c 120000000 /dev/zero; sleep 60) | tail -n 1 >/dev/null & done; wait"

TEST(memory_of_children_counts) {
    need_room();
    lab_job job = run_script(HOLD_MEMORY, true, false);
    assert_int_equal(job.end, LAB_TOO_LARGE);
    lab_job_free(&job);
}

/* Processes that are nested deeper than the grader looks are rejected, even if they use little memory. */
TEST(memory_of_deep_children_counts) {
    need_room();
    lab_job job = run_script("deep() { if test $1 = 0; then " HOLD_MEMORY
                             "; else (deep $(($1 - 1)); true); fi; }; deep 24; true",
                             true, false);
    assert_int_equal(job.end, LAB_TOO_LARGE);
    lab_job_free(&job);
    job = run_script("deep() { if test $1 = 0; then sleep 60; else (deep $(($1 - 1)); true); fi; }; deep 80",
                     true, false);
    assert_int_equal(job.end, LAB_TOO_LARGE);
    lab_job_free(&job);
}

/* The list of the children of a process's first thread does not contain those of its other threads. */
TEST(memory_of_a_threads_children_counts) {
    need_room();
    lab_job job = run_script(
        "cat >/tmp/x.c <<'END'\n"
        "#include <pthread.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
        "static void *run(void *n) {\n"
        "    for (int i = 0; i < 4; i++)\n"
        "        if (fork() == 0) { memset(malloc(100000000), 1, 100000000); sleep(60); _exit(0); }\n"
        "    sleep(60);\n"
        "    return n;\n"
        "}\n"
        "int main(void) { pthread_t t; pthread_create(&t, 0, run, 0); pthread_join(t, 0); }\n"
        "END\n"
        "cc -o /tmp/x /tmp/x.c -lpthread && /tmp/x",
        true, false);
    assert_int_equal(job.end, LAB_TOO_LARGE);
    lab_job_free(&job);
}

TEST(time_of_children_counts) {
    need_room();
    lab_job job = run_script("(while :; do :; done) & (while :; do :; done) & wait", true, false);
    assert_int_equal(job.end, LAB_TOO_LONG);
    lab_job_free(&job);
}

/* Tests a limit of 10 s. */
TEST(time_is_cpu_time_or_sleep) {
    static const struct {
        lab_time time;
        bool too_long;
    } cases[] = {
        {{9, 0, 9}, false},    {{11, 0, 11}, true},   {{0.1, 9, 9}, false},
        {{0.1, 11, 11}, true}, {{0.1, 0, 99}, false}, /* other processes kept the machine busy */
        {{9, 5, 99}, false},   {{9, 0, 101}, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (lab_is_too_long(&(lab_limits){.seconds = 10}, &cases[i].time) != cases[i].too_long)
            fail_msg("case %zu", i);
}

static lab_job run_for(const char *script, double seconds) {
    const char *const words[] = {"bash", "-c", script, NULL};
    lab_job job = {.command = (char *const *)words, .limits = LIMITS};
    job.limits.seconds = seconds;
    assert_ok(lab_contain(&job, 1, 1));
    lab_job_free(&job);
    return job;
}

TEST(sleep_ends) {
    lab_job job = run_for("sleep 1000", 0.5);
    assert_int_equal(job.end, LAB_TOO_LONG);
    assert_true(job.slept);
    job = run_for("while :; do :; done", 0.5);
    assert_int_equal(job.end, LAB_TOO_LONG);
    assert_false(job.slept);
}

/* A program may sleep for more than three times its limit in total if it works in between. */
TEST(naps_do_not_add_up) {
    lab_job job = run_for("for i in 1 2 3 4 5; do sleep 1; for k in {1..20000}; do :; done; done", 1.5);
    assert_int_equal(job.end, LAB_EXITED);
    assert_int_equal(job.code, 0);
}

TEST(without_bubblewrap_it_says_so) {
    char *path = strdup(getenv("PATH"));
    lab_sandbox none;
    setenv("PATH", "/nowhere", 1);
    gs_status status = lab_sandbox_create(&none, gs_test_folder(), gs_test_folder());
    setenv("PATH", path, 1);
    free(path);
    assert_int_equal(status, GS_E_DEVICE);
    assert_non_null(strstr(gs_message(), "no sandbox here (bubblewrap)"));
}
