/* The MPI transport: mpirun starts this program again, which runs the same checks as for the other transports. */
#include "tests/support/ranks.h"
#include "tests/support/training.h"

#include <unistd.h>

/* Why MPI cannot be tested here; NULL if it can. */
static const char *reason_to_skip(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return "Open MPI is not built for the sanitizers, which find races and leaks of its own in it";
#elif !defined(GRADSUM_MPI)
    return "this build has no MPI (Debian: libopenmpi-dev)";
#else
    return gs_test_shell(NULL, "command -v mpirun") == 0 ? NULL : "there is no mpirun (Debian: openmpi-bin)";
#endif
}

static void need_mpi(void) {
    const char *reason = reason_to_skip();
    if (!reason) return;
    skip_because("%s", reason);
}

/* An mpirun command that also works as root and on a machine with few cores. */
#define MPIRUN                                                                                               \
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe --bind-to none "

static int run_job(char **output, const char *name, int processes, const char *local) {
    return gs_test_shell(output,
                         "F=%s; GS_TEST_FOLDER=$F GS_TEST_MPI=%s GS_TEST_MPI_LOCAL=%s " MPIRUN
                         "-n %d %s/gradsum-test; s=$?; cat $F/rank-2?? 2>/dev/null; exit $s",
                         gs_test_folder(), name, local, processes, GS_BUILD_DIR);
}

static void check_job(const char *name, int processes, const char *local) {
    char *output;
    int status = run_job(&output, name, processes, local);
    if (status != 0 || !strstr(output, "12 checks are right"))
        fail_msg("%s, %d processes with %s workers: exit %d: %s", name, processes, local, status, output);
}

TEST(every_check_of_other_transports_holds) {
    need_mpi();
    check_job("checks", 2, "11");
    check_job("checks", 4, "1111");
}

TEST(processes_of_several_threads) {
    need_mpi();
    check_job("checks", 3, "312");
}

/* The job must print `wanted` this many times, and mpirun must exit with 1. Returns what is wrong, or NULL. */
static const char *job_fails_otherwise(const char *name, int processes, const char *local,
                                       gs_operation operation, const char *wanted, int times) {
    char *output, text[16];
    snprintf(text, sizeof text, "%d", (int)operation);
    setenv("GS_TEST_OPERATION", text, 1);
    const int status = run_job(&output, name, processes, local), found = gs_test_count(output, wanted);
    const char *wrong = NULL;
    if (status != 1 || found != times)
        wrong = gs_test_wrong("%s, %s: exit %d, '%s' %d times, wanted %d: %s", name,
                              gs_operation_name(operation), status, wanted, found, times, output);
    unsetenv("GS_TEST_OPERATION");
    return wrong;
}

static void fail_job(const char *name, int processes, const char *local, gs_operation operation,
                     const char *wanted, int times) {
    const char *wrong = job_fails_otherwise(name, processes, local, operation, wanted, times);
    if (wrong) fail_msg("%s", wrong);
}

TEST(an_abort_reaches_everyone) {
    need_mpi();
    static const gs_operation some[] = {GS_RECV, GS_BROADCAST, GS_ALL_REDUCE, GS_REDUCE_SCATTER, GS_GATHER};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        fail_job("abort", 3, "111", some[i], "not answer in time: rank 2: the disk is full", 3);
    fail_job("abort", 2, "22", GS_ALL_REDUCE, "not answer in time: rank 3: the disk is full", 4);
}

static const char *late_rank_is_not_named(double timeout, void *context) {
    (void)context;
    const char *text = gs_test_format("%g", timeout);
    setenv("GS_TEST_TIMEOUT", text, 1);
    const char *all =
        gs_test_format(": rank 0: all_reduce of 100 f32: no answer within %s s from rank 1", text);
    const char *one =
        gs_test_format(": rank 0: recv of 400 bytes from rank 1: no answer within %s s from rank 1", text);
    const char *some =
        gs_test_format("all_reduce of 100 f32: no answer within %s s from one of ranks ", text);
    const char *wrong = job_fails_otherwise("late", 2, "11", GS_ALL_REDUCE, all, 2);
    if (!wrong) wrong = job_fails_otherwise("late", 2, "11", GS_RECV, one, 2);
    if (!wrong) wrong = job_fails_otherwise("late", 3, "111", GS_ALL_REDUCE, some, 3);
    unsetenv("GS_TEST_TIMEOUT");
    return wrong;
}

TEST(a_late_rank_is_named) {
    need_mpi();
    gs_test_patiently(0.3, late_rank_is_not_named, NULL);
}

TEST(a_message_of_another_length_is_an_error) {
    need_mpi();
    fail_job("length", 2, "11", GS_SEND,
             "rank 1: recv of 200 bytes from rank 0: the message received is shorter", 2);
}

/* mpirun ends all processes when one is killed. */
TEST(nothing_hangs_when_a_rank_is_killed) {
    need_mpi();
    char *output;
    int status = run_job(&output, "killed", 3, "111");
    for (char *c = output; *c; c++) /* Open MPI 5 wraps its lines */
        if (*c == '\n') *c = ' ';
    if (status != 128 + SIGKILL || !strstr(output, "on signal 9")) fail_msg("exit %d: %s", status, output);
}

/* ---- the program ---- */

static void mpirun_trains(const gs_result *alone, const gs_settings *s, int processes, const char *devices,
                          const char *sync) {
    const char *path = gs_test_format("%s/w.safetensors", gs_test_folder());
    gs_test_shell_output(0,
                         MPIRUN
                         "-n %d %s/gradsum train --model '%s' --devices %s --sync %s --batch 101 --steps 6 "
                         "--threads 1 --save %s",
                         processes, GS_BUILD_DIR, s->model, devices, sync, path);
    gs_result r = *alone;
    r.weights = gs_test_malloc(alone->params * sizeof *r.weights);
    assert_ok(gs_safetensors_load(path, gs_test_plan(s->model, (gs_shape){1, 28, 28, 0}), r.weights));
    assert_near(gs_test_difference(alone, &r), 0, 2e-6, 0);
}

