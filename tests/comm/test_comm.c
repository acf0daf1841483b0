/* Communication: sums and messages over every transport, and failing ranks. Other collectives are in
 * test_collectives.c. */
#include "core/philox.h"
#include "tests/support/heap.h"
#include "tests/support/launched.h"
#include "tests/support/ranks.h"

#include <math.h>
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

/* Sizes around zero, a cache line and a block, and more than Gloo sends at once; few are divisible by 2, 3 or 4. */
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

/* All ranks receive the same bits as rank 0, and a second sum gives the same bits again. */
static gs_status sums(gs_comm *c, void *context) {
    const gs_test_layout *layout = context;
    size_t most = counts[COUNTS - 1];
    float *x = gs_test_scratch(most * sizeof *x), *first = gs_test_scratch(most * sizeof *x);
    for (int n = 0; n < COUNTS; n++) {
        size_t count = counts[n], bytes = count * sizeof *x;
        for (int again = 0; again < 2; again++) {
            for (size_t i = 0; i < count; i++) x[i] = number(c->rank, i);
            GS_TRY(gs_comm_all_reduce(c, x, count, GS_F32, GS_SUM));
            if (again)
                RANK_CHECK(memcmp(x, first, bytes) == 0, "the bits of the second sum of %zu floats differ",
                           count);
            memcpy(first, x, bytes);
        }
        GS_TRY(check_sum(c, count, x, layout->processes == 0));
        GS_TRY(gs_comm_broadcast(c, x, count, GS_F32, 0));
        RANK_CHECK(memcmp(x, first, bytes) == 0, "bits of the sum of %zu floats differ from rank 0's", count);
    }
    return GS_OK;
}

TEST(sums_are_the_same_on_every_rank) {
    for (int i = 0; i < LAYOUTS; i++) gs_test_ranks_ok(&layouts[i], sums, (void *)&layouts[i]);
}

static unsigned char byte(int rank, size_t i) {
    return (unsigned char)(i * 7 + i / 251 + (size_t)rank * 31 + 1);
}

/* Each rank sends two messages to every rank before any rank receives. The messages arrive in order, and the sender may
 * reuse its memory at once. */
static gs_status messages(gs_comm *c, void *context) {
    (void)context;
    size_t most = counts[COUNTS - 1];
    unsigned char *data = gs_test_scratch(most);
    for (int n = 0; n < COUNTS; n++) {
        size_t bytes[2] = {counts[n], counts[n] / 2};
        for (int to = 0; to < c->size; to++) {
            for (int k = 0; k < 2 && to != c->rank; k++) {
                for (size_t i = 0; i < bytes[k]; i++) data[i] = byte(c->rank * 8 + to + k, i);
                GS_TRY(gs_comm_send(c, data, bytes[k], to));
                memset(data, 0, bytes[k]);
            }
        }
        for (int from = c->size - 1; from >= 0; from--) {
            for (int k = 0; k < 2 && from != c->rank; k++) {
                GS_TRY(gs_comm_recv(c, data, bytes[k], from));
                for (size_t i = 0; i < bytes[k]; i++)
                    RANK_CHECK(data[i] == byte(from * 8 + c->rank + k, i),
                               "message %d of %zu bytes from rank %d: wrong byte %zu", k, bytes[k], from, i);
            }
        }
    }
    return GS_OK;
}

TEST(messages_arrive_in_order) {
    for (int i = 0; i < LAYOUTS; i++) gs_test_ranks_ok(&layouts[i], messages, NULL);
}

/* Bytes on the heap; 0 where the heap is not counted. */
static size_t bytes_in_use(void) {
#ifdef GS_TEST_HEAP
    return gs_test_heap();
#else
    return 0;
#endif
}

/* Every rank sends a long message to every rank, one at a time. One copy per rank suffices, although there are many
 * more pairs. */
static gs_status long_messages(gs_comm *c, void *context) {
    (void)context;
    enum { LONGEST = 5 << 20 };
    unsigned char *data = gs_test_scratch(LONGEST);
    GS_TRY(gs_comm_barrier(c));
    const size_t before = bytes_in_use();
    for (size_t bytes = LONGEST - 70001; bytes <= LONGEST; bytes += 70001)
        for (int far = 1; far < c->size; far++) {
            const int from = (c->rank + c->size - far) % c->size;
            memset(data, c->rank * 8 + far, bytes);
            GS_TRY(gs_comm_barrier(c));
            GS_TRY(gs_comm_send(c, data, bytes, (c->rank + far) % c->size));
            GS_TRY(gs_comm_recv(c, data, bytes, from));
            for (size_t i = 0; i < bytes; i += 4093)
                RANK_CHECK(data[i] == from * 8 + far, "wrong byte %zu of %zu from rank %d", i, bytes, from);
        }
    GS_TRY(gs_comm_barrier(c));
    const size_t after = bytes_in_use();
    RANK_CHECK(after < before + 2 * (size_t)c->size * LONGEST,
               "%d ranks that sent %d bytes to each other keep %zu MB", c->size, LONGEST,
               (after - before) >> 20);
    return gs_comm_barrier(c);
}

