/* Deliberate faults (comm/inject/). tests/system/failures.sh tests their effect on a whole run. */
#include "tests/support/program.h"
#include "tests/support/ranks.h"

#include "comm/inject/inject.h"

static const gs_test_layout layouts[] = {
    {"2 threads", 0, {2}}, {"3 processes", 3, {1, 1, 1}}, {"processes of 1 and 2 threads", 2, {1, 2}}};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/* ---- the variable ---- */

TEST(faults_are_read) {
    gs_faults f;
    assert_ok(gs_faults_read("", &f));
    assert_int_equal(f.count, 0);
    assert_ok(gs_faults_read("kill:rank=1,operation=57", &f));
    assert_int_equal(f.count, 1);
    assert_int_equal(f.fault[0].kind, GS_FAULT_KILL);
    assert_int_equal(f.fault[0].rank, 1);
    assert_int_equal(f.fault[0].operation, 57);
    assert_ok(gs_faults_read("delay:seconds=.5,operation=3,rank=0;drop:rank=2,operation=40;", &f));
    assert_int_equal(f.count, 2);
    assert_near(f.fault[0].seconds, 0.5, 0, 1e-12);
    assert_int_equal(f.fault[0].generation, 1);
    assert_int_equal(f.fault[1].kind, GS_FAULT_DROP);
    assert_int_equal(f.fault[1].rank, 2);
    assert_ok(
        gs_faults_read("kill:rank=1,operation=7,generation=12;kill:generation=all,rank=1,operation=7", &f));
    assert_int_equal(f.fault[0].generation, 12);
    assert_int_equal(f.fault[1].generation, 0);
    assert_ok(gs_faults_read("kill:rank=1,operation=0", &f));
    assert_int_equal(f.fault[0].operation, 0);
    assert_ok(gs_faults_read("kill:,rank=1,,operation=2,", &f));
    assert_int_equal(f.fault[0].rank, 1);
    assert_int_equal(f.fault[0].operation, 2);
    assert_ok(gs_faults_read("usage:rank=1,operation=7", &f));
    assert_int_equal(f.fault[0].kind, GS_FAULT_USAGE);
}

TEST(other_values_are_refused) {
    static const char *const cases[] = {
        "kill",
        "burn:rank=1,operation=5",
        "kill:operation=5",
        "kill:rank=1",
        "drop:rank=1,operation=0",
        "kill:rank=1,operation=99999999999999999999",
        "kill:rank=-1,operation=5",
        "kill:rank=99999999999,operation=5",
        "kill:rank=0x1,operation=5",
        "kill:rank=1,operation=4e1",
        "kill:rank=1,operation=4.",
        "kill:rank=,operation=5",
        "kill:,",
        "kill:rank=1,operation=5,generation=0",
        "kill:rank=1,operation=5,generation=each",
        "kill:rank,operation=5",
        "kill:rank=1,operation=5,step=3",
        "kill:rank=1,operation=5,seconds=3",
        "delay:rank=1,operation=5",
        "delay:rank=1,operation=5,seconds=nan",
        "delay:rank=1,operation=5,seconds=1001",
    };
    gs_faults f;
    char many[17 * 26 + 1] = "";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(GS_E_USAGE, gs_test_format("GRADSUM_FAULT has '%s'; wanted", cases[i]),
                     gs_faults_read(cases[i], &f));
    assert_fails(GS_E_USAGE, "GRADSUM_FAULT has ''", gs_faults_read("kill:rank=1,operation=5;;", &f));
    assert_fails(GS_E_USAGE, "has 'kill:operation=5,rank=000",
                 gs_faults_read(gs_test_format("kill:operation=5,rank=%0120d", 0), &f));
    for (int i = 0; i < 17; i++) strcat(many, "kill:rank=1,operation=100;");
    assert_fails(GS_E_USAGE, "wanted at most 16 of", gs_faults_read(many, &f));
}

static void run(int wanted, const char *environment, const char *arguments, const char *text) {
    assert_shell_prints(wanted, text, "%s %s/gradsum %s", environment, GS_BUILD_DIR, arguments);
}

TEST(every_rank_refuses_them) {
    const char *two = "launch -n 2 -- train --model softmax --steps 1 --threads 1";
    run(2, "GRADSUM_FAULT=kill", two, "all 2 processes failed with this error");
    run(2, "GRADSUM_FAULT=kill:rank=2,operation=1", two,
        "GRADSUM_FAULT names rank 2; there are 2, from 0 on");
}

