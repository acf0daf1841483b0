/* What is special about processes over Gloo. The tests of collectives and schemes for shared memory also run over Gloo
 * (see ranks.c). test_killed.c checks that a killed process is named. */
#include "comm/gloo/state.h"
#include "tests/support/program.h"
#include "tests/support/ranks.h"

#include <sys/stat.h>
#include <unistd.h>

#include "comm/call_check.h"

static const gs_test_layout two = {"2 processes", 2, {1, 1}};
static const gs_test_layout mixed = {"3 processes of 1, 2 and 1 threads", 3, {1, 2, 1}};

/* ---- two ranks: arrays that end just before, at, and after the end of a block of 128 KiB (comm/gloo/direct.c)
 * ---- */

static gs_status around_pieces(gs_comm *c, void *context) {
    static const size_t counts[] = {1, 32767, 32768, 32769, 65536, 131072, 200003};
    static const gs_type types[] = {GS_U8, GS_F32, GS_F64};
    (void)context;
    char *data = gs_test_scratch(8 * 200003);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            gs_call call = {GS_ALL_REDUCE, counts[i], types[t], types[t] == GS_U8 ? GS_MAX : GS_SUM, 0};
            gs_call_fill(&call, c->rank, c->size, data, data);
            GS_TRY(gs_call_run(c, &call, data, data));
            GS_TRY(gs_call_verify(&call, c->rank, c->size, data, data));
        }
    }
    return GS_OK;
}

TEST(pieces_end_anywhere) {
    gs_test_ranks_ok_over("gloo", &two, around_pieces, NULL);
}

/* Rank 1 aborts but keeps its connections. Rank 0, which is waiting on the direct connection, still ends long before
 * its timeout of 600 s. */
static gs_status abort_and_stay(gs_comm *c, void *context) {
    atomic_bool *ended = context;
    float x = 0;
    if (c->rank == 0) {
        gs_status status = gs_comm_all_reduce(c, &x, 1, GS_F32, GS_SUM);
        atomic_store(ended, true);
        return status;
    }
    gs_comm_abort(c, "enough");
    for (int i = 0; i < 30000 && !atomic_load(ended); i++) usleep(10000);
    RANK_CHECK(atomic_load(ended), "rank 0 still waits");
    return GS_OK;
}

TEST(an_abort_ends_an_exchange) {
    gs_test_outcome outcome[GS_TEST_RANKS] = {0};
    atomic_bool ended = false;
    gs_test_run_ranks(&two, 600, abort_and_stay, &ended, outcome);
    assert_int_equal(outcome[0].status, GS_E_PEER);
    assert_string_equal(outcome[0].message, "rank 1: enough");
    if (outcome[1].status != GS_OK) fail_msg("%s", outcome[1].message);
}

/* ---- copies of messages: two in flight, of any length, and longer after shorter ones (comm/gloo/mailbox.c) ---- */

TEST(messages_have_any_length) {
    gs_test_ranks_ok_over("gloo", &two, gs_test_messages_of_all_lengths, NULL);
    gs_test_ranks_ok_over("gloo", &mixed, gs_test_messages_of_all_lengths, NULL);
}

/* ---- messages in blocks (comm/gloo/mailbox.c) ---- */

/* Both ranks send before they receive; the last message has more blocks than there are spare ones. */
static gs_status exchange_lengths(gs_comm *c, void *context) {
    static const size_t lengths[] = {GS_GLOO_PAYLOAD - 1, GS_GLOO_PAYLOAD, GS_GLOO_PAYLOAD + 1,
                                     3 * GS_GLOO_PAYLOAD, 70 * GS_GLOO_PAYLOAD + 5};
    (void)context;
    unsigned char *mine = gs_test_scratch(71 * GS_GLOO_PAYLOAD),
                  *theirs = gs_test_scratch(71 * GS_GLOO_PAYLOAD);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const size_t bytes = lengths[i];
        for (size_t b = 0; b < bytes; b++) mine[b] = (unsigned char)(b * 7 + b / 251 + (size_t)c->rank);
        GS_TRY(gs_comm_send(c, mine, bytes, 1 - c->rank));
        GS_TRY(gs_comm_recv(c, theirs, bytes, 1 - c->rank));
        for (size_t b = 0; b < bytes; b++)
            RANK_CHECK(theirs[b] == (unsigned char)(mine[b] + 1 - 2 * c->rank),
                       "%zu bytes: byte %zu is wrong", bytes, b);
    }
    return GS_OK;
}

TEST(messages_of_many_pieces_arrive) {
    gs_test_ranks_ok_over("gloo", &two, exchange_lengths, NULL);
}

/* Rank 1 receives messages two to five only after all of them have left. The fifth waits until the third has left,
 * which is possible because two messages fit into the spare blocks. */
