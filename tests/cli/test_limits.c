/* The program when its shell limits it (ulimit) or gives it no environment: it ends with a message and an exit status,
 * not with a signal or an endless wait. */
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/program.h"

#include <unistd.h>

/* ---- the size of files ---- */

TEST(small_files_do_not_end_a_run) {
    const char *folder = gs_test_folder();
    assert_shell_prints(0, "test accuracy",
                        "cd %s && %s/gradsum train --model softmax --steps 1 --save w.st && "
                        "ulimit -f 6000 && %s/gradsum eval --load w.st",
                        folder, GS_BUILD_DIR, GS_BUILD_DIR);
}

TEST(a_file_too_large_leaves_the_older_one) {
    const char *folder = gs_test_folder(), *const prefixes[] = {"", "launch -n 2 --"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        assert_shell_prints(1, "cannot write w.st: File too large",
                            "cd %s && printf '\\2\\0\\0\\0\\0\\0\\0\\0{}older\\n' > w.st && ulimit -f 8 && "
                            "%s/gradsum %s train --model softmax --steps 1 --save w.st",
                            folder, GS_BUILD_DIR, prefixes[i]);
        assert_string_equal(
            gs_test_shell_output(0, "cd %s && tail -c 6 w.st && ls -A | tr '\\n' ' '", folder),
            "older\nw.st ");
    }
}

/* ---- address space ---- */

/* The smallest of a few limits, in KiB, with which the program starts: newer versions of OpenBLAS map a buffer when
 * they are loaded. A sanitizer's own maps are larger than any of these. */
static int least_memory(void) {
    static const int limits[] = {150000, 200000, 250000, 300000};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        char *output;
        int status = gs_test_shell(&output, "ulimit -v %d && timeout -k 1 200 %s/gradsum --version",
                                   limits[i], GS_BUILD_DIR);
        if (status == 0) return limits[i];
    }
    skip_because("the program cannot start in 300,000 KiB of address space");
    return 0;
}

static void check_memory(const char *option, int kib, int status, const char *part, const char *arguments) {
    assert_shell_prints(status, part,
                        "unset OPENBLAS_NUM_THREADS; ulimit %s %d && timeout -k 1 200 %s/gradsum %s", option,
                        kib, GS_BUILD_DIR, arguments);
}

TEST(too_little_memory_for_openblas) {
    const int least = least_memory();
    const char *part = gs_test_format("must be free: the limit for this process is %d MiB (ulimit -v)",
                                      (least + 50000) / 1024);
    check_memory("-v", least + 50000, 1, part, "train --model softmax --steps 1 --threads 1");
    check_memory("-v", least + 100000, 1, "must be free: the limit for this process is ",
                 "train --model softmax --steps 1 --devices cpu,cpu --threads 1");
    check_memory("-d", 100000, 1, "must be free: the limit for this process is 97 MiB (ulimit -d)",
                 "train --model softmax --steps 1 --threads 1");
    check_memory("-v", 2000000, 0, "weights",
                 "train --model softmax --steps 1 --devices cpu,cpu --threads 1");
}

/* OpenBLAS starts its own threads when it is loaded; commands that compute nothing work without them. */
TEST(too_little_memory_for_its_threads) {
    check_memory("-v", least_memory(), 0, "linear 10", "model softmax");
}

/* Too little memory for the libraries: either the loader (127) or the program reports it, and neither hangs. */
TEST(too_little_memory_to_begin) {
    least_memory();
    for (int kib = 40000; kib <= 280000; kib += 40000) {
        char *output;
        int status = gs_test_shell(
            &output, "unset OPENBLAS_NUM_THREADS; ulimit -v %d && timeout -k 1 200 %s/gradsum --version", kib,
            GS_BUILD_DIR);
        assert_true(status == 0 || status == 1 || status == 127);
        assert_has(output, status == 0   ? "gradsum 0."
                           : status == 1 ? "must be free: the limit for this process is "
                                         : "error while loading shared libraries");
    }
}

TEST(too_little_memory_for_launched) {
    const char *folder = gs_test_folder();
    assert_shell_prints(1, "gradsum launch: rank ",
                        "unset OPENBLAS_NUM_THREADS; ulimit -v %d && TMPDIR=%s timeout -k 1 200 "
                        "%s/gradsum launch -n 2 -- train --model softmax --steps 1",
                        least_memory(), folder, GS_BUILD_DIR);
    assert_int_equal(entries(folder), 0);
}

/* A program that uses the library without our main(): this test program. */
TEST(too_little_memory_for_the_library) {
    const int least = least_memory();
    if (least > 150000) skip_because("this OpenBLAS maps a buffer when it is loaded");
    assert_shell_prints(1, "must be free: the limit for this process is ",
                        "unset OPENBLAS_NUM_THREADS; ulimit -v %d && timeout -k 1 200 %s/gradsum-test fused",
                        least, GS_BUILD_DIR);
}

