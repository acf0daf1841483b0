#include "cli/launch/nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/launch/post.h"
#include "core/clock.h"
#include "core/text.h"

enum { NODES = 1024 };
static const double LOOK = 0.05, PATIENCE = 10 /* s beyond the time-out */, REACH = 2 /* s for the store */,
                    COMES = 3 /* s for a launch, after its ranks have failed */;

typedef struct node {
    bool here, gone;
    char was_started_with[60];
    int ended;               /* the last attempt that has ended there, */
    gs_launch_report report; /* and how */
} node;

struct gs_launch_nodes {
    gs_launch_post post;
    double failed_since;       /* somebody has failed in this attempt; 0: nobody */
    int next_of;               /* the attempt of which node rank 0 has said what follows, */
    char next[GS_STORE_VALUE]; /* and what */
    char was_started_with[60];
    bool surplus;          /* another launch has come with this node rank before */
    char unreachable[250]; /* what is said where the store cannot be reached */
    node node[NODES];
};

/* ---- making it ---- */

gs_status gs_launch_nodes_check(const gs_launch *l) {
    char what[40];
    snprintf(what, sizeof what, "--restarts %d", l->restarts);
    return gs_launch_post_check(l, what, NODES, false);
}

/* within: seconds */
static void reach(gs_launch_nodes *n, double within) {
    if (n->surplus || !gs_launch_post_reach(&n->post, within)) return;
    gs_launch_post_join(&n->post, n->was_started_with, &n->surplus);
    if (n->surplus) gs_launch_post_leave(&n->post); /* what becomes of it is nothing to the others */
}

/* To a store that is there before the launches. One that stays after them may hold what a launch has left there that
 * was killed, with all others. */
static gs_status come(gs_launch_nodes *n) {
    const gs_launch_post *p = &n->post;
    char advice[120] = "use a new folder";
    reach(n, p->r.timeout);
    if (p->place.kind == GS_MEET_REDIS)
        snprintf(advice, sizeof advice, "choose another NAME, or wait until it is forgotten, %g s at most",
                 gs_store_memory(p->r.timeout));
    if (!n->surplus) return p->store ? GS_OK : GS_E_PEER; /* it has said why */
    return gs_fail(
        GS_E_USAGE,
        "another launch has come with --node-rank %d to %s: give each node a node rank of its own; "
        "if one that was killed has left this behind, %s",
        p->r.rank, p->r.meet, advice);
}

gs_status gs_launch_nodes_create(gs_launch *l, gs_launch_nodes **out) {
    *out = NULL;
    if (l->restarts == 0 || l->nodes == 1) return GS_OK;
    gs_launch_nodes *n = calloc(1, sizeof *n);
    if (!n) return gs_fail(GS_E_MEMORY, "no memory for --restarts");
    snprintf(n->was_started_with, sizeof n->was_started_with, "--restarts %d and %d ranks", l->restarts,
             l->world);
    gs_status status = gs_launch_post_create(l, &n->post);
    n->post.attempt = 1;
    snprintf(n->unreachable, sizeof n->unreachable, "%.200s, where the launches agree, cannot be reached",
             n->post.pulse ? n->post.r.meet : "node rank 0");
    if (status == GS_OK && n->post.pulse) status = come(n);
    if (status == GS_OK)
        *out = n;
    else
        gs_launch_nodes_free(n);
    return status;
}

void gs_launch_nodes_free(gs_launch_nodes *n) {
    if (!n) return;
    gs_launch_post_free(&n->post);
    free(n);
}

/* ---- hearing ---- */

static void note_end(gs_launch_nodes *n, int attempt, int rank, const char *value) {
    int end, signal, lost, code, stepped;
    if (sscanf(value, "%d %d %d %d %d", &end, &signal, &lost, &code, &stepped) != 5) return;
    if (end < GS_ENDED_WELL || end > GS_ENDED_STOPPED || code < GS_OK || code > GS_E_DIVERGED) return;
    n->node[rank].ended = attempt;
    n->node[rank].report =
        (gs_launch_report){(gs_launch_end)end, signal, {lost != 0, (gs_status)code, stepped != 0}};
    if (end != GS_ENDED_WELL && n->failed_since <= 0) n->failed_since = gs_seconds();
}

