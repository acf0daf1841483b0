/* Communication: every operation over every transport, and what happens when a rank fails. */
#include "tests/ranks.h"
#include "sync/call.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const gs_test_layout layouts[] = {
    {"1 thread", 0, {1}},
    {"2 threads", 0, {2}},
    {"3 threads", 0, {3}},
    {"4 threads", 0, {4}},
    {"1 process", 1, {1}},
    {"2 processes", 2, {1, 1}},
    {"3 processes", 3, {1, 1, 1}},
    {"4 processes", 4, {1, 1, 1, 1}},
    {"1 process of 3 threads", 1, {3}},
    {"2 processes of 2 threads", 2, {2, 2}},
    {"processes of 1 and 3 threads", 2, {1, 3}},
    {"processes of 3, 1 and 2 threads", 3, {3, 1, 2}},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/* Sizes around nothing, cache lines, blocks, and more than Gloo sends at once; none that 2, 3 or 4 divide
 * evenly. */
static const size_t counts[] = {0, 1, 7, 16, 17, 2049, 300007};
enum { COUNTS = sizeof counts / sizeof *counts };

static float number(int rank, size_t i) {
    uint32_t words[4];
    gs_philox(5, (uint64_t)rank, i, words);
    return (gs_uniform(words[0]) - 0.5f) * (float)(1 << words[1] % 16);
}

/* ---- operations ---- */

static gs_status check_sum(gs_comm *c, size_t count, const float *got, bool in_order) {
    for (size_t i = 0; i < count; i++) {
        float sum = number(0, i);
        double exact = sum, size = fabsf(sum);
        for (int r = 1; r < c->size; r++) {
            float x = number(r, i);
            sum += x;
            exact += x;
            size += fabsf(x);
        }
        if (in_order)
            RANK_CHECK(got[i] == sum, "sum %zu of %zu is %.9g, in the order of ranks it is %.9g", i, count,
                       got[i], sum);
        else
            RANK_CHECK(fabs(got[i] - exact) <= 1e-6 * size, "sum %zu of %zu is %.9g, wanted %.9g", i, count,
                       got[i], exact);
    }
    return GS_OK;
}

/* All ranks have the bits of rank 0, and a second sum gives them again. */
static gs_status sums(gs_comm *c, void *context) {
    const gs_test_layout *layout = context;
    size_t most = counts[COUNTS - 1];
    float *x = gs_test_scratch(most * sizeof *x), *first = gs_test_scratch(most * sizeof *x);
    for (int n = 0; n < COUNTS; n++) {
        size_t count = counts[n], bytes = count * sizeof *x;
        for (int again = 0; again < 2; again++) {
            for (size_t i = 0; i < count; i++) x[i] = number(c->rank, i);
            GS_TRY(c->ops->all_reduce(c, x, count, GS_F32, GS_SUM));
            if (again)
                RANK_CHECK(memcmp(x, first, bytes) == 0, "the second sum of %zu floats has other bits",
                           count);
            memcpy(first, x, bytes);
        }
        GS_TRY(check_sum(c, count, x, layout->processes == 0));
        GS_TRY(c->ops->broadcast(c, x, count, GS_F32, 0));
        RANK_CHECK(memcmp(x, first, bytes) == 0, "the sum of %zu floats has other bits than rank 0's", count);
    }
    return GS_OK;
}

static void sums_are_the_same_on_every_rank(void **state) {
    (void)state;
    for (int i = 0; i < LAYOUTS; i++) gs_test_ranks_ok(&layouts[i], sums, (void *)&layouts[i]);
}

static unsigned char byte(int rank, size_t i) {
    return (unsigned char)(i * 7 + i / 251 + (size_t)rank * 31 + 1);
}

