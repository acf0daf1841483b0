#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/launch/elastic.h"
#include "cli/launch/elastic_party.h"
#include "core/clock.h"

static const double LOOK = 0.05, GONE_WITHIN = 1 /* s until the store knows it */;

/* ---- making it ---- */

gs_status gs_elastic_nodes_create(gs_launch *l, gs_elastic_nodes **out) {
    *out = NULL;
    if (!l->elastic || l->nodes == 1) return GS_OK;
    gs_elastic_nodes *n = calloc(1, sizeof *n);
    if (!n) return gs_fail(GS_E_MEMORY, "no memory for --elastic");
    snprintf(n->was_started_with, sizeof n->was_started_with, "--elastic %.30s and %d ranks", l->elastic,
             l->world);
    const gs_status status = gs_launch_post_create(l, &n->post);
    if (status != GS_OK) {
        free(n);
        return status;
    }
    n->launch = l;
    n->timeout = gs_launch_timeout(l);
    n->since = gs_seconds();
    n->me = n->decided = -1;
    n->exit_status = GS_EXIT_FAILED;
    *out = n;
    return GS_OK;
}

void gs_elastic_nodes_free(gs_elastic_nodes *n) {
    if (!n) return;
    n->post.deserts = !n->ended && !n->said_stopped;
    gs_launch_post_free(&n->post);
    free(n);
}

/* Of this generation: "ready-K-N". */
static void put(gs_elastic_nodes *n, const char *what, const char *value) {
    char key[GS_STORE_KEY];
    snprintf(key, sizeof key, "%s-%d-%d", what, n->generation, n->me);
    gs_launch_post_put(&n->post, key, value, NULL);
}

static void end(gs_elastic_nodes *n, int exit_status, const char *why) {
    if (n->ended) return;
    n->ended = true;
    n->exit_status = exit_status;
    snprintf(n->what, sizeof n->what, "%s", why);
}

/* ---- hearing ---- */

static void note_here(gs_elastic_party *p, const char *value) {
    int used = 0;
    if (sscanf(value, "%d %n", &p->seats, &used) != 1 || p->seats < 1 || p->seats > GS_LAUNCH_MOST) return;
    p->here = true;
    snprintf(p->was_started_with, sizeof p->was_started_with, "%s", value + used);
}

static void note_lost(gs_elastic_nodes *n, gs_elastic_party *p) {
    p->noticed = n->generation;
    if (n->lost_since <= 0) n->lost_since = gs_seconds();
}

static void note_ready(gs_elastic_nodes *n, gs_elastic_party *p, const char *value) {
    int survivors, lost, done, stepped, misused, exact, used = 0;
    if (sscanf(value, "%d %d %d %d %d %d %n", &survivors, &lost, &done, &stepped, &misused, &exact, &used) !=
        6)
        return;
    if (survivors < 0 || survivors > p->count || p->ready == n->generation) return;
    p->ready = n->generation;
    p->report =
        (gs_elastic_report){survivors, lost != 0, done != 0, stepped != 0, misused != 0, exact != 0, ""};
    snprintf(p->report.what, sizeof p->report.what, "%s", value + used);
    if (lost && n->lost_since <= 0) n->lost_since = gs_seconds();
}

static void note_stopped(gs_elastic_nodes *n, gs_elastic_party *p, const char *value) {
    int signal, generation;
    if (sscanf(value, "%d %d", &signal, &generation) != 2 || signal < 1 || generation < 0) return;
    p->stopped_by = signal;
    p->stopped_in = generation;
    if (n->lost_since <= 0) n->lost_since = gs_seconds();
}