TEST(long_messages_share_their_memory) {
    gs_test_ranks_ok(&(gs_test_layout){"8 threads", 0, {8}}, long_messages, NULL);
}

/* Rank 1 reads nothing until rank 0 has to wait in a send, and sleeps. Then it reads all messages, of which only a few
 * are in memory at once. */
static gs_status late_reader(gs_comm *c, void *context) {
    enum { LONG = 1 << 20, COUNT = 20, FEW = 4 };
    atomic_int *sender = context;
    unsigned char *data = gs_test_scratch(LONG);
    GS_TRY(gs_comm_barrier(c));
    const size_t before = bytes_in_use();
    while (c->rank == 1 && (!atomic_load(sender) || gs_test_state_of(atomic_load(sender)) != 'S'))
        usleep(1000);
    for (int i = 0; i < COUNT; i++) {
        if (c->rank == 0) memset(data, i, LONG);
        GS_TRY(c->rank == 0 ? gs_comm_send(c, data, LONG, 1) : gs_comm_recv(c, data, LONG, 0));
        RANK_CHECK(data[0] == i && data[LONG - 1] == i, "message %d starts with %d", i, data[0]);
        if (c->rank == 0) atomic_store(sender, gettid());
    }
    GS_TRY(gs_comm_barrier(c));
    RANK_CHECK(bytes_in_use() < before + FEW * LONG, "%d messages keep %zu MB", COUNT,
               (bytes_in_use() - before) >> 20);
    return gs_comm_barrier(c);
}

TEST(a_sender_waits_for_a_late_reader) {
    atomic_int sender = 0;
    gs_test_ranks_ok(&(gs_test_layout){"2 threads", 0, {2}}, late_reader, &sender);
}

const gs_test_check gs_test_comm_checks[] = {{"sums", sums}, {"messages", messages}, {NULL, NULL}};

/* No rank leaves a barrier before all ranks have reached it. */
static gs_status barriers(gs_comm *c, void *context) {
    atomic_int *come = context;
    for (int round = 1; round <= 50; round++) {
        atomic_fetch_add(come, 1);
        GS_TRY(gs_comm_barrier(c));
        RANK_CHECK(atomic_load(come) >= round * c->size, "barrier %d was left with %d of %d ranks", round,
                   atomic_load(come) - (round - 1) * c->size, c->size);
    }
    return GS_OK;
}

TEST(barriers_hold_everyone) {
    for (int i = 0; i < LAYOUTS; i++) {
        atomic_int come = 0;
        gs_test_ranks_ok(&layouts[i], barriers, &come);
    }
}

/* ---- failures ---- */

typedef struct failure {
    gs_operation operation; /* the operation in which the others wait */
    int bad;                /* the rank that fails */
    int size;
    atomic_int ended;  /* how many other ranks have finished */
    atomic_bool begun; /* rank 0 is about to wait */
} failure;

static gs_status take_part(gs_comm *c, const failure *f) {
    static _Thread_local float in[100 * GS_TEST_RANKS], out[100 * GS_TEST_RANKS];
    return gs_call_run(c, &(gs_call){f->operation, 100, GS_F32, GS_SUM, f->bad}, in, out);
}

/* The operation fails, and the next one fails at once with the same message. A rank that only sends to the failing rank
 * may succeed; then its next operation fails. */
static gs_status wait_and_fail(gs_comm *c, failure *f) {
    gs_status status = take_part(c, f);
    bool gives = f->operation == GS_GATHER || f->operation == GS_REDUCE;
    if (status == GS_OK && gives) status = gs_comm_barrier(c);
    const char *message = gs_test_format("%s", gs_message());
    atomic_fetch_add(&f->ended, 1);
    if (status == GS_OK) return GS_OK;
    RANK_CHECK(gs_comm_barrier(c) == status && strcmp(gs_message(), message) == 0,
               "now '%s', but before '%s'", gs_message(), message);
    return gs_fail(status, "%s", message);
}

/* Processes over Gloo, or over shared memory. */
static void run_failure_over(const char *transport, const gs_test_layout *layout, gs_operation operation,
                             int bad, double timeout, gs_test_body body, gs_test_outcome *outcome) {
    failure f = {.operation = operation, .bad = bad, .size = gs_test_layout_size(layout)};
    gs_test_run_ranks_over(transport, layout, timeout, body, &f, outcome);
}

