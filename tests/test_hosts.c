/* Several machines, simulated on this one (GRADSUM_MACHINE): processes share memory inside of each, and one of each
 * talks to the others. */
#include "tests/launched.h"
#include "tests/program.h"

/* In the script $G is the program, $T a short training, $P a free port. (tests/net.sh has hosts of their own.) */
static int run(char **output, const char *script) {
    return gs_test_shell(
        output,
        "HOME=%s; export HOME GRADSUM_TIMEOUT=200 GRADSUM_SECRET=0123456789abcdef0123; cd $HOME\n"
        "G=%s/gradsum P=%d T='train --model softmax --steps 3 --threads 1 --batch 12 --exact'\n%s",
        gs_test_folder(), GS_BUILD_DIR, gs_test_free_port(), script);
}

/* One process on the first machine, two on the second, one on the third. */
TEST(machines_with_other_numbers_of_processes_train_as_one) {
    char *output, one[65], many[65];
    assert_int_equal(run(&output, "$G $T 2>&1"), 0);
    gs_test_hash_of(output, one);
    assert_int_equal(run(&output,
                         "export GRADSUM_WORLD_SIZE=4 GRADSUM_RENDEZVOUS=tcp://127.0.0.1:$P\n"
                         "r=0; for GRADSUM_MACHINE in anna berta berta carl; do\n"
                         "export GRADSUM_MACHINE; GRADSUM_RANK=$r $G $T 2>&1 & r=$((r + 1)); done; wait"),
                     0);
    gs_test_hash_of(output, many);
    assert_string_equal(one, many);
    assert_has(output, "transport: hosts: ");
}

/* Two on each of two machines. How soon all end is in tests/net.sh. */
static const char *another_leader_is_named(double timeout, void *context) {
    (void)context;
    char *output, script[500];
    snprintf(
        script, sizeof script,
        "export GRADSUM_FAULT=stop:rank=2,operation=20\n"
        "launch() { GRADSUM_MACHINE=$1 $G launch --nodes 2 --node-rank $2 --meet tcp://127.0.0.1:$P -n 2 "
        "--timeout %g -- $T --steps 100000 --epochs 9999 2>&1; }\n"
        "launch berta 1 & launch anna 0; s=$?; wait; exit $s",
        timeout);
    const int status = run(&output, script);
    const char *wanted = gs_test_format("no answer within %g s from rank 2", timeout);
    const bool right = status == 1 && strstr(output, wanted) && strstr(output, " is stopped) on host ");
    return right ? NULL : gs_test_wrong("exit %d, wanted '%s' in: %s", status, wanted, output);
}

TEST(a_stopped_leader_is_named) {
    gs_test_patiently(5, another_leader_is_named, NULL);
}