static void note_next(gs_elastic_nodes *n, const char *value) {
    const char *line = strchr(value, '\n');
    int used = 0, number, first, count;
    if (!line) return;
    if (*value != GS_NEXT_GENERATION) {
        end(n,
            *value == GS_NEXT_DONE      ? GS_EXIT_OK
            : *value == GS_NEXT_MISUSED ? GS_EXIT_USAGE
                                        : GS_EXIT_FAILED,
            line + 1);
        return;
    }
    if (sscanf(value + 1, " %d %d %d %n", &n->size, &n->kept, &n->survivors, &used) != 3) return;
    for (int i = 0; i < GS_ELASTIC_LAUNCHES; i++) n->party[i].first = n->party[i].count = 0;
    for (const char *at = value + 1 + used; sscanf(at, "%d:%d:%d%n", &number, &first, &count, &used) == 3;) {
        if (number >= 0 && number < GS_ELASTIC_LAUNCHES && first >= 0 && count >= 0 &&
            count <= GS_LAUNCH_MOST)
            n->party[number].first = first, n->party[number].count = count;
        at += used + (at[used] == ',');
    }
    snprintf(n->what, sizeof n->what, "%s", line + 1);
    n->generation++;
    n->lost_since = 0;
    n->said_lost = false;
}

static gs_status see(void *context, const char *key, const char *value) {
    gs_elastic_nodes *n = context;
    const int here = gs_launch_post_number(key, "rank-"), gone = gs_launch_post_number(key, "gone-"),
              stopped = gs_launch_post_number(key, "stopped-");
    int generation, from;
    if (here >= 0 && here < GS_ELASTIC_LAUNCHES)
        note_here(&n->party[here], value);
    else if (gone >= 0 && gone < GS_ELASTIC_LAUNCHES)
        n->party[gone].gone = true;
    else if (stopped >= 0 && stopped < GS_ELASTIC_LAUNCHES)
        note_stopped(n, &n->party[stopped], value);
    else if (gs_launch_post_number(key, "next-") == n->generation)
        note_next(n, value);
    else if (sscanf(key, "lost-%d-%d", &generation, &from) == 2 && generation == n->generation && from >= 0 &&
             from < GS_ELASTIC_LAUNCHES)
        note_lost(n, &n->party[from]);
    else if (sscanf(key, "ready-%d-%d", &generation, &from) == 2 && generation == n->generation &&
             from >= 0 && from < GS_ELASTIC_LAUNCHES)
        note_ready(n, &n->party[from], value);
    return GS_OK;
}

/* ---- joining ---- */

/* Under the first number of this node rank at which no launch was before. One that is still there is in the way. */
static void join(gs_elastic_nodes *n) {
    char key[GS_STORE_KEY], value[120], why[300];
    snprintf(value, sizeof value, "%d %s", n->launch->size, n->was_started_with);
    int number = n->launch->node;
    while (number < GS_ELASTIC_LAUNCHES && n->party[number].gone) number += n->launch->nodes;
    snprintf(key, sizeof key, "rank-%d", number);
    bool there = false;
    if (number >= GS_ELASTIC_LAUNCHES) {
        end(n, GS_EXIT_FAILED, "launches of this node rank have gone too often");
    } else if (gs_launch_post_put(&n->post, key, value, &there) && !there) {
        n->me = number;
    } else if (there) { /* it may have gone a moment ago */
        for (double until = gs_seconds() + GONE_WITHIN;
             gs_seconds() < until && !n->party[number].gone && n->post.store;)
            gs_launch_post_look(&n->post, LOOK, see, n);
        snprintf(why, sizeof why,
                 "another launch has come with --node-rank %d, and is still there: give each node a node "
                 "rank of its own",
                 n->launch->node);
        if (n->party[number].gone || n->post.lost) return;
        n->ended = false; /* that of the others' run, if that has come meanwhile */
        end(n, GS_EXIT_FAILED, why);
    }
}

static void reach(gs_elastic_nodes *n) {
    char why[700];
    if (n->ended) return;
    if (gs_seconds() >= n->next_try) {
        gs_launch_post_reach(&n->post, 0);
        n->next_try = gs_seconds() + GS_POST_TRIES_EVERY;
    }
    if (n->post.lost)
        end(n, GS_EXIT_FAILED,
            *n->post.refused
                ? n->post.refused
                : "node rank 0, where the launches agree, cannot be reached any more: its launch "
                  "has ended, or the network is cut");
    else if (n->post.store && n->me < 0)
        join(n);
    if (n->post.store || n->ended || gs_seconds() - n->since < n->timeout) return;
    snprintf(why, sizeof why, "%s", gs_message());
    end(n, GS_EXIT_FAILED, why);
}

