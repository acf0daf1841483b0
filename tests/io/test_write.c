/* Files are written completely or not at all: permissions of replaced files, links, leftovers of killed writers. */
#include "tests/support/files.h"
#include "tests/support/training.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A new file gets its mode from the umask; a replaced one keeps its mode and owner. */
TEST(rights_are_kept) {
    const char *path = in_folder(gs_test_folder(), "a");
    const mode_t modes[] = {0600, 0644, 0664, 0640};
    struct stat s;
    write_text(path, "x");
    if (geteuid() == 0) assert_int_equal(chown(path, 65534, 65534), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        mode_t before = umask(i % 2 ? 077 : 022);
        write_text(path, "y");
        umask(before);
        assert_int_equal(stat(path, &s), 0);
        assert_int_equal(s.st_mode & 07777, modes[i]);
        assert_int_equal(s.st_uid, geteuid() == 0 ? 65534 : geteuid());
        assert_int_equal(s.st_gid, geteuid() == 0 ? 65534 : getegid());
    }
}

/* A link is kept, and its target changes. A dangling link is refused. */
TEST(links) {
    const char *folder = gs_test_folder();
    struct stat s;
    gs_file_writer w;
    assert_int_equal(symlink("real", in_folder(folder, "first")), 0);
    assert_fails(GS_E_FILE, "/first: it is a link to a file that is not there",
                 gs_file_writer_open(in_folder(folder, "first"), &w));
    write_text(in_folder(folder, "real"), "old");
    write_text(in_folder(folder, "first"), "new");
    check_holds(in_folder(folder, "real"), "new");
    assert_int_equal(lstat(in_folder(folder, "first"), &s), 0);
    assert_true(S_ISLNK(s.st_mode));
    assert_int_equal(entries(folder), 2);
}

