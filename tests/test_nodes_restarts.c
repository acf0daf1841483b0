/* launch --restarts over several nodes, which are simulated on this machine: a rank is killed in each attempt, until
 * none of its operations is left to be killed at; all launches start again together, and end with the weights of a run
 * that was never disturbed. Where they cannot, each of them says why. (In a folder and at Redis: test_nodes_places.c.)
 */
#include "tests/nodes.h"
#include "tests/program.h"

#define SMALL "train --model softmax --steps 9 --threads 1 --batch 600"
/* GRADSUM_CHECK would add operations. */
#define KILL(rank, operation)                                                                                \
    "unset GRADSUM_CHECK; export GRADSUM_FAULT=kill:rank=" #rank ",operation=" #operation "; "
#define TWO(rest) "launch 1 --nodes 2 $M -n 2 " rest " & launch 0 --nodes 2 $M -n 2 " rest

static void assert_has(const char *script, const char *output, const char *wanted) {
    if (!strstr(output, wanted)) fail_msg("%s: wanted '%s' in: %s", script, wanted, output);
}

/* A rank makes 7 operations beside those of its steps: after the last checkpoint too few to be killed. The pauses are
 * for checkpoints, which are written beside training. */
static void all_nodes_start_again(void **state) {
    (void)state;
    static const char *const scripts[] = {
        "launch 0 -n 4 -- " SMALL,
        KILL(3, 12)
            TWO("--restarts 20 -- " SMALL " --slow 0:120 --checkpoint $HOME/kept --checkpoint-every 2"),
        KILL(0, 12)
            TWO("--restarts 20 -- " SMALL " --slow 0:120 --checkpoint $HOME/others --checkpoint-every 2"),
    };
    char *output[3], whole[65], hash[65];
    gs_test_nodes(3, scripts, output);
    gs_test_hash_of(output[0], whole);
    for (int i = 1; i < 3; i++) {
        gs_test_hash_of(output[i], hash);
        if (strcmp(hash, whole) != 0) fail_msg("other weights: %s", output[i]);
        assert_has(scripts[i], output[i], "n0: exit 0");
        assert_has(scripts[i], output[i], "n1: exit 0");
        assert_has(scripts[i], output[i], "; restart 1 of 20: it goes on after step ");
    }
    assert_has(scripts[1], output[1], "n0: gradsum launch: ");
    assert_has(scripts[1], output[1], "n1: gradsum launch: rank 3 was killed by signal 9 (Killed); ");
    assert_has(scripts[2], output[2], "n0: gradsum launch: rank 0 was killed by signal 9 (Killed); ");
    for (int i = 0; i < 3; i++) free(output[i]);
}

/* Each launch says why, and ends with 1. */
static void where_they_cannot_all_say_why(void **state) {
    (void)state;
    static const struct {
        const char *script, *wanted;
    } cases[] = {
        {KILL(3, 12) "launch 1 --nodes 2 $M -n 2 --restarts 2 -- " SMALL
                     " & launch 0 --nodes 2 $M -n 2 --restarts 3 -- " SMALL,
         "; not started again: node rank 1 was started with --restarts 2 and 4 ranks, node rank 0 with "
         "--restarts 3"},
        {KILL(3, 9) TWO("--restarts 1 -- " SMALL), "; that was the last of 1 restart"},
        {TWO("--restarts 2 -- " SMALL " --lr 100000 --model mlp"),
         "; not started again: it would diverge again"},
        /* A launch that is gone starts no ranks. */
        {"(for i in $(seq 6000); do grep -qs '^n0: step ' $HOME/out$P && break; sleep 0.05; done; "
         "kill -KILL $(cat $HOME/gone)) & "
         "(sh -c 'echo $$ >$HOME/gone; exec '$G' launch --node-rank 1 --nodes 2 '\"$M\"' -n 2 --restarts 2 "
         "-- " SMALL
         " --slow 0:500' || echo n1: exit 1, not started again: the launch of node rank 1 has gone) & "
         "launch 0 --nodes 2 $M -n 2 --restarts 2 -- " SMALL " --slow 0:500 | tee $HOME/out$P",
         "not started again: the launch of node rank 1 has gone"},
    };
    enum { CASES = sizeof cases / sizeof *cases };
    const char *script[CASES];
    char *output[CASES];
    for (int i = 0; i < CASES; i++) script[i] = cases[i].script;
    gs_test_nodes(CASES, script, output);
    for (int i = 0; i < CASES; i++) {
        const char *first = strstr(output[i], cases[i].wanted);
        if (!first || !strstr(first + 1, cases[i].wanted))
            fail_msg("%s: wanted '%s' of both nodes in: %s", script[i], cases[i].wanted, output[i]);
        assert_has(script[i], output[i], "n0: exit 1");
        assert_has(script[i], output[i], "n1: exit 1");
        free(output[i]);
    }
}

/* A second launch with a node rank ends alone, and does not disturb the run. */
static void a_surplus_launch_ends_alone(void **state) {
    (void)state;
    static const char script[] =
        TWO("--restarts 2 -- " SMALL " --slow 0:400") " >$HOME/out$P & "
                                                      "for i in $(seq 6000); do grep -q '^n0: step ' "
                                                      "$HOME/out$P && break; sleep 0.05; done; sleep 0.2; "
                                                      "launch 1 --nodes 2 $M -n 2 --restarts 2 -- " SMALL
                                                      " | sed s/n1/second/; wait; cat $HOME/out$P";
    char *output;
    gs_test_nodes_one(&output, script);
    assert_has(script, output, "second: gradsum train: rank 2 has arrived twice");
    assert_has(script, output, "; not started again: another launch has come with this node rank");
    assert_has(script, output, "second: exit 2");
    assert_has(script, output, "n0: exit 0");
    assert_has(script, output, "n1: exit 0");
    free(output);
}

GS_TESTS(nodes_restarts, cmocka_unit_test(all_nodes_start_again),
         cmocka_unit_test(where_they_cannot_all_say_why), cmocka_unit_test(a_surplus_launch_ends_alone))
