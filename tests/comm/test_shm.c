/* What is special about processes over shared memory. The tests of all collectives, schemes and failing ranks for Gloo
 * also run over shared memory. */
#include "tests/support/program.h"
#include "tests/support/ranks.h"

#include <sys/stat.h>

#include "comm/call_check.h"

static const gs_test_layout three = {"3 processes", 3, {1, 1, 1}};
static const gs_test_layout mixed = {"2 processes of 2 threads", 2, {2, 2}};

/* Runs every collective with arrays that end just before, at, and after the end of a 256 KiB block. */
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

TEST(blocks_end_anywhere) {
    gs_test_ranks_ok(&three, around_blocks, NULL);
}

TEST(messages_have_any_length) {
    gs_test_ranks_ok(&three, gs_test_messages_of_all_lengths, NULL);
    gs_test_ranks_ok(&mixed, gs_test_messages_of_all_lengths, NULL);
}

TEST(the_library_wants_gloo) {
    assert_prints(2, "--sync gloo sums over Gloo, but the processes talk over 'shm'",
                  "launch -n 2 --transport shm -- train --sync gloo --steps 1");
    assert_prints(0, "epoch 1", "launch -n 2 -- train --model softmax --sync gloo --epochs 1 --steps 1");
}

/* Two processes in different PID namespaces: auto falls back to Gloo, and shm says why it fails. */
TEST(another_container_is_another_machine) {
    char *output;
    int refused = gs_test_shell(&output, "unshare --pid --fork --mount-proc true");
    if (refused) skip_because("no process id namespace can be created here (unshare --pid)");
    static const char *const wanted[] = {"\"event\":\"end\"",
                                         "the processes cannot talk over shm (shared memory): rank 1 and "
                                         "rank 0 run on different machines, or in different containers"};
    static const char *const transports[] = {"auto", "shm"};
    for (size_t t = 0; t < sizeof wanted / sizeof *wanted; t++) {
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

/* To the receiver it looks as if an earlier message was lost. */
static gs_status receive_another_length(gs_comm *c, void *context) {
    char data[800] = {0};
    (void)context;
    if (c->rank == 1) return gs_comm_send(c, data, 400, 0);
    if (c->rank == 0) return gs_comm_recv(c, data, 800, 1);
    return gs_comm_recv(c, data, 800, 0); /* would wait long, but the failure ends the wait */
}

TEST(a_lost_message_is_an_error) {
    for (int i = 0; i < 4; i++) {
        static const gs_test_layout layout[] = {{"3 threads", 0, {3}},
                                                {"3 processes", 3, {1, 1, 1}},
                                                {"1 and 2 threads", 2, {2, 1}},
                                                {"3 processes over Gloo", 3, {1, 1, 1}}};
        gs_test_outcome outcome[GS_TEST_RANKS];
        gs_test_run_ranks_over(i == 3 ? "gloo" : "shm", &layout[i], 60, receive_another_length, NULL,
                               outcome);
        for (int r = 0; r < 3; r += 2) {
            assert_int_equal(outcome[r].status, GS_E_PEER);
            if (!strstr(outcome[r].message, "800 bytes are wanted from ") ||
                !strstr(outcome[r].message, " 1, which sent 400: a message was lost or damaged"))
                fail_msg("%s, rank %d: %s", layout[i].name, r, outcome[r].message);
        }
    }
}