static gs_status moves(gs_comm *c, void *context) {
    (void)context;
    size_t most = counts[COUNTS - 1];
    unsigned char *mine = gs_test_scratch(most), *all = gs_test_scratch(most * (size_t)c->size);
    for (int n = 0; n < COUNTS; n++) {
        size_t bytes = counts[n];
        for (int root = 0; root < c->size; root++) {
            for (size_t i = 0; i < bytes; i++) mine[i] = c->rank == root ? byte(root, i) : 0;
            GS_TRY(c->ops->broadcast(c, mine, bytes, GS_U8, root));
            for (size_t i = 0; i < bytes; i++)
                RANK_CHECK(mine[i] == byte(root, i), "broadcast of %zu bytes from rank %d: byte %zu", bytes,
                           root, i);
        }
        for (int in_place = 0; in_place < 2; in_place++) {
            unsigned char *from = in_place ? all + (size_t)c->rank * bytes : mine;
            memset(all, 0, bytes * (size_t)c->size);
            for (size_t i = 0; i < bytes; i++) from[i] = byte(c->rank, i);
            GS_TRY(c->ops->all_gather(c, from, all, bytes, GS_U8));
            for (int r = 0; r < c->size; r++)
                for (size_t i = 0; i < bytes; i++)
                    RANK_CHECK(all[(size_t)r * bytes + i] == byte(r, i),
                               "all_gather of %zu bytes: byte %zu of rank %d", bytes, i, r);
        }
    }
    return GS_OK;
}

static void broadcast_and_all_gather_move_every_byte(void **state) {
    (void)state;
    for (int i = 0; i < LAYOUTS; i++) gs_test_ranks_ok(&layouts[i], moves, NULL);
}

/* Everyone sends two messages to everyone before anyone receives; they arrive in order, and the sender's
 * memory is its own again at once. */
static gs_status messages(gs_comm *c, void *context) {
    (void)context;
    size_t most = counts[COUNTS - 1];
    unsigned char *data = gs_test_scratch(most);
    for (int n = 0; n < COUNTS; n++) {
        size_t bytes[2] = {counts[n], counts[n] / 2};
        for (int to = 0; to < c->size; to++) {
            for (int k = 0; k < 2 && to != c->rank; k++) {
                for (size_t i = 0; i < bytes[k]; i++) data[i] = byte(c->rank * 8 + to + k, i);
                GS_TRY(c->ops->send(c, data, bytes[k], to));
                memset(data, 0, bytes[k]);
            }
        }
        for (int from = c->size - 1; from >= 0; from--) {
            for (int k = 0; k < 2 && from != c->rank; k++) {
                GS_TRY(c->ops->recv(c, data, bytes[k], from));
                for (size_t i = 0; i < bytes[k]; i++)
                    RANK_CHECK(data[i] == byte(from * 8 + c->rank + k, i),
                               "message %d of %zu bytes from rank %d: byte %zu", k, bytes[k], from, i);
            }
        }
    }
    return GS_OK;
}

static void messages_arrive_in_order(void **state) {
    (void)state;
    for (int i = 0; i < LAYOUTS; i++) gs_test_ranks_ok(&layouts[i], messages, NULL);
}

/* Nobody leaves a barrier before everybody has come to it. */
static gs_status barriers(gs_comm *c, void *context) {
    atomic_int *come = context;
    for (int round = 1; round <= 50; round++) {
        atomic_fetch_add(come, 1);
        GS_TRY(c->ops->barrier(c));
        RANK_CHECK(atomic_load(come) >= round * c->size, "barrier %d was left with %d of %d ranks", round,
                   atomic_load(come) - (round - 1) * c->size, c->size);
    }
    return GS_OK;
}

static void barriers_hold_everyone(void **state) {
    (void)state;
    for (int i = 0; i < LAYOUTS; i++) {
        atomic_int come = 0;
        gs_test_ranks_ok(&layouts[i], barriers, &come);
    }
}

/* ---- failures ---- */

typedef struct failure {
    gs_operation operation; /* what the others wait in */
    int bad;                /* the rank that fails */
    int size;
    atomic_int ended; /* how many of the others have */
} failure;

static gs_status take_part(gs_comm *c, const failure *f) {
    static _Thread_local float in[100 * GS_TEST_RANKS], out[100 * GS_TEST_RANKS];
    return gs_call_run(c, &(gs_call){f->operation, 100, GS_F32, GS_SUM, f->bad}, in, out);
}

/* Fails as the operation does; the next one fails at once with the same message. Who only gives something to
 * the rank that fails may be done before: then it fails in the next one. */
static gs_status wait_and_fail(gs_comm *c, failure *f) {
    gs_status status = take_part(c, f);
    bool gives = f->operation == GS_GATHER || f->operation == GS_REDUCE;
    if (status == GS_OK && gives) status = c->ops->barrier(c);
    char message[1024];
    snprintf(message, sizeof message, "%s", gs_message());
    atomic_fetch_add(&f->ended, 1);
    if (status == GS_OK) return GS_OK;
    RANK_CHECK(c->ops->barrier(c) == status && strcmp(gs_message(), message) == 0,
               "then '%s', and before '%s'", gs_message(), message);
    return gs_fail(status, "%s", message);
}

