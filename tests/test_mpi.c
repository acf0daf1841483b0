/* The transport over MPI: this program, started again by mpirun, runs the checks of the other transports. */
#include "tests/program.h"
#include "tests/ranks.h"

#include <math.h>
#include <signal.h>
#include <unistd.h>

#include "sync/call.h"

#ifdef GRADSUM_MPI
#include "sync/mpi_state.h"
#endif

/* ---- a process of mpirun: the environment says what it does ----
 *
 * GS_TEST_MPI     the job
 * GS_TEST_MPI_LOCAL   workers of each process, a digit each: "13"
 * GS_TEST_FOLDER  where they wait for each other, without MPI */

static const char *environment(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value ? value : otherwise;
}

typedef struct job {
    gs_rendezvous r;
    gs_test_layout layout;
    int local, first;
    gs_test_outcome outcome[GS_TEST_RANKS];
} job;

static gs_status run(job *j, double timeout, bool checked, gs_test_body body, void *context) {
    gs_comm *processes;
    GS_TRY(gs_comm_processes_create(&j->r, &processes));
    processes->timeout = timeout;
    return gs_test_run_process(processes, j->local, timeout, checked, body, context, j->outcome, &j->first);
}

static gs_status run_checks(job *j, const gs_test_check *check, int *right) {
    for (; check->name; check++) {
        for (int checked = 0; checked < 2; checked++) {
            GS_TRY(gs_context(run(j, 60, checked, check->body, &j->layout), "%s", check->name));
            for (int i = j->first; i < j->first + j->local; i++)
                if (j->outcome[i].status != GS_OK)
                    return gs_fail(j->outcome[i].status, "%s: %s", check->name, j->outcome[i].message);
            ++*right;
        }
    }
    return GS_OK;
}

/* All checks of the other transports. "blocks": with so small ones that arrays and messages go in many. */
static gs_status job_checks(job *j) {
    int right = 0;
#ifdef GRADSUM_MPI
    if (strcmp(getenv("GS_TEST_MPI"), "blocks") == 0) gs_mpi_most = 5000;
#endif
    GS_TRY(run_checks(j, gs_test_collective_checks, &right));
    GS_TRY(run_checks(j, gs_test_comm_checks, &right));
    if (j->r.rank == 0) printf("%d checks are right\n", right);
    return GS_OK;
}

static const char *place_of(int rank) {
    static _Thread_local char path[500];
    snprintf(path, sizeof path, "%s/rank-%d", getenv("GS_TEST_FOLDER"), rank);
    return path;
}

static void say_done(int rank) {
    FILE *f = fopen(place_of(rank), "w");
    if (!f) gs_bug("cannot write %s", place_of(rank));
    fclose(f);
}

static void wait_until_done(int rank) {
    for (int i = 0; i < 3000 && access(place_of(rank), F_OK) != 0; i++) usleep(10000);
}

/* What a rank does when it is not the last one: it fails, and then at once again with the same message. The
 * reader of a gather or a reduce may be needed by none, so that its failure is only seen by what comes next. */
static gs_status fails_twice(gs_comm *c, gs_operation operation) {
    static _Thread_local float in[100 * GS_TEST_RANKS], out[100 * GS_TEST_RANKS];
    char first[1024];
    gs_status status = gs_call_run(c, &(gs_call){operation, 100, GS_F32, GS_SUM, c->size - 1}, in, out);
    if (status == GS_OK && operation != GS_ALL_REDUCE) status = c->ops->barrier(c);
    snprintf(first, sizeof first, "%s", gs_message());
    RANK_CHECK(status != GS_OK, "%s did not fail", gs_operation_name(operation));
    RANK_CHECK(c->ops->barrier(c) == status && strcmp(gs_message(), first) == 0, "then '%s', before '%s'",
               gs_message(), first);
    return gs_fail(status, "%s", first);
}

static gs_status abort_body(gs_comm *c, void *context) {
    const gs_operation *operation = context;
    if (c->rank < c->size - 1) return fails_twice(c, *operation);
    usleep(100000);
    c->ops->abort(c, "the disk is full");
    return c->ops->barrier(c);
}

