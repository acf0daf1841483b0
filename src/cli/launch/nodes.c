#include "cli/launch/nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/meet/secret.h"
#include "comm/meet/store_server.h"
#include "core/clock.h"
#include "core/text.h"

enum { NODES = 1024 };
static const double LOOK = 0.05, PATIENCE = 10 /* s beyond the time-out */, REACH = 2 /* s for the store */,
                    COMES = 3 /* s for a launch, after its ranks have failed */,
                    LINGER = 2 /* s for others to hear what follows */;

typedef struct node {
    bool here, gone;
    char was_started_with[60];
    int ended;               /* the last attempt that has ended there, */
    gs_launch_report report; /* and how */
} node;

struct gs_launch_nodes {
    gs_rendezvous r;
    unsigned char key[GS_SECRET];
    gs_store_server *server; /* of node rank 0 */
    bool serves;
    gs_store *store;           /* NULL: not connected, or no more */
    bool lost;                 /* it was connected, and is not any more */
    int attempt;               /* this one, from 1 */
    double failed_since;       /* somebody has failed in this attempt; 0: nobody */
    int next_of;               /* the attempt of which node rank 0 has said what follows, */
    char next[GS_STORE_VALUE]; /* and what */
    bool deserts;              /* this launch is leaving while others wait for it */
    char was_started_with[60];
    node node[NODES];
};

/* ---- making it ---- */

gs_status gs_launch_nodes_check(const gs_launch *l) {
    gs_meet_place place;
    if (!l->meet) return GS_OK; /* one node; or --hosts, which meet by tcp then */
    GS_TRY(gs_context(gs_meet_place_read(l->meet, &place), "--meet"));
    if (place.kind != GS_MEET_TCP)
        return gs_fail(GS_E_USAGE,
                       "--restarts %d: the launches of several nodes agree at a store that one of them "
                       "holds; wanted --meet tcp://HOST:PORT, with the address of node rank 0, not %s",
                       l->restarts, l->meet);
    if (l->nodes > NODES)
        return gs_fail(GS_E_USAGE, "--restarts %d: %d nodes; wanted %d at most", l->restarts, l->nodes,
                       NODES);
    return GS_OK;
}

gs_status gs_launch_nodes_create(gs_launch *l, gs_launch_nodes **out) {
    gs_meet_place place;
    *out = NULL;
    if (l->restarts == 0 || l->nodes == 1) return GS_OK;
    gs_launch_nodes *n = calloc(1, sizeof *n);
    if (!n) return gs_fail(GS_E_MEMORY, "no memory for --restarts");
    n->r = (gs_rendezvous){.rank = l->node,
                           .size = l->nodes,
                           .timeout = gs_launch_timeout(l),
                           .ports = 1,
                           .local = -1,
                           .attempt = GS_ATTEMPT_LAUNCHES};
    snprintf(n->r.meet, sizeof n->r.meet, "%s", l->meet);
    snprintf(n->was_started_with, sizeof n->was_started_with, "--restarts %d and %d ranks", l->restarts,
             l->world);
    gs_status status = gs_meet_place_read(l->meet, &place);
    if (status == GS_OK && l->secret_file && setenv("GRADSUM_SECRET_FILE", l->secret_file, 1) != 0)
        status = gs_fail(GS_E_MEMORY, "no memory for the environment");
    if (status == GS_OK) status = gs_run_key("", n->key);
    if (status == GS_OK && l->node == 0) status = gs_store_server_create(&place, 1, n->key, &n->server);
    if (status != GS_OK) {
        free(n);
        return status;
    }
    n->attempt = 1;
    l->store = n->server;
    *out = n;
    return GS_OK;
}

static void hang_up(gs_launch_nodes *n, bool bye) {
    if (!n->store) return;
    if (bye) n->store->ops->leave(n->store, NULL);
    n->store->ops->free(n->store);
    n->store = NULL;
    n->lost = !bye;
}

void gs_launch_nodes_free(gs_launch_nodes *n) {
    if (!n) return;
    hang_up(n, !n->deserts);
    gs_launch_end_store(n->server, n->serves ? 1 : 0, LINGER);
    free(n);
}

/* ---- hearing ---- */

/* "rank-3" -> 3; -1: another key. */
static int number_in(const char *key, const char *what) {
    const size_t length = strlen(what);
    char *end;
    if (strncmp(key, what, length) != 0 || key[length] < '0' || key[length] > '9') return -1;
    const long number = strtol(key + length, &end, 10);
    return *end == '\0' && number < 1 << 20 ? (int)number : -1;
}

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
    const int size = n->r.size, here = number_in(key, "rank-"), gone = number_in(key, "gone-"),
              next = number_in(key, "next-");
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

static bool put(gs_launch_nodes *n, const char *key, const char *text) {
    char value[GS_STORE_VALUE];
    bool there;
    snprintf(value, sizeof value, "%s", text);
    if (n->store && n->store->ops->put(n->store, key, value, &there) != GS_OK) hang_up(n, false);
    return n->store != NULL;
}