/* Trains with all schemes except Gloo's. */
TEST(mpirun_trains_as_one_worker_does) {
    need_mpi();
    gs_settings s = gs_test_options("--model 'flatten, linear 24, tanh, linear 10' --batch 101 --steps 6 "
                                    "--threads 1");
    gs_result alone = gs_test_train(&s);
    for (const gs_sync_scheme *const *scheme = gs_sync_schemes(); *scheme; scheme++)
        if (*scheme != &gs_sync_gloo) mpirun_trains(&alone, &s, 3, "cpu", (*scheme)->name);
    mpirun_trains(&alone, &s, 2, "cpu,cpu", "allreduce");
}

/* Simulated links (--link) work over MPI too. */
TEST(over_links_the_bits_are_the_same) {
    need_mpi();
    const char *run = "train --model softmax --steps 10 --threads 1 --sync ring";
    const char *without =
        gs_test_sha256("train --model softmax --steps 10 --threads 1 --sync ring --devices cpu,cpu,cpu");
    char *output = gs_test_shell_output(0, MPIRUN "-n 3 %s/gradsum %s --link 200us,1GB/s", GS_BUILD_DIR, run);
    assert_has(output, without, "link     200us,1GB/s");
}

/* Starts two processes with different commands: mpirun ends with status `wanted`, and neither process waits for the
 * other. (`mpirun -n 1 true : -n 1 true` is no substitute: even that crashes the mpirun of Open MPI 5.0.7.) */
static void two_differ(int wanted, const char *message, const char *second) {
    assert_shell_prints(
        wanted, message,
        "FIRST=\"train --steps 3 --timeout 90\" SECOND=\"%s\" " MPIRUN
        "-n 2 sh -c 'if [ $OMPI_COMM_WORLD_RANK = 0 ]; then set -- $FIRST; else set -- $SECOND; fi; "
        "exec %s/gradsum \"$@\" --model softmax'",
        second, GS_BUILD_DIR);
}

TEST(a_failing_process_ends_the_run) {
    need_mpi();
    two_differ(2, "rank 1 and rank 0 differ in --steps (4 versus 3)", "train --steps 4 --timeout 90");
    two_differ(1, "/no/such/folder", "train --data /no/such/folder"); /* fails before it starts MPI */
}

/* Under mpirun, the table's ranks are mpirun's processes. Each one uses a separate cache of compiled kernels. */
TEST(the_table_of_collectives_shows_mpi) {
    need_mpi();
    static const struct {
        const char *options, *wanted;
        int status;
    } cases[] = {{"--size 1000", "All 11 cells are right", 0},
                 {"--size 1000 -n 3", "            mpi\n", 0},
                 {"-n 2", "-n 2, but mpirun started 3 processes", 2}};
    const char *folder = gs_test_folder();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_shell_prints(cases[i].status, cases[i].wanted,
                            "unset POCL_CACHE_DIR; XDG_CACHE_HOME=%s " MPIRUN
                            "-n 3 %s/gradsum collectives --seconds 0 %s",
                            folder, GS_BUILD_DIR, cases[i].options);
    for (int r = 0; r < 3; r++) {
        const char *path = gs_test_format("%s/gradsum/pocl-rank-%d", folder, r);
        assert_int_equal(access(path, F_OK), 0);
    }
    assert_shell_prints(1, "1 of 11 cells is wrong",
                        "OCL_ICD_VENDORS=%s " MPIRUN
                        "-n 3 %s/gradsum-test --wrong all_to_all --size 64 --seconds 0",
                        folder, GS_BUILD_DIR);
}

/* The message appears in every build, even in one without MPI. */
TEST(mpi_without_mpirun_is_refused) {
    gs_comm *c;
    gs_rendezvous r = {.rank = 0, .size = 2, .timeout = 5, .transport = "mpi"};
#ifdef GRADSUM_MPI
    static const char how[] = "mpirun -n 2 gradsum";
#else
    static const char how[] = "libopenmpi-dev";
#endif
    assert_fails(GS_E_USAGE, how, gs_comm_processes_create(&r, &c));
    assert_prints(2, how, "launch -n 2 --transport mpi -- train --epochs 1");
    r.transport = "carrier pigeon";
    assert_fails(GS_E_USAGE, "choose one of: auto, shm, gloo, mpi", gs_comm_processes_create(&r, &c));
}

TEST(mpirun_says_who_this_is) {
    gs_rendezvous r;
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    setenv("OMPI_COMM_WORLD_RANK", "3", 1);
    assert_ok(gs_rendezvous_from_environment(&r));
    assert_true(r.size == 4 && r.rank == 3);
    assert_string_equal(r.transport, "mpi");
    setenv("GRADSUM_TRANSPORT", "gloo", 1);
    assert_fails(GS_E_USAGE, "GRADSUM_TRANSPORT is 'gloo'", gs_rendezvous_from_environment(&r));
    setenv("GRADSUM_TRANSPORT", "mpi", 1);
    setenv("OMPI_COMM_WORLD_RANK", "4", 1);
    assert_fails(GS_E_USAGE, "OMPI_COMM_WORLD_RANK is '4'", gs_rendezvous_from_environment(&r));
    unsetenv("GRADSUM_TRANSPORT");
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("OMPI_COMM_WORLD_SIZE");
}