/* The last rank does not come before the others have given up. */
static gs_status late_body(gs_comm *c, void *context) {
    const gs_operation *operation = context;
    if (c->rank == c->size - 1) {
        wait_until_done(0);
        return c->ops->barrier(c);
    }
    gs_status status = fails_twice(c, *operation);
    say_done(c->rank);
    return status;
}

static gs_status length_body(gs_comm *c, void *context) {
    (void)context;
    char data[200] = {0};
    if (c->rank == 1) return c->ops->recv(c, data, 200, 0);
    GS_TRY(c->ops->send(c, data, 100, 1));
    return c->ops->barrier(c);
}

static gs_status killed_body(gs_comm *c, void *context) {
    (void)context;
    float x[100] = {0};
    for (int i = 0;; i++) {
        if (i == 100 && c->rank == 1) raise(SIGKILL);
        GS_TRY(c->ops->all_reduce(c, x, 100, GS_F32, GS_SUM));
    }
}

/* A job that must fail: each rank says how. None ends before all have said it, since mpirun ends the others. */
static gs_status job_fails(job *j, gs_test_body body, double timeout) {
    gs_operation operation = (gs_operation)atoi(environment("GS_TEST_OPERATION", "0"));
    GS_TRY(run(j, timeout, false, body, &operation));
    for (int i = j->first; i < j->first + j->local; i++) {
        char line[1200];
        int length = snprintf(line, sizeof line, "rank %d says: %s: %s\n", i,
                              gs_status_name(j->outcome[i].status), j->outcome[i].message);
        if (write(STDOUT_FILENO, line, (size_t)length) != length) abort();
    }
    say_done(100 + j->r.rank);
    for (int p = 0; p < j->r.size; p++) wait_until_done(100 + p);
    usleep(100000); /* mpirun reads what was printed */
    return gs_fail(GS_E_PEER, "as it should be");
}

static gs_status do_job(const char *name) {
    job j = {.layout = {"mpi", 1, {1}}};
    const char *local = environment("GS_TEST_MPI_LOCAL", "1111");
    GS_TRY(gs_rendezvous_from_environment(&j.r));
    j.local = local[j.r.rank] - '0';
    if (strcmp(name, "abort") == 0) return job_fails(&j, abort_body, 60);
    if (strcmp(name, "late") == 0) return job_fails(&j, late_body, 0.3);
    if (strcmp(name, "length") == 0) return job_fails(&j, length_body, 60);
    if (strcmp(name, "killed") == 0) return job_fails(&j, killed_body, 3);
    return job_checks(&j);
}

__attribute__((constructor)) static void maybe_be_a_process(void) {
    const char *name = getenv("GS_TEST_MPI");
    if (!name) return;
    gs_status status = do_job(name);
    if (status != GS_OK) printf("%s: %s\n", gs_status_name(status), gs_message());
    exit(status == GS_OK ? 0 : 1);
}

/* ---- the tests ---- */

/* Why MPI cannot be tested here; NULL: it can. */
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
    print_message("skipped: %s\n", reason);
    skip();
}

/* mpirun, also as root and on a machine with few cores. */
#define MPIRUN                                                                                               \
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe --bind-to none "

static int run_job(char **output, const char *name, int processes, const char *local) {
    return gs_test_shell(
        output, "GS_TEST_FOLDER=%s GS_TEST_MPI=%s GS_TEST_MPI_LOCAL=%s " MPIRUN "-n %d %s/gradsum-test",
        gs_test_folder(), name, local, processes, GS_BUILD_DIR);
}

static void check_job(const char *name, int processes, const char *local) {
    char *output;
    int status = run_job(&output, name, processes, local);
    if (status != 0 || !strstr(output, "14 checks are right"))
        fail_msg("%s, %d processes with %s workers: exit %d: %s", name, processes, local, status, output);
    free(output);
}

static void every_check_of_other_transports_holds(void **state) {
    (void)state;
    need_mpi();
    check_job("checks", 2, "11");
    check_job("checks", 3, "111");
    check_job("checks", 4, "1111");
}

static void processes_of_several_threads(void **state) {
    (void)state;
    need_mpi();
    check_job("checks", 2, "22");
    check_job("checks", 3, "312");
}