static gs_status see(void *context, const char *key, const char *value) {
    gs_launch_nodes *n = context;
    const int size = n->post.r.size, here = gs_launch_post_number(key, "rank-"),
              gone = gs_launch_post_number(key, "gone-"), next = gs_launch_post_number(key, "next-");
    int attempt, rank;
    if (here >= 0 && here < size) {
        n->node[here].here = true;
        snprintf(n->node[here].was_started_with, sizeof n->node[here].was_started_with, "%s", value);
    } else if (gone >= 0 && gone < size) {
        n->node[gone].gone = true;
    } else if (next >= 0) {
        n->next_of = next;
        snprintf(n->next, sizeof n->next, "%s", value);
    } else if (sscanf(key, "end-%d-%d", &attempt, &rank) == 2 && rank >= 0 && rank < size) {
        note_end(n, attempt, rank, value);
    }
    return GS_OK;
}

bool gs_launch_nodes_look(gs_launch_nodes *n) {
    if (!n) return false;
    reach(n, 0);
    gs_launch_post_look(&n->post, 0, see, n);
    return n->post.joined || (!n->post.store && !n->post.lost && !n->surplus);
}

bool gs_launch_nodes_are_ending(const gs_launch_nodes *n) {
    for (int i = 0; n && i < n->post.r.size; i++)
        if (n->node[i].ended == n->post.attempt && n->node[i].report.end == GS_ENDED_WELL) return true;
    return false;
}

/* ---- agreeing ---- */

static bool has_gone(const gs_launch_nodes *n, int rank) {
    return n->node[rank].gone || gs_launch_post_is_silent(&n->post, rank);
}

static bool all_have_ended(const gs_launch_nodes *n) {
    for (int i = 0; i < n->post.r.size; i++)
        if (n->node[i].ended < n->post.attempt) return false;
    return true;
}

/* Somebody has gone, or has never come though its ranks have. */
static bool somebody_is_missing(const gs_launch_nodes *n) {
    const bool late = n->failed_since > 0 && gs_seconds() - n->failed_since > COMES;
    for (int i = 0; i < n->post.r.size; i++)
        if (has_gone(n, i) || (late && !n->node[i].here)) return true;
    return false;
}

/* Why another attempt is out of the question; false: it is not. */
static bool rules_out(const gs_launch_nodes *n, char *why, size_t size) {
    for (int i = 0; i < n->post.r.size; i++) {
        const node *o = &n->node[i];
        if (!o->here)
            snprintf(why, size, "no launch with --restarts has come from node rank %d", i);
        else if (o->ended == n->post.attempt && o->report.end == GS_ENDED_STOPPED)
            snprintf(why, size, "node rank %d was stopped by signal %d", i, o->report.signal);
        else if (has_gone(n, i))
            snprintf(why, size, "the launch of node rank %d has gone", i);
        else if (o->ended < n->post.attempt)
            snprintf(why, size, "the launch of node rank %d does not say how its ranks have ended", i);
        else if (strcmp(o->was_started_with, n->was_started_with) != 0)
            snprintf(why, size, "node rank %d was started with %s, node rank %d with %s", i,
                     o->was_started_with, n->post.r.rank, n->was_started_with);
        else
            continue;
        return true;
    }
    return false;
}

/* What a rank finds wrong by itself is the cause; that another was lost is what the rest of them see. */
static gs_launch_end all_of(const gs_launch_nodes *n, gs_launch_failure *all) {
    gs_launch_end end = GS_ENDED_WELL;
    *all = (gs_launch_failure){.lost = true};
    for (int i = 0; i < n->post.r.size; i++) {
        const gs_launch_report *r = &n->node[i].report;
        if (r->end > end) end = r->end;
        all->stepped = all->stepped || r->failure.stepped;
        if (r->end != GS_ENDED_FAILED || r->failure.lost || !all->lost) continue;
        all->lost = false;
        all->code = r->failure.code;
    }
    return end;
}

/* "1 FILE\nwhat": another attempt; "0 \nwhat": none; "2 \n": all is done. */
static void decide(gs_launch_nodes *n, gs_restarts *restarts, char text[GS_STORE_VALUE]) {
    char why[300], what[1400] = "";
    gs_launch_failure all;
    const bool ruled_out = rules_out(n, why, sizeof why);
    if (!ruled_out && all_of(n, &all) == GS_ENDED_WELL) {
        snprintf(text, GS_STORE_VALUE, "2 \n");
        return;
    }
    const bool again = !ruled_out && gs_restarts_next(restarts, &all, what, sizeof what);
    if (ruled_out) snprintf(what, sizeof what, "; not started again: %s", why);
    const char *file = again ? gs_restarts_file(restarts) : "";
    if ((size_t)snprintf(text, GS_STORE_VALUE, "%d %s\n%s", again, file, what) >= GS_STORE_VALUE)
        snprintf(text, GS_STORE_VALUE, "0 \n; not started again: the checkpoint's name is too long");
}

