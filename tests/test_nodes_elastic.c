/* launch --elastic over several nodes, which are simulated on this machine: ranks and a whole launch are lost, and one
 * comes again. With --exact the weights are those of a run that was never disturbed. tests/elastic_nodes.sh has random
 * moments.
 */
#include "tests/nodes.h"
#include "tests/program.h"

#define SMALL "train --exact --model softmax --steps 12 --threads 1 --batch 600 --epochs 9"
#define SLOW SMALL " --slow 0:250" /* 3 s: a launch must be killed, and another one come, before the end */
#define FAULT(what) "unset GRADSUM_CHECK; export GRADSUM_FAULT='" what "'; "
#define TWO(rest) "launch 1 --nodes 2 $M -n 2 " rest " & launch 0 --nodes 2 $M -n 2 " rest
/* A launch that can be killed with all that is its own, and its output. */
#define KILLABLE_OF(nodes, rank, rest)                                                                       \
    "export P G M; sh -c 'echo $$ >$HOME/killed$P; exec $G launch --node-rank " #rank " --nodes " #nodes     \
    " $M -n 2 " rest "' >$HOME/killable$P 2>&1 & "
#define KILLABLE(rank, rest) KILLABLE_OF(2, rank, rest)
#define KILLS(number) "kill -" #number " $(cat $HOME/killed$P); "
/* Until rank 0 trains. */
#define TRAINS(name)                                                                                         \
    "for i in $(seq 6000); do grep -q '^\\(n0: \\)*step ' $HOME/" name                                       \
    "$P && break; sleep 0.05; done; sleep 0.2; "
/* Until so many launches have a connection to the store of node rank 0. */
#define REACHED(count)                                                                                       \
    "for i in $(seq 6000); do [ $(grep -ci \": 0100007F:$(printf %04X $P) 0100007F:.... 01 \" "              \
    "/proc/net/tcp) "                                                                                        \
    "-lt " #count " ] || break; sleep 0.05; done; sleep 0.2; "
#define FIRST(rest) "launch 0 --nodes 2 $M -n 2 " rest " >$HOME/out$P 2>&1 & "
#define LAST "wait; cat $HOME/out$P $HOME/killable$P"

enum { MOST = 12 /* scripts at once */ };

typedef struct run {
    const char *script, *wanted[5];
} run;

static void assert_runs(int count, const run *runs, const char *hash) {
    const char *script[MOST];
    char *output[MOST], its[65];
    assert_in_range(count, 1, MOST);
    for (int i = 0; i < count; i++) script[i] = runs[i].script;
    gs_test_nodes(count, script, output);
    for (int i = 0; i < count; i++) {
        for (const char *const *wanted = runs[i].wanted; *wanted; wanted++)
            if (!strstr(output[i], *wanted))
                fail_msg("%s: wanted '%s' in: %s", script[i], *wanted, output[i]);
        if (hash) gs_test_hash_of(output[i], its);
        if (hash && strcmp(its, hash) != 0) fail_msg("%s: other weights: %s", script[i], output[i]);
        free(output[i]);
    }
}

static void those_that_are_left_go_on(void **state) {
    (void)state;
    static const run runs[] = {
        /* A rank of the second node; in the next generation rank 0, and so the one that prints. */
        {FAULT("kill:rank=3,operation=12;kill:rank=0,operation=12,generation=2")
             TWO("--elastic 2:4 -- " SMALL),
         {"n0: gradsum launch: rank 3 was killed by signal 9 (Killed); generation 2: 3 go on, 1 new",
          "n1: gradsum launch: rank 0 was killed by signal 9 (Killed); generation 3: 3 go on, 1 new",
          "n0: exit 0", "n1: exit 0"}},
        /* One that never comes to the store; nobody waits for it as long as this. */
        {FAULT("kill:rank=3,operation=0") TWO("--timeout 100 --elastic 2:4 -- " SMALL),
         {"n0: gradsum launch: rank 3 was killed by signal 9 (Killed); generation 2: 3 go on, 1 new",
          "n0: exit 0", "n1: exit 0"}},
        /* All of node rank 0: its launch goes on without a rank of its own. */
        {FAULT("kill:rank=0,operation=12;kill:rank=1,operation=12") TWO("--elastic 2 -- " SMALL),
         {"n1: gradsum launch: rank ", "generation 2: 2 go on", "n0: exit 0", "n1: exit 0"}},
        /* A rank that hangs. */
        {FAULT("stop:rank=2,operation=12") TWO("--timeout 3 --elastic 2:4 -- " SMALL),
         {"n0: gradsum launch: rank 2 hangs: process ", "is stopped; generation 2: 3 go on, 1 new",
          "n0: exit 0", "n1: exit 0"}},
        /* A whole node. */
        {FIRST("--elastic 2:4 -- " SLOW) KILLABLE(1, "--elastic 2:4 -- " SLOW) TRAINS("out") KILLS(KILL) LAST,
         {"n0: gradsum launch: the launch of node rank 1 has gone, with its ranks; generation 2: 2 go on",
          "n0: exit 0"}},
        /* It comes again, when the others train without it. */
        {FIRST("--elastic 2:4 -- " SLOW) KILLABLE(1, "--elastic 2:4 -- " SLOW) TRAINS("out") KILLS(
             KILL) "for i in $(seq 6000); do grep -q '; generation 2: 2 go on$' $HOME/out$P && "
                   "break; sleep 0.05; done; launch 1 --nodes 2 $M -n 2 --elastic 2:4 -- " SLOW "; " LAST,
         {"n1: gradsum launch: node rank 1 has come again; generation 3: 2 go on, 2 new\n",
          "n0: elastic  4 workers go on after step ", "n0: exit 0", "n1: exit 0"}},
    };
    char *output, hash[65];
    gs_test_nodes_one(&output, "launch 0 -n 4 -- " SMALL);
    gs_test_hash_of(output, hash);
    free(output);
    assert_runs(sizeof runs / sizeof *runs, runs, hash);
}

