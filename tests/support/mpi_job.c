/* What each process of a job in test_mpi.c does, after mpirun has started this program again:
 *
 * GS_TEST_MPI        the job
 * GS_TEST_MPI_LOCAL  the workers of each process, one digit each: "13"
 * GS_TEST_FOLDER     a folder in which they wait for each other without MPI */
#include "tests/support/ranks.h"

#include <unistd.h>

#ifdef GRADSUM_MPI
#include "comm/transports.h"
#endif

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

/* Runs all checks of the other transports. */
static gs_status job_checks(job *j) {
    int right = 0;
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

static void say(int rank, const char *text) {
    FILE *f = fopen(place_of(rank), "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0) gs_bug("cannot write %s", place_of(rank));
}

static void wait_until_done(int rank) {
    for (int i = 0; i < 30000 && access(place_of(rank), F_OK) != 0; i++) usleep(10000);
}

/* Every rank except the last fails, and fails again at once with the same message. In a gather or reduce, possibly no
 * rank waits for the rank that receives, so only the next call notices that rank's failure. */
static gs_status fails_twice(gs_comm *c, gs_operation operation) {
    static _Thread_local float in[100 * GS_TEST_RANKS], out[100 * GS_TEST_RANKS];
    char first[1024];
    gs_status status = gs_call_run(c, &(gs_call){operation, 100, GS_F32, GS_SUM, c->size - 1}, in, out);
    if (status == GS_OK && operation != GS_ALL_REDUCE) status = gs_comm_barrier(c);
    snprintf(first, sizeof first, "%s", gs_message());
    RANK_CHECK(status != GS_OK, "%s did not fail", gs_operation_name(operation));
    RANK_CHECK(gs_comm_barrier(c) == status && strcmp(gs_message(), first) == 0, "then '%s', before '%s'",
               gs_message(), first);
    return gs_fail(status, "%s", first);
}

static gs_status abort_body(gs_comm *c, void *context) {
    const gs_operation *operation = context;
    if (c->rank < c->size - 1) {
        say(c->rank, "begins");
        return fails_twice(c, *operation);
    }
    for (int r = 0; r < c->rank; r++) wait_until_done(r);
    gs_comm_abort(c, "the disk is full");
    return gs_comm_barrier(c);
}

/* The last rank arrives only after the others have given up. */
static gs_status late_body(gs_comm *c, void *context) {
    const gs_operation *operation = context;
    if (c->rank == c->size - 1) {
        wait_until_done(0);
        return gs_comm_barrier(c);
    }
    gs_status status = fails_twice(c, *operation);
    say(c->rank, "has failed");
    return status;
}

static gs_status length_body(gs_comm *c, void *context) {
    (void)context;
    char data[200] = {0};
    if (c->rank == 1) return gs_comm_recv(c, data, 200, 0);
    GS_TRY(gs_comm_send(c, data, 100, 1));
    return gs_comm_barrier(c);
}

static gs_status killed_body(gs_comm *c, void *context) {
    (void)context;
    float x[100] = {0};
    for (int i = 0;; i++) {
        if (i == 100 && c->rank == 1) raise(SIGKILL);
        GS_TRY(gs_comm_all_reduce(c, x, 100, GS_F32, GS_SUM));
    }
}

/* A job that must fail. Each rank writes to a file how it failed, because mpirun might not read all of the output. No
 * rank ends before all have written, because mpirun would then end the others. */
static gs_status job_fails(job *j, gs_test_body body, double timeout) {
    gs_operation operation = (gs_operation)atoi(environment("GS_TEST_OPERATION", "0"));
    GS_TRY(run(j, timeout, false, body, &operation));
    for (int i = j->first; i < j->first + j->local; i++) {
        char line[1200];
        snprintf(line, sizeof line, "rank %d says: %s: %s\n", i, gs_status_name(j->outcome[i].status),
                 j->outcome[i].message);
        say(200 + i, line);
    }
    say(100 + j->r.rank, "done");
    for (int p = 0; p < j->r.size; p++) wait_until_done(100 + p);
    return gs_fail(GS_E_PEER, "as it should be");
}

static gs_status do_job(const char *name) {
    job j = {.layout = {"mpi", 1, {1}}};
    const char *local = environment("GS_TEST_MPI_LOCAL", "1111");
    GS_TRY(gs_rendezvous_from_environment(&j.r));
    j.local = local[j.r.rank] - '0';
    if (strcmp(name, "abort") == 0) return job_fails(&j, abort_body, 60);
    if (strcmp(name, "late") == 0)
        return job_fails(&j, late_body, atof(environment("GS_TEST_TIMEOUT", "0.3")));
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