TEST(all_processes_have_the_same) {
    assert_shell_prints(2, "process 1 and process 0 differ in GRADSUM_FAULT",
                        "export GRADSUM_WORLD_SIZE=2 GRADSUM_TIMEOUT=200 GRADSUM_RENDEZVOUS=%s; "
                        "G='%s/gradsum train --model softmax --steps 1 --threads 1'; "
                        "GRADSUM_RANK=0 $G & GRADSUM_FAULT=drop:rank=0,operation=9 GRADSUM_RANK=1 $G; "
                        "S=$?; wait $! && exit 0; [ $? = $S ] && exit $S",
                        gs_test_folder(), GS_BUILD_DIR);
}

/* ---- injecting ---- */

static void keep(gs_comm *c) {
    (void)c;
}

/* A comm that the caller owns: the wrapper around it does not free it. */
typedef struct borrowed {
    gs_comm comm;
    gs_transport ops;
} borrowed;

static gs_comm *borrow(const gs_comm *c, borrowed *b) {
    *b = (borrowed){*c, *c->ops};
    b->ops.free = keep;
    b->comm.ops = &b->ops;
    return &b->comm;
}

/* Of three messages from rank 1, the third is dropped. */
static gs_status two_of_three_arrive(gs_comm *c, void *context) {
    (void)context;
    borrowed b;
    int number = 0;
    gs_comm *k = borrow(c, &b);
    gs_status status = gs_comm_inject_if_wanted(1, &k);
    for (int i = 1; i <= 3 && status == GS_OK && c->rank == 1; i++)
        status = gs_comm_send(k, &(int){i}, sizeof i, 0);
    while (c->rank == 1 && status == GS_OK)
        status = gs_comm_recv(k, &number, sizeof number, 0); /* fails when rank 0 fails */
    while (c->rank == 0 && status == GS_OK && number < 3) {
        const int before = number;
        status = gs_comm_recv(k, &number, sizeof number, 1);
        RANK_CHECK(status != GS_OK || number == before + 1, "after %d comes %d", before, number);
    }
    gs_comm_free(k);
    if (c->rank == 0) RANK_CHECK(number == 2, "%d messages arrived", number);
    return status;
}

TEST(a_rank_is_cut_off_from_an_operation_on) {
    gs_test_outcome outcome[GS_TEST_RANKS];
    setenv("GRADSUM_FAULT", "drop:rank=1,operation=3", 1);
    gs_test_run_ranks(&layouts[0], 0.3, two_of_three_arrive, NULL, outcome);
    unsetenv("GRADSUM_FAULT");
    for (int r = 0; r < 2; r++)
        if (outcome[r].status != GS_E_PEER) fail_msg("rank %d: %s", r, outcome[r].message);
}

TEST(a_fault_comes_at_its_operation) {
    run(137, "GRADSUM_FAULT=kill:rank=1,operation=7",
        "train --model softmax --steps 3 --threads 1 --devices cpu,cpu; exit $?",
        "rank 1: kill at operation 7, ");
    run(1, "GRADSUM_FAULT=kill:rank=1,operation=7",
        "launch -n 2 -- train --model softmax --steps 3 --threads 1", "rank 1 was killed by signal 9");
    run(0, "GRADSUM_FAULT='delay:rank=0,operation=7,seconds=0.01;kill:rank=1,operation=9999'",
        "train --model softmax --steps 3 --threads 1 --devices cpu,cpu", "rank 0: delay at operation 7, ");
    run(0, "GRADSUM_FAULT='delay:rank=0,operation=7,seconds=0.01;kill:rank=1,operation=9999'",
        "train --model softmax --steps 3 --threads 1 --devices cpu,cpu",
        " operations: no kill at operation 9999");
}

/* The output contains a line that begins like this and is at most 80 columns wide. */
static void assert_fits(const char *output, const char *begin) {
    const char *line = strstr(output, begin);
    if (!line) fail_msg("wanted '%s' in: %s", begin, output);
    if (strcspn(line, "\r\n") > 80) fail_msg("%zu columns: %s", strcspn(line, "\r\n"), line);
}

/* Both sentences are longer than a terminal line. */
TEST(sentences_are_wrapped_on_a_terminal) {
    char *output = gs_test_shell_output(
        1,
        "script -qec 'stty cols 80; GRADSUM_FAULT=kill:rank=1,operation=12 %s/gradsum launch "
        "-n 2 --restarts 1 -- train --model softmax --threads 1 --steps 30' /dev/null </dev/null",
        GS_BUILD_DIR);
    assert_fits(output, "gradsum: GRADSUM_FAULT: rank 1: kill at operation 12, all_reduce of");
    assert_fits(output, "gradsum launch: rank 1 was killed by signal 9 (Killed); ");
}