/* ---- processes and threads ---- */

/* Root has no such limit, so commands run as another user. Returns NULL if that is impossible here. */
static const char *somebody(void) {
    const char *as = geteuid() == 0 ? "setpriv --reuid 54321 --clear-groups" : "";
    char *output;
    int status = gs_test_shell(&output, "%s prlimit --core=0 %s/gradsum --version", as, GS_BUILD_DIR);
    return status == 0 ? as : NULL;
}

/* Not even one of OpenBLAS's own threads can start. */
TEST(no_room_for_threads) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip_because("with a sanitizer src/cli/options/early.c does nothing");
#endif
    const char *as = somebody();
    if (!as) skip_because("there is no prlimit, or root cannot run the program as another user");
    const char *output = gs_test_shell_output(
        0, "unset OPENBLAS_NUM_THREADS; exec %s prlimit --nproc=1 %s/gradsum model softmax", as,
        GS_BUILD_DIR);
    assert_has(output, "linear 10", gs_cpu_cores() > 1 ? "(ulimit -u 1)" : "");
}

/* The limit allows only some of a launch's processes. Those already started are ended, and none is reported as lost. */
TEST(no_room_for_processes) {
    const char *as = somebody(), *output;
    if (!as) skip_because("there is no prlimit, or root cannot run the program as another user");
    output = gs_test_shell_output(1,
                                  "TMPDIR=/tmp exec %s prlimit --nproc=20 %s/gradsum launch -n 64 --elastic "
                                  "1:64 -- train --model softmax 2>&1",
                                  as, GS_BUILD_DIR);
    assert_has(output, "gradsum launch: cannot start process ");
    if (strstr(output, "the others do not go on")) fail_msg("%s", output);
    /* With several nodes, the other nodes are notified through the rendezvous. */
    output = gs_test_shell_output(
        1,
        "D=$(mktemp -u) && %s prlimit --nproc=2 %s/gradsum launch -n 4 --nodes 2 --node-rank 0 --meet "
        "file:$D -- train --model softmax 2>&1; s=$?; cat $D/absent-*; rm -rf $D; exit $s",
        as, GS_BUILD_DIR);
    assert_has(output, "gradsum launch: cannot start process ", ", on node rank 0 (host ");
}

/* The shell's limit applies only to the main thread's stack; workers' and PoCL's threads set the size of theirs. */
TEST(a_small_stack_is_the_main_threads_alone) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip_because("a sanitizer needs more stack in the main thread");
#endif
    for (int i = 0; i < (gs_test_has_opencl() ? 2 : 1); i++)
        assert_shell_prints(0, "weights", "ulimit -s 128; exec %s/gradsum train --steps 2 --devices %s",
                            GS_BUILD_DIR, i == 0 ? "cpu,cpu" : "cl");
}

/* ---- open files ---- */

TEST(too_few_open_files_leave_no_folder) {
    const char *folder = gs_test_folder();
    for (int files = 4; files <= 8; files++) {
        char *output;
        gs_test_shell(&output,
                      "(ulimit -n %d; TMPDIR=%s timeout -k 1 300 %s/gradsum launch -n 2 -- train --model "
                      "softmax --steps 1) >/dev/null 2>&1; ls -A %s",
                      files, folder, GS_BUILD_DIR, folder);
        if (*output) fail_msg("ulimit -n %d: %s is left behind", files, output);
    }
}

/* ---- the environment ---- */

/* PoCL starts the linker for a kernel that is not in its cache; other platforms need none. */
static void check_without_linker(const char *output, int status) {
    if (status == 0 && strstr(output, "weights")) return;
    assert_int_equal(status, 1);
    assert_has(output, "PoCL needs the linker ld");
}

TEST(opencl_without_a_path_to_the_linker) {
    static const char *const paths[] = {"-u PATH", "PATH=/no/such/folder"};
    gs_test_need_opencl();
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const char *folder = gs_test_folder();
        char *output;
        int status = gs_test_shell(&output,
                                   "POCL_CACHE_DIR=%s GRADSUM_CACHE=off /usr/bin/env %s %s/gradsum train "
                                   "--device cl --model softmax --steps 1",
                                   folder, paths[i], GS_BUILD_DIR);
        check_without_linker(output, status);
    }
}

TEST(opencl_without_a_linker) {
    const char *folder = gs_test_folder();
    char *output;
    gs_test_need_opencl();
    int status =
        gs_test_shell(&output,
                      "unshare -rm sh -c 'mount --bind /dev/null $(realpath $(command -v ld)) || exit 77\n"
                      "POCL_CACHE_DIR=%s GRADSUM_CACHE=off %s/gradsum train --device cl --model softmax'",
                      folder, GS_BUILD_DIR);
    const bool can_hide = status != 77 && !strstr(output, "unshare");
    if (can_hide) check_without_linker(output, status);
    if (!can_hide) skip_because("the linker cannot be hidden here");
}