static void long_arrays_go_in_blocks(void **state) {
    (void)state;
    need_mpi();
    check_job("blocks", 3, "111");
    check_job("blocks", 2, "12");
}

/* The job prints `wanted` so many times, and mpirun's exit status is 1. */
static void fail_job(const char *name, int processes, const char *local, gs_operation operation,
                     const char *wanted, int times) {
    char *output, text[16];
    snprintf(text, sizeof text, "%d", (int)operation);
    setenv("GS_TEST_OPERATION", text, 1);
    int status = run_job(&output, name, processes, local), found = 0;
    for (const char *at = output; (at = strstr(at, wanted)); at += strlen(wanted)) found++;
    if (status != 1 || found != times)
        fail_msg("%s, %s: exit %d, '%s' %d times, wanted %d: %s", name, gs_operation_name(operation), status,
                 wanted, found, times, output);
    free(output);
    unsetenv("GS_TEST_OPERATION");
}

static void an_abort_reaches_everyone(void **state) {
    (void)state;
    need_mpi();
    static const gs_operation some[] = {GS_RECV, GS_BROADCAST, GS_ALL_REDUCE, GS_REDUCE_SCATTER, GS_GATHER};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        fail_job("abort", 3, "111", some[i], "not answer in time: rank 2: the disk is full", 3);
    fail_job("abort", 2, "22", GS_ALL_REDUCE, "not answer in time: rank 3: the disk is full", 4);
}

static void a_late_rank_is_named(void **state) {
    (void)state;
    need_mpi();
    fail_job("late", 2, "11", GS_ALL_REDUCE,
             ": rank 0: all_reduce of 100 f32: no answer within 0.3 s from rank 1", 2);
    fail_job("late", 2, "11", GS_RECV,
             ": rank 0: recv of 400 bytes from rank 1: no answer within 0.3 s from rank 1", 2);
    fail_job("late", 3, "111", GS_ALL_REDUCE,
             "all_reduce of 100 f32: no answer within 0.3 s from one of ranks ", 3);
}

static void a_message_of_another_length_is_an_error(void **state) {
    (void)state;
    need_mpi();
    fail_job("length", 2, "11", GS_SEND,
             "rank 1: recv of 200 bytes from rank 0: the message that came is shorter", 2);
}

/* mpirun ends all when a process is killed. */
static void nothing_hangs_when_a_rank_is_killed(void **state) {
    (void)state;
    need_mpi();
    char *output;
    int status = run_job(&output, "killed", 3, "111");
    if (status != 128 + SIGKILL || !strstr(output, "on signal 9")) fail_msg("exit %d: %s", status, output);
    free(output);
}

/* ---- the program ---- */

static void mpirun_trains_as_one_worker_does(void **state) {
    (void)state;
    need_mpi();
    static const struct {
        int processes;
        const char *devices, *sync;
    } cases[] = {{2, "cpu", "allreduce"}, {3, "cpu", "ring"}, {2, "cpu,cpu", "allreduce"}, {2, "cpu", "ps"}};
    gs_settings s = gs_settings_default();
    gs_result alone;
    s.model = "flatten, linear 24, tanh, linear 10";
    s.batch = 101;
    s.steps = 6;
    s.threads = 1;
    assert_ok(gs_train(&s, NULL, &alone));
    float *weights = malloc(alone.params * sizeof *weights);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[400], *output;
        gs_model *plan;
        snprintf(path, sizeof path, "%s/w.safetensors", gs_test_folder());
        int status =
            gs_test_shell(&output,
                          MPIRUN "-n %d %s/gradsum train --model '%s' --devices %s --sync %s --batch 101 "
                                 "--steps 6 --threads 1 --save %s",
                          cases[i].processes, GS_BUILD_DIR, s.model, cases[i].devices, cases[i].sync, path);
        if (status != 0) fail_msg("exit %d: %s", status, output);
        free(output);
        assert_ok(gs_model_plan(s.model, (gs_shape){1, 28, 28}, &plan));
        assert_ok(gs_safetensors_load(path, plan, weights));
        gs_model_free(plan);
        for (size_t k = 0; k < alone.params; k++) assert_near(weights[k], alone.weights[k], 2e-6, 0);
    }
    free(weights);
    gs_result_free(&alone);
}

