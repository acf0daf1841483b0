/* launch --restarts over several nodes that meet in a folder or at a server of Redis: places that are there before the
 * launches and after them. As over tcp (test_nodes_restarts.c) all start again together, or each says why not; and
 * nothing is left of the run, also where a launch was killed.
 */
#include "tests/draw.h"
#include "tests/nodes.h"
#include "tests/program.h"
#include "tests/redis.h"

#include <unistd.h>

#define SMALL "train --model softmax --steps 9 --threads 1 --batch 600"
#define TWO(rest) "launch 1 --nodes 2 $M -n 2 " rest " & launch 0 --nodes 2 $M -n 2 " rest "; wait; "
#define FAULT(what) "unset GRADSUM_CHECK; export GRADSUM_FAULT=" what "; "
#define WAIT_FOR_NOTHING "for i in $(seq 100); do [ \"$(left)\" ] || break; sleep 0.1; done; "
#define LONG "--timeout 6 --restarts 2 -- " SMALL " --slow 0:300"
/* Two launches, of which one gets this signal when rank 0 trains; then the script goes on. */
#define DISTURBED(number, victim, other)                                                                     \
    "export P G M; sh -c 'echo $$ >$HOME/pid$P; exec $G launch --node-rank " #victim                         \
    " --nodes 2 $M -n 2 " LONG "; ' >$HOME/victim$P 2>&1 & launch " #other " --nodes 2 $M -n 2 " LONG        \
    " >$HOME/other$P & O=$!; for i in $(seq 6000); do "                                                      \
    "grep -qs '^\\(n[01]: \\)*step ' $HOME/victim$P $HOME/other$P && break; sleep 0.05; done; "              \
    "kill -" #number " $(cat $HOME/pid$P); "

/* ---- places ---- */

/* `left` prints what is left there. */
static const char *const places[] = {
    "M=--meet=file:$HOME/meet$P; left() { ls -d $HOME/meet$P $HOME/meet$P/* 2>/dev/null; }; ",
    "M=--meet=redis://127.0.0.1:$REDIS/run$P; left() { redis-cli -p $REDIS keys \"*:run$P\"; }; "};

enum { PLACES = sizeof places / sizeof *places, CASES = 6 };

/* ---- what is said there ---- */

typedef struct run {
    const char *script, *both,
        *wanted[6]; /* both: what both launches say in a line of their own; NULL: nothing */
} run;

static char text[PLACES * CASES][2000]; /* of the scripts */

static void assert_says(const char *script, const char *output, const char *wanted) {
    if (!strstr(output, wanted)) fail_msg("%s: wanted '%s' in: %s", script, wanted, output);
}

static void assert_launch_says(const char *output, int node, const char *wanted) {
    char begin[40];
    snprintf(begin, sizeof begin, "n%d: gradsum launch: ", node);
    for (const char *line = output; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *found = strncmp(line, begin, strlen(begin)) == 0 ? strstr(line, wanted) : NULL;
        if (found && found < line + strcspn(line, "\n")) return;
    }
    fail_msg("wanted '%s' of node %d in: %s", wanted, node, output);
}

/* Each run at each place, all at once; whole: the hash of its weights, or NULL. */
static void assert_runs(const run *runs, int count, const char *whole) {
    const int redis = gs_test_redis_start();
    const char *script[PLACES * CASES];
    char *output[PLACES * CASES], hash[65];
    const int all = count * (redis > 0 ? PLACES : 1);
    char port[16];
    snprintf(port, sizeof port, "%d", redis);
    setenv("REDIS", port, 1);
    for (int i = 0; i < all; i++) {
        snprintf(text[i], sizeof text[i], "%s%s echo \"left: $(left).\"", places[i / count],
                 runs[i % count].script);
        script[i] = text[i];
    }
    gs_test_nodes(all, script, output);
    gs_test_redis_end();
    for (int i = 0; i < all; i++) {
        for (const char *const *wanted = runs[i % count].wanted; *wanted; wanted++)
            assert_says(script[i], output[i], *wanted);
        assert_says(script[i], output[i], "left: .");
        for (int node = 0; node < 2 && runs[i % count].both; node++)
            assert_launch_says(output[i], node, runs[i % count].both);
        if (whole) gs_test_hash_of(output[i], hash);
        if (whole && strcmp(hash, whole) != 0) fail_msg("%s: other weights: %s", script[i], output[i]);
        free(output[i]);
    }
    if (!redis) skip_because("not at Redis: it is not installed (Debian: redis-server)");
}

/* A rank of the one node is killed in each attempt, or of the other, at an operation that is drawn. */
static void all_nodes_start_again(void **state) {
    (void)state;
    draw d = {.run = (uint64_t)getpid()};
    run runs[2];
    char *output, whole[65], script[2][700];
    gs_test_nodes_one(&output, "launch 0 -n 4 -- " SMALL);
    gs_test_hash_of(output, whole);
    free(output);
    for (int i = 0; i < 2; i++) {
        snprintf(
            script[i], sizeof script[i],
            FAULT("kill:rank=%d,operation=%d")
                TWO("--restarts 20 -- " SMALL " --slow 0:120 --checkpoint $HOME/kept$P --checkpoint-every 2"),
            2 * i + one_of(&d, 2), 9 + one_of(&d, 3));
        runs[i] =
            (run){script[i], "; restart 1 of 20: it goes on after step ", {"n0: exit 0", "n1: exit 0", NULL}};
    }
    assert_runs(runs, 2, whole);
}

