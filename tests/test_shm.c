/* Processes that share memory: what is special about them. That all collectives and schemes are right over shm is
 * tested where they are tested over Gloo (ranks.c runs both).
 */
#include "tests/program.h"
#include "tests/ranks.h"

#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm/call_check.h"

static const gs_test_layout three = {"3 processes", 3, {1, 1, 1}};
static const gs_test_layout mixed = {"2 processes of 2 threads", 2, {2, 2}};

/* ---- sizes: blocks, and messages that grow ---- */

/* Every collective with arrays that end just before, at, and behind the end of a block of 256 KiB. */
static gs_status around_blocks(gs_comm *c, void *context) {
    static const size_t counts[] = {4095, 4096, 4097, 65535, 65536, 65537, 196609};
    (void)context;
    char *in = gs_test_scratch(4 * 196609 * 3), *out = gs_test_scratch(4 * 196609 * 3);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        for (int o = GS_BROADCAST; o < GS_BARRIER; o++) {
            gs_call call = {(gs_operation)o, counts[i], GS_F32, GS_SUM,
                            gs_operation_has_root((gs_operation)o) ? 1 : 0};
            gs_call_fill(&call, c->rank, c->size, in, out);
            GS_TRY(gs_call_run(c, &call, in, out));
            GS_TRY(gs_call_verify(&call, c->rank, c->size, in, out));
        }
    }
    return GS_OK;
}

static void over_shm(const gs_test_layout *layout, double timeout, gs_test_body body, void *context,
                     gs_test_outcome outcome[GS_TEST_RANKS]) {
    memset(outcome, 0, GS_TEST_RANKS * sizeof *outcome);
    gs_test_transport = "shm";
    gs_test_run_ranks(layout, timeout, body, context, outcome);
    gs_test_transport = NULL;
}

static void all_ok(const gs_test_layout *layout, gs_test_body body) {
    gs_test_outcome outcome[GS_TEST_RANKS];
    over_shm(layout, 60, body, NULL, outcome);
    for (int r = 0; r < gs_test_layout_size(layout); r++)
        if (outcome[r].status != GS_OK) fail_msg("%s, rank %d: %s", layout->name, r, outcome[r].message);
}

TEST(blocks_end_anywhere) {
    all_ok(&three, around_blocks);
}

TEST(messages_have_any_length) {
    all_ok(&three, gs_test_messages_of_all_lengths);
    all_ok(&mixed, gs_test_messages_of_all_lengths);
}

/* ---- failures ---- */

typedef struct failure {
    gs_operation operation;
    int bad;
    atomic_int ended;
} failure;

/* What the others do when rank `bad` does not take part. */
static gs_status take_part(gs_comm *c, failure *f) {
    gs_call call = {f->operation, 100, GS_F32, GS_SUM, f->bad};
    void *in = gs_test_scratch(4000), *out = gs_test_scratch(4000);
    gs_status first = gs_call_run(c, &call, in, out);
    for (int i = 0; first == GS_OK && i < 3; i++)
        first = gs_comm_barrier(c); /* who only gives need not wait */
    const char *message = gs_test_format("%s", gs_message());
    gs_status again = gs_comm_barrier(c);
    atomic_fetch_add(&f->ended, 1);
    if (first != GS_OK && again == GS_OK) return gs_fail(GS_E_USAGE, "it works again after '%s'", message);
    return gs_fail(first, "%s", message);
}

static gs_status one_aborts(gs_comm *c, void *context) {
    failure *f = context;
    if (c->rank != f->bad) return take_part(c, f);
    gs_comm_abort(c, "the disk is full");
    return gs_comm_barrier(c);
}

TEST(abort_reaches_everyone) {
    const gs_test_layout *const some[] = {&three, &mixed};
    for (int i = 0; i < 2; i++) {
        for (int o = GS_RECV; o <= GS_BARRIER; o++) {
            failure f = {.operation = (gs_operation)o, .bad = 1};
            gs_test_outcome outcome[GS_TEST_RANKS];
            over_shm(some[i], 60, one_aborts, &f, outcome);
            for (int r = 0; r < gs_test_layout_size(some[i]); r++) {
                assert_int_equal(outcome[r].status, GS_E_PEER);
                assert_string_equal(outcome[r].message, "rank 1: the disk is full");
            }
        }
    }
}

static gs_status one_is_late(gs_comm *c, void *context) {
    failure *f = context;
    if (c->rank != f->bad) return take_part(c, f);
    while (atomic_load(&f->ended) < c->size - 1) usleep(1000);
    return gs_comm_barrier(c);
}