/* Starts a process that is writing `path`; it is killed, or keeps running. */
static pid_t writer_of(const char *path, bool killed) {
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        gs_file_writer w;
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* also ends it if the test fails */
        if (gs_file_writer_open(path, &w) != GS_OK || write(ends[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
    if (killed) {
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    return pid;
}

static void make_empty(const char *path) {
    FILE *f = gs_test_open(path, "wx");
    assert_int_equal(fclose(f), 0);
}

/* The next writer removes the files that killed writers left, even if a running process now has the same id. It keeps
 * files of running writers, files of other hosts, and files with similar names. */
TEST(leftovers_are_removed) {
    const char *folder = gs_test_folder();
    const char *path = gs_test_format("%s/a", folder);
    gs_file_writer w;
    assert_ok(gs_file_writer_open(path, &w));
    const char *end = gs_test_format("%s", strrchr(w.temporary, '-'));
    gs_file_writer_discard(&w);
    assert_int_equal(entries(folder), 0);

    writer_of(path, true);
    assert_int_equal(entries(folder), 1);
    pid_t living = writer_of(path, false); /* this writer removes the killed one's leftovers */
    assert_int_equal(entries(folder), 1);
    const char *name = gs_test_format("a.%ld-7%s", (long)getpid(), end);
    make_empty(in_folder(folder, name));
    name = gs_test_format("b.12-7%s", end);
    make_empty(in_folder(folder, name));
    name = gs_test_format("a.b.12-7%s", end);
    make_empty(in_folder(folder, name));
    static const char *const others[] = {"a.12-7-xxxxxxxx.tmp", "a.12-7.tmp", "a.-7.tmp", "a.tmp",
                                         "a.12-7-00000000.tmp.old"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) make_empty(in_folder(folder, others[i]));
    assert_int_equal(entries(folder), 9);
    write_text(path, "whole");
    assert_int_equal(entries(folder), 9); /* `path` is new, and one leftover was removed */
    name = gs_test_format("a.%ld-7%s", (long)getpid(), end);
    assert_int_not_equal(access(in_folder(folder, name), F_OK), 0);
    name = gs_test_format("a.%ld-0%s", (long)living, end);
    assert_int_equal(access(in_folder(folder, name), F_OK), 0);
    kill(living, SIGKILL);
    assert_int_equal(waitpid(living, NULL, 0), living);
    write_text(path, "whole");
    assert_int_equal(entries(folder), 8);
}

/* With ulimit -f the program reports the limit, and leaves no file. */
TEST(a_limit_on_files_is_told) {
    const char *folder = gs_test_folder();
    assert_shell_prints(1, "/w: File too large",
                        "ulimit -f 4; %s/gradsum train --model softmax --steps 1 --threads 1 --save %s/w",
                        GS_BUILD_DIR, folder);
    assert_int_equal(entries(folder), 0);
}

/* A target that a file cannot replace is reported before any computation. This includes the file that receives the
 * program's output, because replacing it would lose that output. */
TEST(what_cannot_be_written) {
    const char *pipe = in_folder(gs_test_folder(), "pipe"), *text = in_folder(gs_test_folder(), "text");
    char *output;
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_prints(1, "it is not a regular file, but a pipe (FIFO)\n", "train --save %s", pipe);
    assert_prints(1, "it is not a regular file, but a terminal or another device\n",
                  "train --save /dev/null");
    assert_prints(1, "/dev/stdout: it is not a regular file, but a pipe (FIFO)\n",
                  "train --save /dev/stdout | cat; exit 1");
    static const char *const commands[] = {"train --save /dev/stdout >%s", "train --save %s >%s",
                                           "train --save %s 2>%s", "step --model softmax -o /dev/stdout >%s"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const char *arguments = gs_test_format(commands[i], text, text);
        output =
            gs_test_shell_output(0, "%s/gradsum %s; echo status $?; cat %s", GS_BUILD_DIR, arguments, text);
        if (!strstr(output, "status 1\n") ||
            !strstr(output, i == 2 ? "standard error already goes" : "standard output already goes"))
            fail_msg("%s: %s", arguments, output);
    }
}

/* If a standard stream is closed, a file opened later gets its number, but no message may be written into that file. */
TEST(closed_streams) {
    const char *log = gs_test_format("%s/log", gs_test_folder());
    char *output = gs_test_output(1, "train --model softmax --threads 1 --steps 3 --log %s >&-", log);
    assert_has(output, "standard output could not be written completely: Bad file descriptor");
    output = gs_test_shell_output(1, "cd %s && cat metrics.jsonl run.json trace.json | grep -c ^model", log);
    assert_string_equal(output, "0\n");
}

TEST(a_folder_that_cannot_be_made) {
    static const char *const commands[] = {"collectives -n 2", "schemes -n 2 --over shm",
                                           "launch -n 2 -- train"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char *output;
        gs_test_shell(&output, "TMPDIR=/no/such/folder %s/gradsum %s", GS_BUILD_DIR, commands[i]);
        assert_has(output, "(TMPDIR says where): No such file or directory");
    }
}

/* If a --digest record is removed while it is being written, the failure is reported and training continues. */
TEST(a_removed_record_is_told) {
    static const char *const starts[] = {"", "launch -n 2 --"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        char *output;
        gs_test_shell(&output,
                      "cd %s && exec 2>&1; %s/gradsum %s train --model softmax --threads 1 --epochs 1000 "
                      "--steps 200 --jitter 0:25ms --digest d &\n"
                      "until [ -s d/rank-0.digest ]; do sleep 0.02; done; rm -r d\n"
                      "wait $!; echo status $?",
                      gs_test_folder(), GS_BUILD_DIR, starts[i]);
        assert_has(output, "status 1", ".digest was removed while the run wrote it");
    }
}

/* When the disk is full, a rank's record stops with a message; training continues, and the weights are saved. The limit
 * leaves room for the weights, and for the records of a few of the 40 steps. */
TEST(a_record_without_room_stops) {
    static const char RUN[] = "train --model softmax --threads 1 --steps 40 --devices cpu,cpu";
    const char *folder = gs_test_folder();
    char *output;
    const char *sha256 = gs_test_sha256("%s", RUN);
    const char *wanted = gs_test_format("weights  sha256 %s", sha256);
    const int status =
        gs_test_shell(&output, "ulimit -f 100; exec 2>&1; %s/gradsum %s --digest %s/d --save %s/w",
                      GS_BUILD_DIR, RUN, folder, folder);
    const char *first = strstr(output, "rank-0.digest: File too large; this record stops before step ");
    if (status != 1 || !first || !strstr(output, "rank-1.digest: File too large; ") ||
        !strstr(output, wanted))
        fail_msg("exit status %d, wanted %s: %s", status, wanted, output);
    assert_prints(0, "the same, to the bit", "explain %s/d %s/d", folder, folder);
    assert_int_equal(access(in_folder(folder, "w"), F_OK), 0);
}