/* Those that are left, each with the same sentence. */
static void where_they_cannot_all_say_why(void **state) {
    (void)state;
    static const run runs[] = {
        {FAULT("kill:rank=3,operation=9") TWO("--restarts 1 -- " SMALL),
         "; that was the last of 1 restart",
         {"n1: gradsum launch: rank 3 was killed by signal 9 (Killed); ", "n0: exit 1", "n1: exit 1"}},
        {TWO("--restarts 2 -- " SMALL " --lr 100000 --model mlp"),
         "; not started again: it would diverge again",
         {"n0: exit 1", "n1: exit 1"}},
        {DISTURBED(KILL, 1, 0) "wait; cat $HOME/other$P; ",
         NULL,
         {"; not started again: the launch of node rank 1 has gone", "n0: exit 1"}},
        {DISTURBED(KILL, 0, 1) "wait; cat $HOME/other$P; ",
         NULL,
         {"; not started again: the launch of node rank 0 has gone", "n1: exit 1"}},
        /* It is stopped, as if its machine had been cut off, and goes on when the other has ended. */
        {FAULT("kill:rank=1,operation=12") DISTURBED(
             STOP, 1, 0) "wait $O; kill -CONT $(cat $HOME/pid$P); wait; cat $HOME/other$P $HOME/victim$P; ",
         NULL,
         {"n0: gradsum launch: rank 1 was killed by signal 9 (Killed); ",
          "; not started again: the launch of node rank 1 has gone", "n0: exit 1",
          ", where the launches agree, cannot be reached"}},
        /* Before it has come to the place. At Redis what is said there is gone after 3 s: the others come first. */
        {FAULT("'delay:rank=3,operation=0,seconds=5;kill:rank=3,operation=0'") TWO("-- " SMALL)
             WAIT_FOR_NOTHING,
         NULL,
         {"n0: gradsum launch: rank ",
          ": rank 3 failed before it joined: it was killed by signal 9 (Killed), on node rank 1 (host ",
          "n1: gradsum launch: rank 3 was killed by signal 9 (Killed)", "n0: exit 1", "n1: exit 1"}},
    };
    assert_runs(runs, sizeof runs / sizeof *runs, NULL);
}

#define SERVED(rest)                                                                                         \
    "M=--meet=redis://127.0.0.1:$P/run; redis-server --port $P --bind 127.0.0.1 --save '' --dir $HOME "      \
    ">/dev/null & S=$!; for i in $(seq 3000); do redis-cli -p $P ping 2>/dev/null | grep -q PONG && break; " \
    "sleep 0.02; done; (" TWO(rest) ") >$HOME/both$P & for i in $(seq 6000); do grep -q '^n0: step ' "       \
                                    "$HOME/both$P && break; sleep "                                          \
                                    "0.05; done; kill -KILL $S; wait; cat $HOME/both$P"

/* It is missed only where a rank is lost. */
static void a_server_that_ends_is_named(void **state) {
    (void)state;
    static const char *const script[] = {FAULT("kill:rank=2,operation=12") SERVED(LONG), SERVED(LONG)},
                             *const wanted[] = {"; not started again: redis://127.0.0.1:",
                                                "the ranks here are done, and redis://127.0.0.1:"};
    char *output[2], end[20];
    if (gs_test_shell(NULL, "command -v redis-server && command -v redis-cli") != 0)
        skip_because("Redis is not installed (Debian: redis-server)");
    gs_test_nodes(2, script, output);
    for (int i = 0; i < 2; i++) {
        assert_says(script[i], output[i], "/run, where the launches agree, cannot be reached\n");
        for (int node = 0; node < 2; node++) {
            assert_launch_says(output[i], node, wanted[i]);
            snprintf(end, sizeof end, "n%d: exit %d", node, i == 0);
            assert_says(script[i], output[i], end);
        }
        free(output[i]);
    }
}

/* Before any rank is started: what was left by a launch that was killed is not read. */
static void a_place_that_is_in_use_is_refused(void **state) {
    (void)state;
    static const char script[] =
        "F=$HOME/old; mkdir -p $F/attempt-1; echo 0000000001 >$F/launch-beat-0; echo '1 /no/such' "
        ">$F/launch-next-1; launch 0 --nodes 2 --meet file:$F -n 1 --restarts 2 -- " SMALL "; ls $F; mkdir "
        "$HOME/notes; touch $HOME/notes/x; launch 1 --nodes 2 --meet file:$HOME/notes -n 1 --restarts 2 "
        "-- " SMALL
        "; launch 2 --nodes 3 --meet redis://127.0.0.1:$P --timeout 0.5 -n 1 --restarts 2 -- " SMALL;
    static const char *const wanted[] = {
        "n0: gradsum launch: another launch has come with --node-rank 0 to file:",
        "if one that was killed has left this behind, use a new folder",
        "n0: exit 1\nattempt-1\nlaunch-beat-0\nlaunch-next-1\n",
        "n1: gradsum launch: the folder ",
        "holds 'x': use a new folder for each run",
        "n1: exit 1",
        "n2: gradsum launch: node rank 2: no server of Redis could be used at 127.0.0.1 port ",
        "n2: exit 1",
    };
    char *output;
    gs_test_nodes_one(&output, script);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) assert_says(script, output, wanted[i]);
    free(output);
}

GS_TESTS(nodes_places, cmocka_unit_test(all_nodes_start_again),
         cmocka_unit_test(where_they_cannot_all_say_why), cmocka_unit_test(a_server_that_ends_is_named),
         cmocka_unit_test(a_place_that_is_in_use_is_refused))
