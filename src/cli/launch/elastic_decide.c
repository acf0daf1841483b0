/* What follows a generation: node rank 0 decides it for the launches of all nodes. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/launch/elastic.h"
#include "cli/launch/elastic_party.h"
#include "core/clock.h"
#include "core/text.h"

enum { GENERATIONS = 1000 /* GRADSUM_ATTEMPT has no more */ };
static const double PATIENCE = 5 /* s beyond the time-out, for a launch to be ready after a loss */;

static void say_next(gs_elastic_nodes *n, const char *value) {
    char key[GS_STORE_KEY];
    snprintf(key, sizeof key, "next-%d", n->generation);
    n->decided = n->generation;
    gs_launch_post_put(&n->post, key, value, NULL);
}

/* what: has happened, "": nothing; why: there is no other generation. */
static void say_end(gs_elastic_nodes *n, gs_elastic_next next, const char *what, const char *why) {
    char value[GS_STORE_VALUE];
    snprintf(value, sizeof value, "%c \n%.900s%s%.900s", (char)next, what, *what ? "; " : "", why);
    say_next(n, value);
}

static void say_failed(gs_elastic_nodes *n, const char *what, const char *why) {
    say_end(n, GS_NEXT_FAILED, what, why);
}

static int node_rank(const gs_elastic_nodes *n, const gs_elastic_party *p) {
    return (int)(p - n->party) % n->launch->nodes;
}

/* The seats of `p` that no survivor has. */
static int room_of(const gs_elastic_nodes *n, const gs_elastic_party *p) {
    const int survivors = p->ready == n->generation && p->count > 0 ? p->report.survivors : 0;
    return gs_elastic_takes_part(p) ? p->seats - survivors : 0;
}

static void say_stopped(gs_elastic_nodes *n, int node, int number) {
    char why[200];
    snprintf(why, sizeof why, "node rank %d was stopped by signal %d (%s)", node, number, strsignal(number));
    say_failed(n, "", why);
}

void gs_elastic_nodes_decide_stopped(gs_elastic_nodes *n, int signal) {
    if (n->decided < n->generation) say_stopped(n, 0, signal);
}

/* `size` ranks in the order of nodes; of each node survivors come before new ones. */
static void say_shares(gs_elastic_nodes *n, const char *what, int size, int survivors) {
    char value[GS_STORE_VALUE];
    int first = 0, more = size > survivors ? size - survivors : 0, stay = size < survivors ? size : survivors;
    snprintf(value, sizeof value, "%c %d %d %d ", GS_NEXT_GENERATION, size, stay, survivors);
    for (int node = 0; node < n->launch->nodes; node++)
        for (int i = node; i < GS_ELASTIC_LAUNCHES; i += n->launch->nodes) {
            const gs_elastic_party *p = &n->party[i];
            if (!gs_elastic_takes_part(p)) continue;
            const int its = p->seats - room_of(n, p), kept = its < stay ? its : stay;
            const int new = room_of(n, p) < more ? room_of(n, p) : more;
            stay -= kept;
            more -= new;
            if (kept + new > 0) gs_append(value, sizeof value, "%d:%d:%d,", i, first, kept + new);
            first += kept + new;
        }
    gs_append(value, sizeof value, "\n%.300s", what);
    say_next(n, value);
}

/* What has happened in this generation: if there was wrong usage, that. */
static void describe(const gs_elastic_nodes *n, char *text, size_t size) {
    const char *said = NULL;
    int gone = -1, came = -1;
    for (int i = 0; i < GS_ELASTIC_LAUNCHES; i++) {
        const gs_elastic_party *p = &n->party[i];
        const bool tells = p->count > 0 && p->ready == n->generation && *p->report.what;
        if (tells && (!said || p->report.misused)) said = p->report.what;
        if (p->count > 0 && p->gone && gone < 0) gone = node_rank(n, p);
        if (p->count == 0 && gs_elastic_takes_part(p) && came < 0) came = node_rank(n, p);
    }
    if (gone >= 0)
        snprintf(text, size, "the launch of node rank %d has gone, with its ranks", gone);
    else if (said)
        snprintf(text, size, "%s", said);
    else if (came >= 0)
        snprintf(text, size, "node rank %d has come again", came);
    else
        snprintf(text, size, "a rank was cut off");
}

static void append_strangers(const gs_elastic_nodes *n, char *text, size_t size) {
    char strangers[300] = "";
    if (n->post.store) n->post.store->ops->strangers(n->post.store, strangers, sizeof strangers);
    gs_append(text, size, "%s", strangers);
}