static void run_failure(const gs_test_layout *layout, gs_operation operation, int bad, double timeout,
                        gs_test_body body, gs_test_outcome *outcome) {
    failure f = {.operation = operation, .bad = bad, .size = gs_test_layout_size(layout)};
    memset(outcome, 0, GS_TEST_RANKS * sizeof *outcome);
    gs_test_run_ranks(layout, timeout, body, &f, outcome);
}

static gs_status one_aborts(gs_comm *c, void *context) {
    failure *f = context;
    if (c->rank != f->bad) return wait_and_fail(c, f);
    c->ops->abort(c, "the disk is full");
    return c->ops->barrier(c);
}

/* Everyone, whatever it waits in, fails with what the rank that failed has said. */
static void abort_reaches_everyone(void **state) {
    (void)state;
    static const gs_test_layout some[] = {{"3 threads", 0, {3}},
                                          {"3 processes", 3, {1, 1, 1}},
                                          {"2 processes of 2 threads", 2, {2, 2}},
                                          {"processes of 1 and 3 threads", 2, {1, 3}}};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        int size = gs_test_layout_size(&some[i]);
        for (int bad = 0; bad < size; bad++) {
            char wanted[80];
            snprintf(wanted, sizeof wanted, "rank %d: the disk is full", bad);
            for (int o = GS_RECV; o <= GS_BARRIER; o++) {
                gs_test_outcome outcome[GS_TEST_RANKS];
                run_failure(&some[i], (gs_operation)o, bad, 60, one_aborts, outcome);
                for (int r = 0; r < size; r++)
                    if (outcome[r].status != GS_E_PEER || strcmp(outcome[r].message, wanted) != 0)
                        fail_msg("%s, rank %d aborts in operation %d, rank %d: %s: '%s'", some[i].name, bad,
                                 o, r, gs_status_name(outcome[r].status), outcome[r].message);
            }
        }
    }
}

/* Does not come until all others have given up. */
static gs_status one_is_late(gs_comm *c, void *context) {
    failure *f = context;
    if (c->rank != f->bad) return wait_and_fail(c, f);
    while (atomic_load(&f->ended) < f->size - 1) usleep(1000);
    return c->ops->barrier(c);
}

static void a_late_rank_is_named(void **state) {
    (void)state;
    static const struct {
        gs_test_layout layout;
        int bad;
        const char *message;
    } cases[] = {
        {{"3 threads", 0, {3}}, 1, "all_reduce of 100 f32: rank 1 did not come within 0.3 s"},
        {{"4 threads", 0, {4}}, 3, "all_reduce of 100 f32: rank 3 did not come within 0.3 s"},
        {{"2 processes", 2, {1, 1}}, 1, "rank 0: all_reduce of 100 f32: no answer within 0.3 s from rank 1"},
        {{"processes of 1 and 3 threads", 2, {1, 3}},
         2,
         "all_reduce of 100 f32: rank 2 did not come within 0.3 s"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gs_test_outcome outcome[GS_TEST_RANKS];
        run_failure(&cases[i].layout, GS_ALL_REDUCE, cases[i].bad, 0.3, one_is_late, outcome);
        int named = 0;
        for (int r = 0; r < gs_test_layout_size(&cases[i].layout); r++) {
            if (outcome[r].status != GS_E_PEER)
                fail_msg("%s, rank %d: %s", cases[i].layout.name, r, gs_status_name(outcome[r].status));
            named += strstr(outcome[r].message, cases[i].message) != NULL;
        }
        if (named == 0)
            fail_msg("%s: nobody says '%s', but '%s'", cases[i].layout.name, cases[i].message,
                     outcome[0].message);
    }
}

static void recv_names_the_silent_rank(void **state) {
    (void)state;
    gs_test_outcome outcome[GS_TEST_RANKS];
    run_failure(&(gs_test_layout){"2 threads", 0, {2}}, GS_RECV, 1, 0.2, one_is_late, outcome);
    assert_string_equal(outcome[0].message, "rank 0: recv of 400 bytes: rank 1 sent nothing within 0.2 s");
    run_failure(&(gs_test_layout){"2 processes", 2, {1, 1}}, GS_RECV, 1, 0.2, one_is_late, outcome);
    assert_string_equal(outcome[0].message,
                        "rank 0: recv of 400 bytes from rank 1: no answer within 0.2 s from rank 1");
}

/* Goes without a word: its comm is freed while the others wait. */
static gs_status one_leaves(gs_comm *c, void *context) {
    failure *f = context;
    return c->rank == f->bad ? GS_OK : wait_and_fail(c, f);
}

static void who_waits_for_a_rank_that_left_fails(void **state) {
    (void)state;
    static const gs_test_layout threads = {"3 threads", 0, {3}};
    gs_test_outcome outcome[GS_TEST_RANKS];
    run_failure(&threads, GS_ALL_REDUCE, 2, 60, one_leaves, outcome);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(outcome[r].status, GS_E_PEER);
        if (!strstr(outcome[r].message, "all_reduce of 100 f32: rank 2 ended without it"))
            fail_msg("rank %d: %s", r, outcome[r].message);
    }
    run_failure(&threads, GS_RECV, 0, 60, one_leaves, outcome);
    if (!strstr(outcome[1].message, "rank 0 ended without sending"))
        fail_msg("rank 1: %s", outcome[1].message);
}