static gs_status send_ahead(gs_comm *c) {
    char data[5000] = "";
    for (int i = 0; i < 5; i++) {
        if (i == 1 && c->rank == 1) GS_TRY(gs_comm_barrier(c));
        GS_TRY(c->rank == 0 ? gs_comm_send(c, data, 5000, 1) : gs_comm_recv(c, data, 5000, 0));
    }
    if (c->rank == 0) GS_TRY(gs_comm_barrier(c));
    GS_TRY(exchange_lengths(c, NULL));
    return gs_comm_barrier(c); /* a process that exits discards messages not yet received */
}

static gs_status send_too_little(gs_comm *c, void *context) {
    char *data = gs_test_scratch(200);
    (void)context;
    return c->rank == 0 ? gs_comm_send(c, data, 100, 1) : gs_comm_recv(c, data, 200, 0);
}

TEST(lengths_that_differ_are_told) {
    gs_test_outcome outcome[GS_TEST_RANKS] = {0};
    gs_test_run_ranks(&two, 60, send_too_little, NULL, outcome);
    assert_int_equal(outcome[1].status, GS_E_PEER);
    const char *want =
        "rank 1: recv of 200 bytes from rank 0: 200 bytes are wanted from rank 0, which sent 100: ";
    if (strncmp(outcome[1].message, want, strlen(want)) != 0) fail_msg("%s", outcome[1].message);
}

/* Each rank reports that the counts differ; a wrong length must not crash a process. */
static gs_status sum_other_counts(gs_comm *c, void *context) {
    float data[200] = {0};
    (void)context;
    return gs_comm_all_reduce(c, data, c->rank == 0 ? 100 : 200, GS_F32, GS_SUM);
}

TEST(counts_that_differ_are_told) {
    static const char *const sentence[] = {
        "rank 0: all_reduce of 100 f32: 400 bytes here, but 800 there; wanted the same call",
        "rank 1: all_reduce of 200 f32: 800 bytes here, but 400 there; wanted the same call"};
    gs_test_outcome outcome[GS_TEST_RANKS] = {0};
    gs_test_run_ranks(&two, 60, sum_other_counts, NULL, outcome);
    for (int r = 0; r < 2; r++) assert_int_equal(outcome[r].status, GS_E_PEER);
    if (!strstr(outcome[0].message, sentence[0]) && !strstr(outcome[1].message, sentence[1]))
        fail_msg("%s; %s", outcome[0].message, outcome[1].message);
}

/* ---- this program, started again as two processes ---- */

static void *kill_this_process(void *argument) {
    (void)argument;
    usleep(20000); /* at an arbitrary point in a message: rank 0 must detect the death wherever it happens */
    raise(SIGKILL);
    return NULL;
}

/* Rank 1 dies while sending 200 MB to rank 0. It completes the first broadcast; the thread kills it in a later one,
 * after 20 ms. */
static gs_status die_in_the_middle(gs_comm *c) {
    const size_t count = 50 * 1000 * 1000;
    float *data = gs_test_calloc(count, sizeof *data);
    pthread_t killer;
    if (!data) return gs_fail(GS_E_MEMORY, "no memory for a test");
    gs_status status = gs_comm_broadcast(c, data, count, GS_F32, 1);
    if (c->rank == 1) pthread_create(&killer, NULL, kill_this_process, NULL);
    while (status == GS_OK) status = gs_comm_broadcast(c, data, count, GS_F32, 1);
    return status;
}

__attribute__((constructor)) static void maybe_be_a_process(void) {
    const char *what = getenv("GS_TEST_GLOO");
    gs_rendezvous r;
    gs_comm *c;
    if (!what) return;
    gs_status status = gs_rendezvous_from_environment(&r);
    if (status == GS_OK) status = gs_comm_gloo_create(&r, &c);
    if (status == GS_OK) status = strcmp(what, "middle") == 0 ? die_in_the_middle(c) : send_ahead(c);
    if (status == GS_OK) printf("all arrived\n");
    if (status != GS_OK) printf("says: %s\n", gs_message());
    exit(0);
}

/* The output of both processes. A process that is still waiting after a minute is killed, and prints nothing. */
static char *both(const char *what) {
    const char *folder = gs_test_format("%s/meet", gs_test_folder());
    assert_int_equal(mkdir(folder, 0700), 0);
    return gs_test_shell_output(
        0,
        "export GS_TEST_GLOO=%s GRADSUM_WORLD_SIZE=2 GRADSUM_RENDEZVOUS=%s GRADSUM_TIMEOUT=600\n"
        "exec 2>&1; for rank in 0 1; do\n"
        "GRADSUM_MACHINE=$rank GRADSUM_RANK=$rank timeout --foreground -s KILL 200 %s/gradsum-test "
        "& done; wait",
        what, folder, GS_BUILD_DIR);
}

TEST(pieces_leave_before_their_receiver_asks) {
    char *output = both("ahead");
    assert_string_equal(output, "all arrived\nall arrived\n");
}

/* Gloo does not detect that a peer died in the middle of a message; the watchdog does. */
TEST(death_in_the_middle_of_a_message_is_noticed) {
    char *output = both("middle");
    assert_has(output, "says: rank 0: broadcast of 50000000 f32 from rank 1: rank 1 was lost (connection");
}