/* All are there: the first generation. */
static void begin(gs_elastic_nodes *n) {
    char why[700] = "";
    int seats = 0;
    for (int i = 0; i < n->launch->nodes && !*why; i++) {
        const gs_elastic_party *p = &n->party[i];
        if (!gs_elastic_takes_part(p)) {
            if (gs_seconds() - n->since < n->timeout && !p->gone) return;
            snprintf(why, sizeof why,
                     p->gone ? "the launch of node rank %d has gone before all had come"
                             : "no launch with --elastic has come from node rank %d within %g s",
                     i, n->timeout);
            if (!p->gone) append_strangers(n, why, sizeof why);
        } else if (strcmp(p->was_started_with, n->was_started_with) != 0) {
            snprintf(why, sizeof why, "node rank %d was started with %s, node rank 0 with %s", i,
                     p->was_started_with, n->was_started_with);
        }
        seats += p->seats;
    }
    if (*why)
        say_failed(n, "", why);
    else
        say_shares(n, "", seats, 0);
}

/* It does not even say that it has heard of the loss, or its ranks cannot be waited for any longer. */
static bool is_silent(const gs_elastic_nodes *n, const gs_elastic_party *p) {
    const double passed = n->lost_since > 0 ? gs_seconds() - n->lost_since : 0;
    return passed > PATIENCE + (p->noticed == n->generation ? n->timeout : 0);
}

/* Nobody of this generation runs or waits. Launches that are silent have gone. */
static bool all_are_ready(gs_elastic_nodes *n) {
    bool all = true;
    for (int i = 0; i < GS_ELASTIC_LAUNCHES; i++) {
        const gs_elastic_party *p = &n->party[i];
        char key[GS_STORE_KEY];
        if (p->count == 0 || p->gone || p->stopped_by || p->ready == n->generation) continue;
        all = false;
        snprintf(key, sizeof key, "gone-%d", i);
        if (i != n->me && is_silent(n, p)) gs_launch_post_put(&n->post, key, "", NULL);
    }
    return all;
}

/* Was a launch stopped that has never begun this generation, so that the ranks of others wait in vain for its own? */
static bool one_never_began(const gs_elastic_nodes *n) {
    for (int i = 0; i < GS_ELASTIC_LAUNCHES; i++) {
        const gs_elastic_party *p = &n->party[i];
        if (p->count > 0 && p->stopped_by && p->stopped_in < n->generation) return true;
    }
    return false;
}

typedef struct total {
    int survivors, room;
    int signal, stopped; /* the signal that has stopped node rank `stopped`; 0: none was */
    bool lost, done, stepped, misused, exact;
} total;

static total add_up(const gs_elastic_nodes *n) {
    total t = {0};
    for (int i = 0; i < GS_ELASTIC_LAUNCHES; i++) {
        const gs_elastic_party *p = &n->party[i];
        t.room += room_of(n, p);
        if (p->count == 0) continue;
        t.lost |= p->gone;
        if (p->gone && p->first == 0) t.stepped = true; /* who can say? */
        if (p->stopped_by) t.signal = p->stopped_by, t.stopped = node_rank(n, p);
        if (p->gone || p->ready != n->generation) continue;
        t.survivors += p->report.survivors;
        t.lost |= p->report.lost || p->report.survivors > 0;
        t.done |= p->report.done;
        t.stepped |= p->report.stepped;
        t.misused |= p->report.misused;
        t.exact |= p->report.exact;
    }
    return t;
}

void gs_elastic_nodes_decide(gs_elastic_nodes *n) {
    char what[400], why[300];
    if (n->decided == n->generation || n->ended) return;
    if (n->generation == 0) {
        begin(n);
        return;
    }
    if (!all_are_ready(n) && !one_never_began(n)) return;
    const total t = add_up(n);
    const int size = gs_elastic_size(n->launch, t.exact, t.survivors, t.room);
    describe(n, what, sizeof what);
    if (t.signal) {
        say_stopped(n, t.stopped, t.signal);
    } else if (!t.lost) {
        say_end(n, GS_NEXT_DONE, "", "");
    } else if (t.done) {
        say_failed(n, what, "the others do not go on: some have done their work");
    } else if (t.misused) {
        say_end(n, GS_NEXT_MISUSED, what, "the others do not go on: " GS_ELASTIC_MISUSED);
    } else if (!t.stepped && n->idle) {
        say_failed(n, what, "the others do not go on: two generations in turn made no step");
    } else if (size == 0) {
        snprintf(why, sizeof why, "the others do not go on: too few are left, %d", t.survivors);
        say_failed(n, what, t.survivors > 0 ? why : "none is left");
    } else if (n->generation == GENERATIONS) {
        say_failed(n, what, "the others do not go on: that was the last generation that can be numbered");
    } else {
        say_shares(n, what, size, t.survivors);
    }
    n->idle = !t.stepped;
}
