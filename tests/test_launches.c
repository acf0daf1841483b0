/* The launches of a run over two nodes, without any rank: what they tell each other at the store of node rank 0, and
 * what they decide, with --elastic and with --restarts. Runs with ranks: test_nodes_elastic.c, test_nodes_restarts.c.
 */
#include "tests/launched.h"

#include <signal.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/launch/elastic_nodes.h"
#include "cli/launch/nodes.h"
#include "cli/launch/post.h"
#include "comm/meet/store.h"
#include "core/clock.h"

typedef struct party {
    gs_launch launch[2];
    gs_elastic_nodes *node[2];
    char meet[600];
} party;

static void describe(party *p) {
    static char *command[] = {"train", NULL};
    setenv("GRADSUM_SECRET", "0123456789abcdef0123", 1);
    snprintf(p->meet, sizeof p->meet, "tcp://127.0.0.1:%d", gs_test_free_port());
    for (int i = 0; i < 2; i++)
        p->launch[i] = (gs_launch){
            .size = 2, .nodes = 2, .node = i, .world = 4, .meet = p->meet, .timeout = 20, .command = command};
}

/* entries: of the store; 0: as many as it usually has. */
static void meet(party *p, int entries) {
    describe(p);
    gs_store_limit(entries);
    for (int i = 0; i < 2; i++) {
        p->launch[i].elastic = "2:4";
        assert_ok(gs_elastic_nodes_create(&p->launch[i], &p->node[i]));
    }
    gs_store_limit(0);
}

static void part(const party *p) {
    unsetenv("GRADSUM_SECRET");
    for (int i = 1; i >= 0; i--) gs_elastic_nodes_free(p->node[i]);
}

static bool has_ended(const gs_elastic_nodes *n) {
    int unused;
    return gs_elastic_nodes_end(n, &unused) != NULL;
}

/* Until both are in this generation, or have ended; for some seconds at most. */
static void talk(const party *p, int generation) {
    for (int turn = 0; turn < 2000; turn++) {
        bool all = true;
        for (int i = 0; i < 2; i++) {
            gs_elastic_nodes_look(p->node[i]);
            all &= has_ended(p->node[i]) || gs_elastic_nodes_generation(p->node[i]) == generation;
        }
        if (all) return;
        gs_nap(0.005);
    }
}

static void begin(party *p, int entries) {
    meet(p, entries);
    talk(p, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gs_elastic_nodes_generation(p->node[i]), 1);
        assert_int_equal(gs_elastic_nodes_share(p->node[i]).first, 2 * i);
        assert_int_equal(gs_elastic_nodes_share(p->node[i]).count, 2);
    }
}

static void assert_end(const party *p, int node, int wanted, const char *part_of_why) {
    int exit_status;
    const char *why = gs_elastic_nodes_end(p->node[node], &exit_status);
    if (!why || !strstr(why, part_of_why))
        fail_msg("wanted '%s', got: %s", part_of_why, why ? why : "no end");
    assert_int_equal(exit_status, wanted);
}

static void survivors_go_on(void **state) {
    (void)state;
    party p;
    begin(&p, 0);
    gs_elastic_nodes_report(
        p.node[1],
        &(gs_elastic_report){.survivors = 1, .lost = true, .stepped = true, .what = "rank 3 died"});
    gs_elastic_nodes_report(p.node[0], &(gs_elastic_report){.survivors = 2, .lost = true, .stepped = true});
    talk(&p, 2);
    const gs_elastic_share share = gs_elastic_nodes_share(p.node[1]);
    assert_int_equal(share.size, 4);
    assert_int_equal(share.survivors, 3);
    assert_int_equal(share.kept, 3);
    assert_string_equal(share.what, "rank 3 died");
    part(&p);
}

/* Those of node rank 0 wait for its ranks, and would for as long as the time-out. */
static void one_is_stopped_before_it_has_begun(void **state) {
    (void)state;
    party p;
    begin(&p, 0);
    gs_elastic_nodes_say_stopped(p.node[1], SIGINT, 0);
    talk(&p, 2);
    assert_end(&p, 0, GS_EXIT_FAILED, "node rank 1 was stopped by signal 2 (Interrupt)");
    part(&p);
}

/* All stop after a step, and save: nobody is hurried. */
static void one_is_stopped_while_all_train(void **state) {
    (void)state;
    party p;
    begin(&p, 0);
    gs_elastic_nodes_say_stopped(p.node[1], SIGTERM, 1);
    for (int turn = 0; turn < 40 || !gs_elastic_nodes_lost(p.node[0]); turn++) {
        gs_elastic_nodes_look(p.node[0]);
        assert_false(has_ended(p.node[0]));
        assert_true(turn < 2000);
        gs_nap(0.005);
    }
    gs_elastic_nodes_report(p.node[0], &(gs_elastic_report){.lost = true, .stepped = true});
    talk(&p, 2);
    assert_end(&p, 0, GS_EXIT_FAILED, "node rank 1 was stopped by signal 15 (Terminated)");
    part(&p);
}

/* It has said already how many of its ranks survive. */
static void one_is_stopped_once_it_is_ready(void **state) {
    (void)state;
    party p;
    begin(&p, 0);
    gs_elastic_nodes_report(p.node[1], &(gs_elastic_report){.survivors = 2, .lost = true, .stepped = true});
    gs_elastic_nodes_say_stopped(p.node[1], SIGINT, 1);
    gs_elastic_nodes_report(p.node[0], &(gs_elastic_report){.survivors = 1, .lost = true, .stepped = true});
    talk(&p, 2);
    assert_end(&p, 0, GS_EXIT_FAILED, "node rank 1 was stopped by signal 2 (Interrupt)");
    part(&p);
}