static void run_failure(const gs_test_layout *layout, gs_operation operation, int bad, double timeout,
                        gs_test_body body, gs_test_outcome *outcome) {
    run_failure_over(NULL, layout, operation, bad, timeout, body, outcome);
}

static gs_status one_aborts(gs_comm *c, void *context) {
    failure *f = context;
    if (c->rank != f->bad) return wait_and_fail(c, f);
    gs_comm_abort(c, "the disk is full");
    return gs_comm_barrier(c);
}

/* Every rank fails with the message of the failing rank, in any operation. */
static void abort_of(const char *transport, const gs_test_layout *l, int bad) {
    const char *wanted = gs_test_format("rank %d: the disk is full", bad);
    for (int o = GS_RECV; o <= GS_BARRIER; o++) {
        gs_test_outcome outcome[GS_TEST_RANKS];
        run_failure_over(transport, l, (gs_operation)o, bad, 60, one_aborts, outcome);
        for (int r = 0; r < gs_test_layout_size(l); r++)
            if (outcome[r].status != GS_E_PEER || strcmp(outcome[r].message, wanted) != 0)
                fail_msg("%s, rank %d aborts in operation %d, rank %d: %s: '%s'", l->name, bad, o, r,
                         gs_status_name(outcome[r].status), outcome[r].message);
    }
}

TEST(abort_reaches_everyone) {
    static const gs_test_layout some[] = {{"3 threads", 0, {3}},
                                          {"3 processes", 3, {1, 1, 1}},
                                          {"2 processes of 2 threads", 2, {2, 2}},
                                          {"processes of 1 and 3 threads", 2, {1, 3}}};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        for (int bad = 0; bad < gs_test_layout_size(&some[i]); bad++) abort_of(NULL, &some[i], bad);
        if (some[i].processes > 0) abort_of("shm", &some[i], 1);
    }
}

/* Rank f->bad arrives only after all others have given up. They wait for their current timeout, not for that of the
 * rendezvous (10 s or more: tests/support/ranks.c). */
static gs_status one_is_late(gs_comm *c, void *context) {
    failure *f = context;
    if (c->rank != f->bad) return wait_and_fail(c, f);
    for (int ms = 0; atomic_load(&f->ended) < f->size - 1; ms++) {
        RANK_CHECK(ms < 300000, "the others still wait, with a timeout of %g s", c->timeout);
        usleep(1000);
    }
    return gs_comm_barrier(c);
}

typedef struct late_rank {
    gs_test_layout layout;
    int bad;
    const char *speaker; /* the message starts with this */
    double more;         /* how much longer than the timeout the speaker waits */
    const char *transport;
} late_rank;

/* One rank names the late rank, and all ranks fail. */
static const char *late_rank_is_not_named(double timeout, void *context) {
    const late_rank *late = context;
    gs_test_outcome outcome[GS_TEST_RANKS];
    int named = 0;
    const char *wanted = gs_test_format("%sall_reduce of 100 f32: no answer within %g s from rank %d",
                                        late->speaker, timeout + late->more * (timeout + 0.5), late->bad);
    run_failure_over(late->transport, &late->layout, GS_ALL_REDUCE, late->bad, timeout, one_is_late, outcome);
    for (int r = 0; r < gs_test_layout_size(&late->layout); r++) {
        if (outcome[r].status != GS_E_PEER)
            return gs_test_wrong("%s, rank %d: %s", late->layout.name, r, gs_status_name(outcome[r].status));
        named += strstr(outcome[r].message, wanted) != NULL;
    }
    return named ? NULL
                 : gs_test_wrong("%s: wanted '%s', got '%s'", late->layout.name, wanted, outcome[0].message);
}

