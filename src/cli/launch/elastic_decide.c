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

static void say_end(gs_elastic_nodes *n, const char *what, const char *why) {
    char value[GS_STORE_VALUE];
    snprintf(value, sizeof value, "0 \n%.900s%s%.900s", what, *what ? "; " : "", why);
    say_next(n, value);
}

static int node_rank(const gs_elastic_nodes *n, const gs_elastic_party *p) {
    return (int)(p - n->party) % n->launch->nodes;
}

/* The seats of `p` that none of those that are left has. */
static int room_of(const gs_elastic_nodes *n, const gs_elastic_party *p) {
    const int left = p->ready == n->generation && p->count > 0 ? p->report.left : 0;
    return gs_elastic_takes_part(p) ? p->seats - left : 0;
}

static void say_stopped(gs_elastic_nodes *n, int node, int number) {
    char why[200];
    snprintf(why, sizeof why, "node rank %d was stopped by signal %d (%s)", node, number, strsignal(number));
    say_end(n, "", why);
}

void gs_elastic_nodes_say_stopped(gs_elastic_nodes *n, int signal) {
    if (n->decided < n->generation) say_stopped(n, 0, signal);
}

/* `size` ranks in the order of nodes; those that are left come before new ones. */
static void say_shares(gs_elastic_nodes *n, const char *what, int size, int left) {
    char value[GS_STORE_VALUE];
    int first = 0, more = size > left ? size - left : 0, stay = size < left ? size : left;
    snprintf(value, sizeof value, "1 %d %d %d ", size, stay, left);
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

/* What has happened in this generation. */
static void describe(const gs_elastic_nodes *n, char *text, size_t size) {
    const char *said = NULL;
    int gone = -1, came = -1;
    for (int i = 0; i < GS_ELASTIC_LAUNCHES; i++) {
        const gs_elastic_party *p = &n->party[i];
        if (p->count > 0 && p->ready == n->generation && *p->report.what && !said) said = p->report.what;
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
        say_end(n, "", why);
    else
        say_shares(n, "", seats, 0);
}

/* It does not even say that it has heard of the loss, or its ranks cannot be waited for any longer. */
static bool is_silent(const gs_elastic_nodes *n, const gs_elastic_party *p) {
    const double passed = n->lost_since > 0 ? gs_seconds() - n->lost_since : 0;
    return passed > PATIENCE + (p->noticed == n->generation ? n->timeout : 0);
}

/* True: all have said what is left of them. Those that are silent have gone. */
static bool all_are_ready(gs_elastic_nodes *n) {
    bool all = true;
    for (int i = 0; i < GS_ELASTIC_LAUNCHES; i++) {
        const gs_elastic_party *p = &n->party[i];
        char key[GS_STORE_KEY];
        if (p->count == 0 || p->gone || p->ready == n->generation) continue;
        all = false;
        snprintf(key, sizeof key, "gone-%d", i);
        if (i != n->me && is_silent(n, p)) gs_launch_post_put(&n->post, key, "", NULL);
    }
    return all;
}

typedef struct total {
    int left, room, signal, stopped;
    bool lost, done, stepped;
} total;

static total add_up(const gs_elastic_nodes *n) {
    total t = {0};
    for (int i = 0; i < GS_ELASTIC_LAUNCHES; i++) {
        const gs_elastic_party *p = &n->party[i];
        t.room += room_of(n, p);
        if (p->count == 0) continue;
        t.lost |= p->gone;
        if (p->gone && p->first == 0) t.stepped = true; /* who can say? */
        if (p->gone || p->ready != n->generation) continue;
        t.left += p->report.left;
        t.lost |= p->report.lost || p->report.left > 0;
        t.done |= p->report.done;
        t.stepped |= p->report.stepped;
        if (p->report.signal) t.signal = p->report.signal, t.stopped = node_rank(n, p);
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
    if (!all_are_ready(n)) return;
    const total t = add_up(n);
    const int size = gs_elastic_size(n->launch, t.left, t.room);
    describe(n, what, sizeof what);
    if (t.signal) {
        say_stopped(n, t.stopped, t.signal);
    } else if (!t.lost) {
        say_next(n, "2 \n");
    } else if (t.done) {
        say_end(n, what, "the others do not go on: some have done their work");
    } else if (!t.stepped && n->idle) {
        say_end(n, what, "the others do not go on: two generations in turn made no step");
    } else if (size == 0) {
        snprintf(why, sizeof why, "the others do not go on: too few are left, %d", t.left);
        say_end(n, what, t.left > 0 ? why : "none is left");
    } else if (n->generation == GENERATIONS) {
        say_end(n, what, "the others do not go on: that was the last generation that can be numbered");
    } else {
        say_shares(n, what, size, t.left);
    }
    n->idle = !t.stepped;
}