/* Two processes that are not started alike: mpirun ends with status `wanted`, and nobody waits for the other. */
static void two_differ(int wanted, const char *message, const char *second) {
    char *output;
    int status =
        gs_test_shell(&output,
                      MPIRUN "-n 1 %s/gradsum train --model 'flatten, linear 10' --steps 3 --timeout 90 : "
                             "-n 1 %s/gradsum %s",
                      GS_BUILD_DIR, GS_BUILD_DIR, second);
    if (status != wanted || !strstr(output, message)) fail_msg("%s: exit %d: %s", second, status, output);
    free(output);
}

static void a_failing_process_ends_the_run(void **state) {
    (void)state;
    need_mpi();
    two_differ(2, "rank 1 has another --steps than rank 0 (4, not 3)",
               "train --model 'flatten, linear 10' --steps 4 --timeout 90");
    two_differ(1, "/no/such/folder", "train --data /no/such/folder"); /* before it has begun MPI */
}

/* The table under mpirun: its processes are the ranks. Each has a cache of compiled kernels of its own. */
static void the_table_of_collectives_shows_mpi(void **state) {
    (void)state;
    need_mpi();
    static const struct {
        const char *options, *wanted;
        int status;
    } cases[] = {{"--size 1000", "All 22 cells are right", 0},
                 {"--size 1000 -n 3", "mpi, cl", 0},
                 {"--size 64 --spoil all_to_all", "2 of 22 cells are wrong", 1},
                 {"-n 2", "-n 2, but mpirun has started 3 processes", 2}};
    const char *folder = gs_test_folder();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *output;
        int status = gs_test_shell(
            &output, "unset POCL_CACHE_DIR; XDG_CACHE_HOME=%s " MPIRUN "-n 3 %s/gradsum collectives %s",
            folder, GS_BUILD_DIR, cases[i].options);
        if (status != cases[i].status || !strstr(output, cases[i].wanted))
            fail_msg("%s: exit %d, wanted %d and '%s': %s", cases[i].options, status, cases[i].status,
                     cases[i].wanted, output);
        free(output);
    }
    for (int r = 0; r < 3; r++) {
        char path[500];
        snprintf(path, sizeof path, "%s/gradsum/pocl-rank-%d", folder, r);
        assert_int_equal(access(path, F_OK), 0);
    }
}

/* In every build, also in one without MPI. */
static void mpi_without_mpirun_is_refused(void **state) {
    (void)state;
    gs_comm *c;
    gs_rendezvous r = {.rank = 0, .size = 2, .timeout = 5, .transport = "mpi"};
#ifdef GRADSUM_MPI
    static const char how[] = "mpirun -n 2 gradsum";
#else
    static const char how[] = "libopenmpi-dev";
#endif
    assert_fails(GS_E_USAGE, how, gs_comm_processes_create(&r, &c));
    gs_test_program_prints(2, how, "launch -n 2 --transport mpi -- train --epochs 1");
    r.transport = "carrier pigeon";
    assert_fails(GS_E_USAGE, "there are: auto, shm, gloo, mpi", gs_comm_processes_create(&r, &c));
}

static void mpirun_says_who_this_is(void **state) {
    (void)state;
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

GS_TESTS(mpi, cmocka_unit_test(every_check_of_other_transports_holds),
         cmocka_unit_test(processes_of_several_threads), cmocka_unit_test(long_arrays_go_in_blocks),
         cmocka_unit_test(an_abort_reaches_everyone), cmocka_unit_test(a_late_rank_is_named),
         cmocka_unit_test(a_message_of_another_length_is_an_error),
         cmocka_unit_test(nothing_hangs_when_a_rank_is_killed),
         cmocka_unit_test(mpirun_trains_as_one_worker_does), cmocka_unit_test(a_failing_process_ends_the_run),
         cmocka_unit_test(the_table_of_collectives_shows_mpi),
         cmocka_unit_test(mpi_without_mpirun_is_refused), cmocka_unit_test(mpirun_says_who_this_is))