TEST(a_late_rank_is_named) {
    static late_rank cases[] = {
        {{"3 threads", 0, {3}}, 1, "", 0, NULL},
        {{"4 threads", 0, {4}}, 3, "", 0, NULL},
        {{"2 processes", 2, {1, 1}}, 1, "rank 0: ", 0, NULL},
        {{"processes of 1 and 3 threads", 2, {1, 3}},
         2,
         "",
         1,
         NULL}, /* with several processes, threads wait longer for each other */
        {{"3 processes", 3, {1, 1, 1}}, 2, "", 0, "shm"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        gs_test_patiently(2, late_rank_is_not_named, &cases[i]);
}

TEST(recv_names_the_silent_rank) {
    gs_test_outcome outcome[GS_TEST_RANKS];
    run_failure(&(gs_test_layout){"2 threads", 0, {2}}, GS_RECV, 1, 0.2, one_is_late, outcome);
    assert_string_equal(outcome[0].message,
                        "rank 0: recv of 400 bytes from rank 1: no answer within 0.2 s from rank 1");
    run_failure(&(gs_test_layout){"2 processes", 2, {1, 1}}, GS_RECV, 1, 0.2, one_is_late, outcome);
    static const char wanted[] =
        "rank 0: recv of 400 bytes from rank 1: no answer within 0.2 s from rank 1 on host ";
    if (strncmp(outcome[0].message, wanted, strlen(wanted)) != 0) fail_msg("%s", outcome[0].message);
    if (!strstr(outcome[0].message, "; rank 1 was last heard of in ")) fail_msg("%s", outcome[0].message);
    run_failure_over("shm", &(gs_test_layout){"2 processes", 2, {1, 1}}, GS_RECV, 1, 0.2, one_is_late,
                     outcome);
    if (strncmp(outcome[0].message, wanted, strlen(wanted)) != 0) fail_msg("%s", outcome[0].message);
    if (!strstr(outcome[0].message, "; rank 1 last began ")) fail_msg("%s", outcome[0].message);
}

typedef struct blame {
    gs_operation operation;
    gs_test_body body;
    const char *wanted;
} blame;

/* Rank 2 of three threads is late, and every message contains `wanted`. */
static const char *another_is_blamed(double timeout, void *context) {
    static const gs_test_layout three = {"3 threads", 0, {3}};
    const blame *b = context;
    gs_test_outcome outcome[GS_TEST_RANKS];
    run_failure(&three, b->operation, 2, timeout, b->body, outcome);
    for (int r = 0; r < 3; r++)
        if (outcome[r].status != GS_E_PEER || !strstr(outcome[r].message, b->wanted))
            return gs_test_wrong("rank %d: %s", r, outcome[r].message);
    return NULL;
}

/* Rank 0 waits for rank 1, which a little later starts to wait for rank 2 (comm/waits.c). */
static gs_status each_waits_for_the_next(gs_comm *c, void *context) {
    failure *f = context;
    float data[100];
    if (c->rank == f->bad) return one_is_late(c, f);
    while (c->rank == 1 && !atomic_load(&f->begun)) usleep(1000);
    atomic_store(&f->begun, true);
    gs_status status = gs_comm_recv(c, data, sizeof data, c->rank + 1);
    atomic_fetch_add(&f->ended, 1);
    return status;
}

TEST(a_chain_of_threads_is_followed_to_its_end) {
    gs_test_patiently(2, another_is_blamed, &(blame){GS_RECV, each_waits_for_the_next, "rank 2"});
}

/* Rank 0 waits in a collective. Rank 1 has not reached the collective, because it waits for rank 2. */
static gs_status one_waits_for_another_message(gs_comm *c, void *context) {
    failure *f = context;
    if (c->rank == 0) atomic_store(&f->begun, true);
    if (c->rank != 1) return one_is_late(c, f);
    while (!atomic_load(&f->begun)) usleep(1000);
    float data[100];
    gs_status status = gs_comm_recv(c, data, sizeof data, f->bad);
    atomic_fetch_add(&f->ended, 1);
    return status;
}

TEST(who_waits_is_not_blamed) {
    gs_test_patiently(2, another_is_blamed,
                      &(blame){GS_ALL_REDUCE, one_waits_for_another_message, " from rank 2"});
}

/* One rank leaves without a message: its comm is freed while the others wait. */
static gs_status one_leaves(gs_comm *c, void *context) {
    failure *f = context;
    return c->rank == f->bad ? GS_OK : wait_and_fail(c, f);
}

TEST(who_waits_for_a_rank_that_left_fails) {
    static const gs_test_layout layout[] = {{"3 threads", 0, {3}}, {"3 processes", 3, {1, 1, 1}}};
    gs_test_outcome outcome[GS_TEST_RANKS];
    for (size_t i = 0; i < sizeof layout / sizeof *layout; i++) {
        run_failure_over("shm", &layout[i], GS_ALL_REDUCE, 2, 60, one_leaves, outcome);
        for (int r = 0; r < 2; r++) {
            assert_int_equal(outcome[r].status, GS_E_PEER);
            if (!strstr(outcome[r].message, "all_reduce of 100 f32: rank 2 ended without it"))
                fail_msg("%s, rank %d: %s", layout[i].name, r, outcome[r].message);
        }
    }
    run_failure(&layout[0], GS_RECV, 0, 60, one_leaves, outcome);
    if (!strstr(outcome[1].message, "rank 0 ended without it")) fail_msg("rank 1: %s", outcome[1].message);
}