/* ---- for the launch ---- */

void gs_elastic_nodes_look(gs_elastic_nodes *n) {
    reach(n);
    gs_launch_post_look(&n->post, 0, see, n);
    if (n->me == 0) gs_elastic_nodes_decide(n);
    if (n->me >= 0 && n->party[n->me].gone)
        end(n, GS_EXIT_FAILED,
            "node rank 0 has heard nothing of this launch for too long: the others go on without it");
}

int gs_elastic_nodes_generation(const gs_elastic_nodes *n) {
    return n->generation;
}

gs_elastic_share gs_elastic_nodes_share(const gs_elastic_nodes *n) {
    const gs_elastic_party *p = n->me < 0 ? NULL : &n->party[n->me];
    return (gs_elastic_share){p ? p->first : 0, p ? p->count : 0, n->size, n->survivors, n->kept, n->what};
}

const char *gs_elastic_nodes_end(const gs_elastic_nodes *n, int *exit_status) {
    *exit_status = n->exit_status;
    return n->ended ? n->what : NULL;
}

bool gs_elastic_nodes_is_cut_off(const gs_elastic_nodes *n) {
    return n->post.lost;
}

bool gs_elastic_nodes_lost(const gs_elastic_nodes *n) {
    if (n->lost_since > 0) return true;
    for (int i = 0; i < GS_ELASTIC_LAUNCHES; i++)
        if (n->party[i].count > 0 && n->party[i].gone) return true;
    return false;
}

bool gs_elastic_nodes_are_ending(const gs_elastic_nodes *n) {
    for (int i = 0; i < GS_ELASTIC_LAUNCHES; i++)
        if (n->party[i].count > 0 && n->party[i].ready == n->generation && n->party[i].report.done)
            return true;
    return false;
}

bool gs_elastic_nodes_has_newcomers(const gs_elastic_nodes *n, bool exact) {
    int room = 0, newcomers = 0;
    if (n->generation == 0 || n->ended) return false;
    for (int i = 0; i < GS_ELASTIC_LAUNCHES; i++) {
        const gs_elastic_party *p = &n->party[i];
        if (!gs_elastic_takes_part(p)) continue;
        room += p->seats - p->count;
        newcomers += p->count == 0;
    }
    return newcomers > 0 && gs_elastic_size(n->launch, exact, n->size, room) > n->size;
}

void gs_elastic_nodes_say_lost(gs_elastic_nodes *n) {
    if (n->said_lost || n->me < 0) return;
    n->said_lost = true;
    put(n, "lost", "");
}

void gs_elastic_nodes_report(gs_elastic_nodes *n, const gs_elastic_report *r) {
    char value[300];
    gs_elastic_party *p = n->me < 0 ? NULL : &n->party[n->me];
    if (!p || n->ended || p->count == 0 || p->ready == n->generation) return;
    snprintf(value, sizeof value, "%d %d %d %d %d %d %s", r->survivors, r->lost, r->done, r->stepped,
             r->misused, r->exact, r->what);
    put(n, "ready", value);
    note_ready(n, p, value);
}

/* Node rank 0 ends the run. Another one that has no ranks in this generation leaves, and disturbs nobody. */
void gs_elastic_nodes_say_stopped(gs_elastic_nodes *n, int signal, int generation) {
    char key[GS_STORE_KEY], value[40];
    if (n->me < 0) return;
    gs_launch_post_look(&n->post, LOOK, see, n); /* another generation may have begun just now */
    if (n->ended) return;
    n->said_stopped = true;
    if (n->me == 0) {
        gs_elastic_nodes_decide_stopped(n, signal);
        return;
    }
    snprintf(key, sizeof key, n->party[n->me].count > 0 ? "stopped-%d" : "gone-%d", n->me);
    snprintf(value, sizeof value, "%d %d", signal, generation);
    gs_launch_post_put(&n->post, key, value, NULL);
}