/* Node rank 0's word, or why there is none. */
static void obey(const gs_launch_nodes *n, const char *missing, char text[GS_STORE_VALUE]) {
    snprintf(text, GS_STORE_VALUE, "%s", n->next);
    if (n->next_of < n->post.attempt) snprintf(text, GS_STORE_VALUE, "0 \n; not started again: %s", missing);
}

static void report(gs_launch_nodes *n, const gs_launch_report *r) {
    char key[GS_STORE_KEY], value[80];
    snprintf(key, sizeof key, "end-%d-%d", n->post.attempt, n->post.r.rank);
    snprintf(value, sizeof value, "%d %d %d %d %d", (int)r->end, r->signal, r->failure.lost,
             (int)r->failure.code, r->failure.stepped);
    n->node[n->post.r.rank].ended = n->post.attempt;
    n->node[n->post.r.rank].report = *r;
    if (r->end != GS_ENDED_WELL && n->failed_since <= 0) n->failed_since = gs_seconds();
    gs_launch_post_put(&n->post, key, value, NULL);
}

/* Why this launch no longer hears the others. */
static const char *why_cut_off(const gs_launch_nodes *n) {
    return *n->post.refused ? n->post.refused : n->unreachable;
}

static const char *wait_for_others(gs_launch_nodes *n, double timeout, int (*stopped)(void *),
                                   void *context) {
    const double patience = (timeout + PATIENCE) * (n->post.r.rank == 0 ? 1 : 2);
    for (;;) {
        if (n->surplus) return "another launch has come with this node rank";
        if (!n->post.store) return why_cut_off(n);
        if (n->post.r.rank == 0 && (all_have_ended(n) || somebody_is_missing(n))) return "";
        if (n->next_of >= n->post.attempt) return "";
        if (gs_launch_post_is_silent(&n->post, 0)) return "the launch of node rank 0 has gone";
        const int signal = stopped(context);
        if (signal) {
            n->node[n->post.r.rank].report = (gs_launch_report){.end = GS_ENDED_STOPPED, .signal = signal};
            n->post.deserts = true;
            return "this launch was stopped";
        }
        if (n->failed_since > 0 && gs_seconds() - n->failed_since > patience)
            return "node rank 0 does not say what follows";
        gs_launch_post_look(&n->post, LOOK, see, n);
    }
}

/* A server that has ended is no failure of the ranks, which need it no more once they have met. */
static bool is_done_alone(const gs_launch_nodes *n, const gs_launch_report *mine) {
    if (mine->end != GS_ENDED_WELL || !n->post.pulse || n->post.store || n->next_of >= n->post.attempt)
        return false;
    gs_launch_say("the ranks here are done, and %s", why_cut_off(n));
    return true;
}

bool gs_launch_nodes_agree(gs_launch_nodes *n, gs_restarts *restarts, const gs_launch_report *mine,
                           double timeout, int (*stopped)(void *context), void *context, gs_launch_end *all,
                           char *what, size_t size) {
    char text[GS_STORE_VALUE], key[GS_STORE_KEY];
    reach(n, REACH);
    report(n, mine);
    const char *missing = wait_for_others(n, timeout, stopped, context);
    if (n->post.r.rank == 0 && n->post.store) {
        decide(n, restarts, text);
        snprintf(key, sizeof key, "next-%d", n->post.attempt);
        gs_launch_post_put(&n->post, key, text, NULL);
    } else {
        obey(n, missing, text);
    }
    char *line = strchr(text, '\n');
    if (line) *line++ = '\0';
    snprintf(what, size, "%s", line ? line : "");
    *all = *text == '2' ? GS_ENDED_WELL : mine->end == GS_ENDED_WELL ? GS_ENDED_FAILED : mine->end;
    if (is_done_alone(n, mine)) *all = GS_ENDED_WELL;
    n->failed_since = 0;
    gs_launch_post_clear(&n->post, n->post.attempt++);
    if (*text != '1') return false;
    return n->post.r.rank == 0 || gs_restarts_follow(restarts, text[1] ? text + 2 : "");
}