/* ---- ranks that are processes: this program, started again ---- */

/* Sums until it fails; exits with 1 then, and prints the message. GS_TEST_DIES=N: kills itself in round N. */
static gs_status sum_for_ever(void) {
    enum { FLOATS = 300000 };
    const char *dies = getenv("GS_TEST_DIES");
    int last = dies ? atoi(dies) : -1;
    gs_rendezvous r;
    gs_comm *c;
    GS_TRY(gs_rendezvous_from_environment(&r));
    GS_TRY(gs_comm_gloo_create(&r, &c));
    float *x = calloc(FLOATS, sizeof *x);
    gs_status status = x ? GS_OK : GS_E_MEMORY;
    const gs_sync_scheme *scheme;
    gs_sync *sync = NULL;
    if (status == GS_OK) status = gs_sync_find(getenv("GS_TEST_RANK"), &scheme);
    if (status == GS_OK) status = gs_sync_create(scheme, c, FLOATS, &sync);
    for (int round = 0; status == GS_OK; round++) {
        if (round == last) raise(SIGKILL);
        status = gs_sync_run(sync, x, FLOATS);
    }
    gs_sync_free(sync);
    free(x);
    gs_comm_free(c);
    return status;
}

__attribute__((constructor)) static void be_a_rank(void) {
    if (!getenv("GS_TEST_RANK")) return;
    gs_status status = sum_for_ever();
    printf("%s: %s\n", gs_status_name(status), gs_message());
    exit(1);
}

typedef struct rank_process {
    pid_t pid;
    char log[400];
} rank_process;