static const char *late_rank_is_not_named(double timeout, void *context) {
    (void)context;
    failure f = {.operation = GS_ALL_REDUCE, .bad = 2};
    gs_test_outcome outcome[GS_TEST_RANKS];
    char wanted[120];
    over_shm(&three, timeout, one_is_late, &f, outcome);
    for (int r = 0; r < 3; r++)
        if (outcome[r].status != GS_E_PEER) return gs_test_wrong("rank %d: %s", r, outcome[r].message);
    snprintf(wanted, sizeof wanted, "all_reduce of 100 f32: no answer within %g s from rank 2", timeout);
    if (!strstr(outcome[0].message, wanted)) return gs_test_wrong("%s", outcome[0].message);
    f = (failure){.operation = GS_RECV, .bad = 1};
    over_shm(&(gs_test_layout){"2 processes", 2, {1, 1}}, timeout, one_is_late, &f, outcome);
    snprintf(wanted, sizeof wanted,
             "rank 0: recv of 400 bytes from rank 1: no answer within %g s from rank 1 on host ", timeout);
    if (strncmp(outcome[0].message, wanted, strlen(wanted)) != 0)
        return gs_test_wrong("%s", outcome[0].message);
    return strstr(outcome[0].message, "; rank 1 last began ") ? NULL
                                                              : gs_test_wrong("%s", outcome[0].message);
}

TEST(a_late_rank_is_named) {
    gs_test_patiently(2, late_rank_is_not_named, NULL);
}

static gs_status one_leaves(gs_comm *c, void *context) {
    failure *f = context;
    return c->rank == f->bad ? GS_OK : take_part(c, f);
}

TEST(who_waits_for_a_rank_that_left_fails) {
    failure f = {.operation = GS_ALL_REDUCE, .bad = 0};
    gs_test_outcome outcome[GS_TEST_RANKS];
    over_shm(&three, 60, one_leaves, &f, outcome);
    for (int r = 1; r < 3; r++) {
        assert_int_equal(outcome[r].status, GS_E_PEER);
        if (!strstr(outcome[r].message, "all_reduce of 100 f32: rank 0 ended without it"))
            fail_msg("rank %d: %s", r, outcome[r].message);
    }
}

/* ---- where shared memory cannot be had ---- */

TEST(an_unknown_transport_is_named) {
    gs_test_program_prints(2, "unknown transport 'tcp'", "launch -n 2 --transport tcp -- train --steps 1");
    gs_test_program_prints(2, "--sync gloo sums over Gloo, but the processes talk over 'shm'",
                           "launch -n 2 --transport shm -- train --sync gloo --steps 1");
    gs_test_program_prints(0, "epoch 1",
                           "launch -n 2 -- train --model softmax --sync gloo --epochs 1 --steps 1");
}

/* Two processes whose numbers mean different things: auto goes on over Gloo, shm says why not. */
TEST(another_container_is_another_machine) {
    char *output;
    int refused = gs_test_shell(&output, "unshare --pid --fork --mount-proc true");
    if (refused) skip_because("no name space of processes can be made here (unshare --pid)");
    static const char *const wanted[] = {"\"event\":\"end\"",
                                         "the processes cannot talk over shm (shared memory): rank 1 and "
                                         "rank 0 run on different machines, or in different containers"};
    static const char *const transports[] = {"auto", "shm"};
    for (int t = 0; t < 2; t++) {
        const char *folder = gs_test_format("%s/meet", gs_test_folder());
        assert_int_equal(mkdir(folder, 0700), 0);
        gs_test_shell(
            &output,
            "export GRADSUM_WORLD_SIZE=2 GRADSUM_RENDEZVOUS=%s GRADSUM_TIMEOUT=200 GRADSUM_TRANSPORT=%s\n"
            "run='%s/gradsum train --json --model softmax --steps 2'\n"
            "GRADSUM_RANK=1 unshare --pid --fork --mount-proc $run 2>&1 & GRADSUM_RANK=0 $run 2>&1; wait",
            folder, transports[t], GS_BUILD_DIR);
        if (!strstr(output, wanted[t])) fail_msg("%s: %s", transports[t], output);
    }
}

/* ---- a message of another length ---- */

/* One before it was lost, as its receiver sees it. */
static gs_status receive_another_length(gs_comm *c, void *context) {
    char data[800] = {0};
    (void)context;
    if (c->rank == 1) return gs_comm_send(c, data, 400, 0);
    if (c->rank == 0) return gs_comm_recv(c, data, 800, 1);
    return gs_comm_recv(c, data, 800, 0); /* it would wait for long, and hears of it */
}

TEST(a_lost_message_is_an_error) {
    for (int i = 0; i < 3; i++) {
        static const gs_test_layout layout[] = {
            {"3 threads", 0, {3}}, {"3 processes", 3, {1, 1, 1}}, {"1 and 2 threads", 2, {2, 1}}};
        gs_test_outcome outcome[GS_TEST_RANKS];
        memset(outcome, 0, sizeof outcome);
        gs_test_transport = "shm";
        gs_test_run_ranks(&layout[i], 60, receive_another_length, NULL, outcome);
        gs_test_transport = NULL;
        for (int r = 0; r < 3; r += 2) {
            assert_int_equal(outcome[r].status, GS_E_PEER);
            if (!strstr(outcome[r].message, "recv: 800 bytes are wanted from ") ||
                !strstr(outcome[r].message, " 1, which sent 400: a message was lost or damaged"))
                fail_msg("%s, rank %d: %s", layout[i].name, r, outcome[r].message);
        }
    }
}