static void wrong_usage_is_not_repeated(void **state) {
    (void)state;
    party p;
    begin(&p, 0);
    gs_elastic_nodes_report(p.node[0],
                            &(gs_elastic_report){.survivors = 1, .lost = true, .what = "rank 1 failed"});
    gs_elastic_nodes_report(p.node[1], &(gs_elastic_report){.survivors = 1,
                                                            .lost = true,
                                                            .misused = true,
                                                            .what = "rank 2 failed with exit status 2"});
    talk(&p, 2);
    for (int i = 0; i < 2; i++)
        assert_end(&p, i, GS_EXIT_USAGE,
                   "rank 2 failed with exit status 2; the others do not go on: wrong usage would fail again");
    part(&p);
}

/* It holds who is there, and the first generation. */
static void a_full_store_says_so(void **state) {
    (void)state;
    party p;
    begin(&p, 3);
    gs_elastic_nodes_say_lost(p.node[1]);
    talk(&p, 2);
    for (int i = 0; i < 2; i++)
        assert_end(&p, i, GS_EXIT_FAILED, ", where the ranks meet, is full: it holds 3 of at most 3 entries");
    part(&p);
}

/* ---- --restarts ---- */

static int nobody_stops(void *context) {
    (void)context;
    return 0;
}

/* It holds who is there, `entries`, and not how the attempt has ended. */
static void assert_full_ends(party *p, int entries, const char *where) {
    gs_launch_nodes *node[2];
    gs_restarts *restarts;
    gs_launch_end all;
    char what[1400], wanted[100];
    snprintf(wanted, sizeof wanted, ", where the ranks meet, is full: it holds %d of at most %d entries",
             entries, entries);
    gs_store_limit(entries);
    for (int i = 0; i < 2; i++) {
        p->launch[i].restarts = 3;
        assert_ok(gs_launch_nodes_create(&p->launch[i], &node[i]));
    }
    for (int turn = 0; turn < 2000; turn++) {
        const bool first = gs_launch_nodes_look(node[0]), second = gs_launch_nodes_look(node[1]);
        if ((!first && !second) || (!p->launch[0].store && turn == 3)) break; /* else they beat for ever */
        gs_nap(0.005);
    }
    for (int i = 1; i >= 0; i--) {
        assert_ok(gs_restarts_create(&p->launch[i], &restarts));
        assert_false(gs_launch_nodes_agree(node[i], restarts, &(gs_launch_report){.end = GS_ENDED_FAILED}, 20,
                                           nobody_stops, NULL, &all, what, sizeof what));
        assert_int_equal(all, GS_ENDED_FAILED);
        if (!strstr(what, where) || !strstr(what, wanted)) fail_msg("%d: %s", i, what);
        gs_restarts_free(restarts);
    }
    for (int i = 1; i >= 0; i--) gs_launch_nodes_free(node[i]);
    gs_store_limit(0);
    unsetenv("GRADSUM_SECRET");
}

static void a_full_store_ends_the_restarts(void **state) {
    (void)state;
    party p;
    describe(&p);
    assert_full_ends(&p, 2, "; not started again: 127.0.0.1 port ");
}

/* There each launch has a beat, too. Nothing is left. */
static void a_full_folder_ends_the_restarts(void **state) {
    (void)state;
    party p;
    describe(&p);
    snprintf(p.meet, sizeof p.meet, "file:%.500s/full", gs_test_folder());
    assert_full_ends(&p, 4, "; not started again: the folder ");
    assert_int_not_equal(access(p.meet + strlen("file:"), F_OK), 0);
}

/* ---- who lives ---- */

/* What the store has held all the time. */
static gs_status slow_look(gs_store *s, double seconds, gs_store_seen *seen, void *context) {
    (void)s;
    gs_nap(seconds);
    return seen(context, "beat-0", "0000000001");
}

/* Time in which a launch is stopped is not the silence of another, also where it is stopped in the middle of a look. */
static void who_is_stopped_takes_nobody_for_silent(void **state) {
    (void)state;
    static const gs_store_ops ops = {.look = slow_look};
    gs_store store = {.ops = &ops};
    gs_launch_pulse pulse[2] = {0};
    gs_launch_post p = {.r = {.rank = 1, .size = 2, .timeout = 1}, .store = &store, .pulse = pulse};
    static const struct {
        double seconds;
        bool silent;
    } looks[] = {{0, false}, {1.6, false} /* what it hears is what was there before */, {0, true}};
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
        gs_launch_post_look(&p, looks[i].seconds, NULL, NULL);
        assert_int_equal(gs_launch_post_is_silent(&p, 0), looks[i].silent);
    }
}

GS_TESTS(launches, cmocka_unit_test(survivors_go_on), cmocka_unit_test(one_is_stopped_before_it_has_begun),
         cmocka_unit_test(one_is_stopped_while_all_train), cmocka_unit_test(one_is_stopped_once_it_is_ready),
         cmocka_unit_test(wrong_usage_is_not_repeated), cmocka_unit_test(a_full_store_says_so),
         cmocka_unit_test(a_full_store_ends_the_restarts), cmocka_unit_test(a_full_folder_ends_the_restarts),
         cmocka_unit_test(who_is_stopped_takes_nobody_for_silent))