static void set_number(const char *name, int value) {
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static rank_process start_rank(const char *scheme, int rank, int size, const char *folder, int timeout,
                               int dies) {
    rank_process p;
    snprintf(p.log, sizeof p.log, "%s/log", gs_test_folder());
    setenv("GS_TEST_RANK", scheme, 1);
    setenv("GRADSUM_RENDEZVOUS", folder, 1);
    set_number("GRADSUM_RANK", rank);
    set_number("GRADSUM_WORLD_SIZE", size);
    set_number("GRADSUM_TIMEOUT", timeout);
    if (dies >= 0) set_number("GS_TEST_DIES", dies);
    p.pid = fork();
    if (p.pid == 0) {
        int log = open(p.log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (log >= 0) dup2(log, STDOUT_FILENO);
        execl("/proc/self/exe", "gradsum-test", (char *)NULL);
        _exit(99);
    }
    assert_true(p.pid > 0);
    static const char *const names[] = {"GS_TEST_RANK",       "GS_TEST_DIES",       "GRADSUM_RANK",
                                        "GRADSUM_WORLD_SIZE", "GRADSUM_RENDEZVOUS", "GRADSUM_TIMEOUT"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
    return p;
}

/* Its wait status; it is killed if it has not ended after 100 s. */
static int end_of(const rank_process *p) {
    int status = 0;
    for (int i = 0; i < 10000; i++) {
        if (waitpid(p->pid, &status, WNOHANG) == p->pid) return status;
        usleep(10000);
    }
    kill(p->pid, SIGKILL);
    waitpid(p->pid, &status, 0);
    fail_msg("a rank did not end");
    return status;
}

static void assert_says(const rank_process *p, const char *part) {
    char text[1024] = "";
    FILE *f = fopen(p->log, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    if (!strstr(text, part)) fail_msg("wanted '%s' in: %s", part, text);
}

static void new_folder(char folder[400]) {
    snprintf(folder, 400, "%s/meet", gs_test_folder());
    assert_int_equal(mkdir(folder, 0700), 0);
}

static void a_killed_process_is_named_by_the_others(void **state) {
    (void)state;
    static const char *const schemes[] = {"allreduce", "ps"}; /* the two ways that messages take */
    for (int s = 0; s < 2; s++) {
        char folder[400];
        new_folder(folder);
        rank_process p[4];
        for (int r = 0; r < 4; r++) p[r] = start_rank(schemes[s], r, 4, folder, 60, r == 2 ? 20 : -1);
        for (int r = 0; r < 4; r++) {
            int status = end_of(&p[r]);
            if (r == 2) {
                assert_true(WIFSIGNALED(status));
                continue;
            }
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
            assert_says(&p[r], "another worker was lost");
            assert_says(&p[r], s == 0 ? "all_reduce of 300000 f32" : "of 1200000 bytes");
            assert_says(&p[r], "rank 2 was lost (connection");
        }
        assert_int_not_equal(access(folder, F_OK), 0);
    }
}

/* ---- meeting ---- */

static gs_status meet(int rank, int size, const char *folder, double timeout, const char *address) {
    gs_comm *c = NULL;
    gs_rendezvous r = {rank, size, folder, address, timeout};
    gs_status status = gs_comm_gloo_create(&r, &c);
    if (status == GS_OK) gs_comm_free(c);
    return status;
}

static void write_file(const char *folder, const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void a_rank_that_never_comes_is_named(void **state) {
    (void)state;
    char folder[400];
    new_folder(folder);
    assert_fails(GS_E_PEER, "rank 0 waited 0.3 s for rank 1 of 2, which never came",
                 meet(0, 2, folder, 0.3, NULL));
    assert_int_not_equal(access(folder, F_OK), 0);

    new_folder(folder);
    rank_process p = start_rank("allreduce", 3, 5, folder, 1, -1);
    assert_fails(GS_E_PEER, "for ranks 1, 2 and 4 of 5", meet(0, 5, folder, 2, NULL));
    end_of(&p);
    assert_says(&p, "rank 3 waited 1 s for ranks");
    assert_int_not_equal(access(folder, F_OK), 0);
}

static void a_folder_that_is_not_new_is_refused(void **state) {
    (void)state;
    char folder[400];
    new_folder(folder);
    write_file(folder, "notes.txt", "mine");
    assert_fails(GS_E_FILE, "holds 'notes.txt'", meet(0, 2, folder, 5, NULL));

    new_folder(folder);
    write_file(folder, "rank-7", "");
    assert_fails(GS_E_FILE, "holds 'rank-7'", meet(0, 2, folder, 5, NULL));

    new_folder(folder);
    write_file(folder, "rank-0", "");
    assert_fails(GS_E_FILE, "rank 0 was started twice", meet(0, 2, folder, 5, NULL));
    write_file(folder, "rank-0", "anything at all\n");
    assert_fails(GS_E_FILE, "'anything at all'; it is not the file of a rank", meet(1, 2, folder, 5, NULL));
    write_file(folder, "rank-0", "rank 0 of 3, process 1 on elsewhere\n");
    assert_fails(GS_E_PEER, "rank 1 is one of 2 processes, but rank 0 is one of 3",
                 meet(1, 2, folder, 5, NULL));

    assert_fails(GS_E_FILE, "No such file", meet(0, 2, "/no/such/folder", 5, NULL));
    assert_fails(GS_E_USAGE, "ranks are 0 to 1", meet(2, 2, folder, 5, NULL));
    assert_fails(GS_E_USAGE, "more than 0", meet(0, 2, folder, 0, NULL));
    assert_fails(GS_E_USAGE, "no folder", meet(0, 2, NULL, 5, NULL));
}

/* A rank that came and died is not waited for. */
static void a_rank_that_died_at_the_meeting_is_named(void **state) {
    (void)state;
    char folder[400], path[500];
    new_folder(folder);
    rank_process p = start_rank("allreduce", 1, 2, folder, 60, -1);
    snprintf(path, sizeof path, "%s/rank-1", folder);
    struct stat s = {0};
    for (int i = 0; i < 6000 && (stat(path, &s) != 0 || s.st_size == 0); i++) usleep(10000);
    kill(p.pid, SIGKILL);
    end_of(&p);
    char wanted[100];
    snprintf(wanted, sizeof wanted, "rank 1 (process %d) has ended already", (int)p.pid);
    assert_fails(GS_E_PEER, wanted, meet(0, 2, folder, 60, NULL));
}

static void an_address_must_be_this_machines(void **state) {
    (void)state;
    char folder[400];
    new_folder(folder);
    assert_fails(GS_E_USAGE, "'no.such.host.invalid' for the other processes is not known",
                 meet(0, 2, folder, 5, "no.such.host.invalid"));
    assert_fails(GS_E_USAGE, "this machine cannot be reached at the address '192.0.2.1'",
                 meet(0, 2, folder, 5, "192.0.2.1"));
}

static void the_environment_says_who_this_is(void **state) {
    (void)state;
    static const struct {
        const char *rank, *size, *folder, *timeout, *message; /* message NULL: it is right */
    } cases[] = {
        {NULL, NULL, NULL, NULL, NULL},
        {"2", "3", "/tmp/x", "2.5", NULL},
        {NULL, "3", "/tmp/x", NULL, "GRADSUM_RANK is not set, but GRADSUM_WORLD_SIZE is"},
        {"0", NULL, "/tmp/x", NULL, "GRADSUM_WORLD_SIZE is not set, but GRADSUM_RANK is"},
        {"0", "3", NULL, NULL, "GRADSUM_RENDEZVOUS is not set"},
        {"0", "3", "", NULL, "GRADSUM_RENDEZVOUS is empty"},
        {"3", "3", "/tmp/x", NULL, "GRADSUM_RANK is '3'; it must be a whole number from 0 to 2"},
        {"-1", "3", "/tmp/x", NULL, "GRADSUM_RANK is '-1'"},
        {"1x", "3", "/tmp/x", NULL, "GRADSUM_RANK is '1x'"},
        {"0", "0", "/tmp/x", NULL, "GRADSUM_WORLD_SIZE is '0'"},
        {"0", "99999999999999999999", "/tmp/x", NULL, "GRADSUM_WORLD_SIZE is '9999"},
        {NULL, NULL, NULL, "0", "GRADSUM_TIMEOUT is '0'"},
        {NULL, NULL, NULL, "nan", "GRADSUM_TIMEOUT is 'nan'"},
        {NULL, NULL, NULL, "soon", "GRADSUM_TIMEOUT is 'soon'"},
    };
    static const char *const names[] = {"GRADSUM_RANK", "GRADSUM_WORLD_SIZE", "GRADSUM_RENDEZVOUS",
                                        "GRADSUM_TIMEOUT"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const values[] = {cases[i].rank, cases[i].size, cases[i].folder, cases[i].timeout};
        for (int k = 0; k < 4; k++)
            if (values[k]) setenv(names[k], values[k], 1);
        gs_rendezvous r;
        gs_status status = gs_rendezvous_from_environment(&r);
        for (int k = 0; k < 4; k++) unsetenv(names[k]);
        if (cases[i].message) {
            assert_fails(GS_E_USAGE, cases[i].message, status);
            continue;
        }
        assert_int_equal(status, GS_OK);
        assert_int_equal(r.rank, cases[i].rank ? 2 : 0);
        assert_int_equal(r.size, cases[i].size ? 3 : 1);
        assert_true(r.timeout == (cases[i].timeout ? 2.5 : GS_TIMEOUT));
        assert_null(r.address);
        if (!cases[i].folder) assert_null(r.directory);
    }
}

GS_TESTS(comm, cmocka_unit_test(sums_are_the_same_on_every_rank),
         cmocka_unit_test(broadcast_and_all_gather_move_every_byte),
         cmocka_unit_test(messages_arrive_in_order), cmocka_unit_test(barriers_hold_everyone),
         cmocka_unit_test(abort_reaches_everyone), cmocka_unit_test(a_late_rank_is_named),
         cmocka_unit_test(recv_names_the_silent_rank), cmocka_unit_test(who_waits_for_a_rank_that_left_fails),
         cmocka_unit_test(a_killed_process_is_named_by_the_others),
         cmocka_unit_test(a_rank_that_never_comes_is_named),
         cmocka_unit_test(a_folder_that_is_not_new_is_refused),
         cmocka_unit_test(a_rank_that_died_at_the_meeting_is_named),
         cmocka_unit_test(an_address_must_be_this_machines),
         cmocka_unit_test(the_environment_says_who_this_is))