/* within: seconds */
static void reach(gs_launch_nodes *n, double within) {
    char key[GS_STORE_KEY];
    if (n->store || n->lost) return;
    if (n->server && !n->serves && gs_store_server_start(n->server) != GS_OK) return;
    n->serves = n->server != NULL;
    if (gs_store_open(&n->r, n->key, gs_seconds() + within, &n->store) != GS_OK) return;
    snprintf(key, sizeof key, "rank-%d", n->r.rank);
    put(n, key, n->was_started_with);
}

static void look(gs_launch_nodes *n, double seconds) {
    if (n->store && n->store->ops->look(n->store, seconds, see, n) != GS_OK) hang_up(n, false);
}

void gs_launch_nodes_look(gs_launch_nodes *n) {
    if (!n) return;
    reach(n, 0);
    look(n, 0);
}

/* ---- agreeing ---- */

static bool all_have_ended(const gs_launch_nodes *n) {
    for (int i = 0; i < n->r.size; i++)
        if (n->node[i].ended < n->attempt) return false;
    return true;
}

/* Somebody has gone, or has never come though its ranks have. */
static bool somebody_is_missing(const gs_launch_nodes *n) {
    const bool late = n->failed_since > 0 && gs_seconds() - n->failed_since > COMES;
    for (int i = 0; i < n->r.size; i++)
        if (n->node[i].gone || (late && !n->node[i].here)) return true;
    return false;
}

/* Why another attempt is out of the question; false: it is not. */
static bool rules_out(const gs_launch_nodes *n, char *why, size_t size) {
    for (int i = 0; i < n->r.size; i++) {
        const node *o = &n->node[i];
        if (!o->here)
            snprintf(why, size, "no launch with --restarts has come from node rank %d", i);
        else if (o->gone)
            snprintf(why, size, "the launch of node rank %d has gone", i);
        else if (o->ended < n->attempt)
            snprintf(why, size, "the launch of node rank %d does not say how its ranks have ended", i);
        else if (o->report.end == GS_ENDED_STOPPED)
            snprintf(why, size, "node rank %d was stopped by signal %d", i, o->report.signal);
        else if (strcmp(o->was_started_with, n->was_started_with) != 0)
            snprintf(why, size, "node rank %d was started with %s, node rank %d with %s", i,
                     o->was_started_with, n->r.rank, n->was_started_with);
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
    for (int i = 0; i < n->r.size; i++) {
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
    if (n->next_of < n->attempt) snprintf(text, GS_STORE_VALUE, "0 \n; not started again: %s", missing);
}

static void report(gs_launch_nodes *n, const gs_launch_report *r) {
    char key[GS_STORE_KEY], value[80];
    snprintf(key, sizeof key, "end-%d-%d", n->attempt, n->r.rank);
    snprintf(value, sizeof value, "%d %d %d %d %d", (int)r->end, r->signal, r->failure.lost,
             (int)r->failure.code, r->failure.stepped);
    n->node[n->r.rank].ended = n->attempt;
    n->node[n->r.rank].report = *r;
    if (r->end != GS_ENDED_WELL && n->failed_since <= 0) n->failed_since = gs_seconds();
    put(n, key, value);
}

static const char *wait_for_others(gs_launch_nodes *n, double timeout, int (*stopped)(void *),
                                   void *context) {
    const double patience = (timeout + PATIENCE) * (n->r.rank == 0 ? 1 : 2);
    for (;;) {
        if (!n->store) return "node rank 0, where the launches agree, cannot be reached";
        if (n->r.rank == 0 && (all_have_ended(n) || somebody_is_missing(n))) return "";
        if (n->next_of >= n->attempt) return "";
        const int signal = stopped(context);
        if (signal) {
            n->node[n->r.rank].report = (gs_launch_report){.end = GS_ENDED_STOPPED, .signal = signal};
            n->deserts = true;
            return "this launch was stopped";
        }
        if (n->failed_since > 0 && gs_seconds() - n->failed_since > patience)
            return "node rank 0 does not say what follows";
        look(n, LOOK);
    }
}

bool gs_launch_nodes_agree(gs_launch_nodes *n, gs_restarts *restarts, const gs_launch_report *mine,
                           double timeout, int (*stopped)(void *context), void *context, gs_launch_end *all,
                           char *what, size_t size) {
    char text[GS_STORE_VALUE], key[GS_STORE_KEY];
    reach(n, REACH);
    report(n, mine);
    const char *missing = wait_for_others(n, timeout, stopped, context);
    if (n->r.rank == 0) {
        decide(n, restarts, text);
        snprintf(key, sizeof key, "next-%d", n->attempt);
        put(n, key, text);
    } else {
        obey(n, missing, text);
    }
    char *line = strchr(text, '\n');
    if (line) *line++ = '\0';
    snprintf(what, size, "%s", line ? line : "");
    *all = *text == '2' ? GS_ENDED_WELL : mine->end == GS_ENDED_WELL ? GS_ENDED_FAILED : mine->end;
    n->failed_since = 0;
    n->attempt++;
    if (*text != '1') return false;
    return n->r.rank == 0 || gs_restarts_follow(restarts, text[1] ? text + 2 : "");
}