/* Each launch that is left says why. */
static void where_they_cannot_all_say_why(void **state) {
    (void)state;
    static const run runs[] = {
        {FAULT("kill:rank=3,operation=12") TWO("--elastic 4 -- " SMALL),
         {"n0: gradsum launch: rank 3 was killed by signal 9 (Killed); the others do not go on: too few are "
          "left, 3",
          "n1: gradsum launch: rank 3 was killed by signal 9 (Killed); the others do not go on: too few are "
          "left, 3",
          "n0: exit 1", "n1: exit 1"}},
        {FAULT("usage:rank=3,operation=12") TWO("--elastic 2:4 -- " SMALL),
         {"n0: gradsum launch: rank 3 failed with exit status 2; the others do not go on: wrong usage would "
          "fail again",
          "n1: gradsum launch: rank 3 failed with exit status 2; the others do not go on: wrong usage would "
          "fail again",
          "n0: exit 2", "n1: exit 2"}},
        {"launch 1 --nodes 2 $M -n 2 --elastic 1 -- " SMALL
         " & launch 0 --nodes 2 $M -n 2 --elastic 2 -- " SMALL,
         {"n0: gradsum launch: node rank 1 was started with --elastic 1 and 4 ranks, node rank 0 with "
          "--elastic 2",
          "n1: gradsum launch: node rank 1 was started with --elastic 1 and 4 ranks, node rank 0 with "
          "--elastic 2",
          "n0: exit 1", "n1: exit 1"}},
        {"launch 0 --nodes 2 $M -n 2 --elastic 2 --timeout 1 -- " SMALL,
         {"n0: gradsum launch: no launch with --elastic has come from node rank 1 within 1 s", "n0: exit 1"}},
        {"launch 1 --nodes 2 $M -n 2 --elastic 2 --timeout 1 -- " SMALL,
         {"n1: gradsum launch: node rank 1: nobody could be reached at 127.0.0.1 port ", "n1: exit 1"}},
        {FAULT("kill:rank=0,operation=5,generation=all") TWO("--elastic 1:4 -- " SMALL),
         {"; generation 2: ", "the others do not go on: two generations in turn made no step", "n0: exit 1",
          "n1: exit 1"}},
        {FIRST("--elastic 2:4 -- " SLOW) "launch 1 --nodes 2 $M -n 2 --elastic 2:4 -- " SLOW " & " TRAINS(
             "out") "launch 1 --nodes 2 $M -n 2 --elastic 2:4 -- " SLOW
                    " | sed s/n1/second/; wait; cat $HOME/out$P",
         {"second: gradsum launch: another launch has come with --node-rank 1, and is still there",
          "second: exit 1", "n0: exit 0", "n1: exit 0"}},
        /* Node rank 0, and with it the store. */
        {"launch 1 --nodes 2 $M -n 2 --elastic 2:4 -- " SLOW " & " KILLABLE(0, "--elastic 2:4 -- " SLOW)
             TRAINS("killable") KILLS(KILL),
         {"n1: gradsum launch: node rank 0, where the launches agree, cannot be reached any more",
          "n1: exit 1"}},
        {FIRST("--elastic 2:4 -- " SLOW) KILLABLE(1, "--elastic 2:4 -- " SLOW) TRAINS("out") KILLS(TERM) LAST,
         {"n0: gradsum launch: node rank 1 was stopped by signal 15 (Terminated)",
          "gradsum launch: stopped by signal 15 (Terminated)", "n0: exit 1"}},
        /* Before the last node has come. */
        {"launch 1 --nodes 3 $M -n 2 --elastic 2 -- " SMALL " & " KILLABLE_OF(3, 0, "--elastic 2 -- " SMALL)
             REACHED(2) KILLS(TERM) "wait; cat $HOME/killable$P",
         {"n1: gradsum launch: node rank 0 was stopped by signal 15 (Terminated)",
          "gradsum launch: stopped by signal 15 (Terminated)", "n1: exit 1"}},
    };
    assert_runs(sizeof runs / sizeof *runs, runs, NULL);
}

/* On every node, before anything is started. */
static void what_it_goes_with(void **state) {
    (void)state;
    for (int node = 0; node < 2; node++) {
        gs_test_program_prints(2,
                               "--elastic 2: the launches of several nodes agree at a store that tells at "
                               "once which of them has gone",
                               "launch -n 2 --elastic 2 --nodes 2 --node-rank %d --meet file:/no -- train",
                               node);
        gs_test_program_prints(2, "--elastic 2:5: more than the 4 processes of all nodes",
                               "launch -n 2 --elastic 2:5 --nodes 2 --node-rank %d --meet tcp://h:1 -- train",
                               node);
        gs_test_program_prints(2, "--elastic 2: 65 nodes; wanted 64 at most",
                               "launch -n 2 --elastic 2 --nodes 65 --node-rank %d --meet tcp://h:1 -- train",
                               node);
    }
}

GS_TESTS(nodes_elastic, cmocka_unit_test(those_that_are_left_go_on),
         cmocka_unit_test(where_they_cannot_all_say_why), cmocka_unit_test(what_it_goes_with))
