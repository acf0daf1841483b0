#include "comm/probe/probe.h"
#include "comm/meet/meeting.h"
#include "comm/meet/route.h"
#include "comm/meet/store.h"
#include "comm/rendezvous.h"
#include "comm/shm/segment.h"
#include "core/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROLL = 1024 /* machines at most */ };
static const double LOOK = 0.05, SOON = 1.5 /* s until it is said who has not come */,
                    CONNECT = 1.2 /* s for closed ports to be found, */,
                    TELL = 0.5 /* ... and to tell the others of them */,
                    SETTLE = 15 /* s for the others to measure */,
                    LINGER = 0.5 /* s for them to read what will be removed */;

typedef struct probing {
    const gs_rendezvous *r;
    const gs_probe_news *news;
    gs_probe *p;
    gs_meeting *m;
    double end; /* of the wait for latecomers */
    gs_store *store;
    const unsigned char *key;
    gs_passport *all;
    int *socket;
    bool *gone, *present, *tried; /* has said whom it could not reach */
    char (*why)[GS_MESH_WHY];
    int came;
    char roll[ROLL + 1]; /* '1' for each rank that was there when the others began; "": they have not yet */
} probing;

static gs_probe_link *link_of(const gs_probe *p, int a, int b) {
    return a < b ? &p->link[a * p->size + b] : &p->link[b * p->size + a];
}

/* ---- what is in the store ---- */

/* "rank-1" -> 1; -1: another key. */
static int rank_in(const char *key, const char *what, int size) {
    const size_t length = strlen(what);
    char *end;
    if (strncmp(key, what, length) != 0 || key[length] < '0' || key[length] > '9') return -1;
    const long rank = strtol(key + length, &end, 10);
    return *end == '\0' && rank < size ? (int)rank : -1;
}

/* Behind the passport's four lines: address, route and facts. */
static void take_rest(gs_probe_host *h, const gs_passport *pass, const char *value) {
    for (int i = 0; value && i < 4; i++) value = strchr(value, '\n') ? strchr(value, '\n') + 1 : NULL;
    int used = 0;
    snprintf(h->name, sizeof h->name, "%.*s", (int)strcspn(pass->place, " "), pass->place);
    snprintf(h->address, sizeof h->address, "%s", pass->address);
    h->interface[0] = h->route[0] = '\0';
    if (value && sscanf(value, "route %63s at%39[^\n]%n", h->route, h->interface, &used) >= 1)
        value = strchr(value, '\n') ? strchr(value, '\n') + 1 : "";
    snprintf(h->facts, sizeof h->facts, "%s", value ? value : "");
    if (strcmp(h->interface, " -") == 0) h->interface[0] = '\0';
}

static gs_status take_host(probing *x, int rank, const char *value) {
    const gs_passport *mine = &x->all[x->r->rank];
    gs_passport its = {.rank = rank};
    bool arrived;
    gs_status status = gs_passport_parse(mine, rank, value, "the store", &arrived, &its);
    if (status == GS_E_PEER) gs_fail(status, "%s: all need the same --nodes", gs_message());
    GS_TRY(status);
    if (!arrived) return gs_fail(GS_E_FORMAT, "rank %d has put half of what it is into the store", rank);
    if (strcmp(its.purpose, mine->purpose) != 0)
        return gs_fail(GS_E_USAGE,
                       "rank %d was started to %s, but rank %d to %s: start the same on all machines",
                       mine->rank, mine->purpose, rank, its.purpose);
    gs_passport_derive(&its, x->key);
    take_rest(&x->p->host[rank], &its, value);
    x->all[rank] = its;
    x->came += !x->p->host[rank].came;
    x->p->host[rank].came = true;
    return GS_OK;
}

static void take_link(const probing *x, const char *key, const char *value) {
    int a, b, works, used = 0;
    gs_probe_link l = {.known = true};
    if (sscanf(key, "pair-%d-%d", &a, &b) != 2 || a < 0 || a >= b || b >= x->p->size) return;
    if (sscanf(value, "%d %lf %lf %lf %lf %n", &works, &l.round_trip, &l.down, &l.up, &l.ahead, &used) != 5)
        return;
    l.works = works == 1;
    snprintf(l.why, sizeof l.why, "%s", value + used);
    *link_of(x->p, a, b) = l;
}

static gs_status see(void *context, const char *key, const char *value) {
    probing *x = context;
    const int size = x->p->size;
    int rank = rank_in(key, "rank-", size), from, status, used = 0;
    if (rank >= 0) return x->p->host[rank].came ? GS_OK : take_host(x, rank, value);
    rank = rank_in(key, "gone-", size);
    if (rank >= 0) x->gone[rank] = true;
    rank = rank_in(key, "tried-", size);
    if (rank >= 0) x->tried[rank] = true;
    if (strcmp(key, "roll") == 0) snprintf(x->roll, sizeof x->roll, "%s", value);
    take_link(x, key, value);
    if (strcmp(key, "fault") != 0 || sscanf(value, "%d %d %n", &from, &status, &used) != 2) return GS_OK;
    return gs_fail(GS_E_PEER, "%s", value + used);
}

/* ---- who comes ---- */

static gs_status put(const probing *x, const char *key, char value[GS_STORE_VALUE], bool *there) {
    return x->store->ops->put(x->store, key, value, there);
}

static gs_status put_host(const probing *x, const char *facts) {
    const gs_probe *p = x->p;
    char key[GS_STORE_KEY], value[GS_STORE_VALUE], interface[40];
    bool there;
    snprintf(key, sizeof key, "rank-%d", p->rank);
    gs_passport_text(&x->all[p->rank], false, value, sizeof value);
    gs_route_interface(x->all[p->rank].address, interface, sizeof interface);
    const size_t used = strlen(value);
    snprintf(value + used, sizeof value - used, "route %s at%s\n%s", x->store->address,
             interface[0] ? interface : " -", facts);
    GS_TRY(put(x, key, value, &there));
    if (!there) return GS_OK;
    return gs_fail(GS_E_USAGE, "rank %d has arrived twice: give each machine a --node-rank of its own",
                   p->rank);
}

/* All are there, or this machine has waited long enough. Whoever says so first says it for all. */
static gs_status call_the_roll(probing *x) {
    char value[GS_STORE_VALUE];
    bool there;
    for (int i = 0; i < x->p->size; i++) value[i] = x->p->host[i].came ? '1' : '0';
    value[x->p->size] = '\0';
    GS_TRY(put(x, "roll", value, &there));
    snprintf(x->roll, sizeof x->roll, "%.*s", ROLL, value);
    return GS_OK;
}

/* Those on the roll whose passport has not been seen yet. */
static bool lacks_somebody(const probing *x) {
    for (int i = 0; i < x->p->size; i++)
        if (x->roll[i] == '1' && !x->p->host[i].came) return true;
    return false;
}

static gs_status wait_for_all(probing *x) {
    const double soon = gs_seconds() + SOON;
    bool told = x->end <= soon;
    while (!x->roll[0] || lacks_somebody(x)) {
        if (x->r->stop && *x->r->stop)
            return gs_fail(GS_E_INTERRUPTED, "stopped by a signal while it waited for the other machines");
        GS_TRY(x->store->ops->look(x->store, LOOK, see, x));
        if (!x->roll[0] && (x->came == x->p->size || gs_seconds() >= x->end)) GS_TRY(call_the_roll(x));
        if (!told && !x->roll[0] && gs_seconds() >= soon) {
            x->news->waits(x->news->context, x->p, x->end - gs_seconds());
            told = true;
        }
        if ((int)strlen(x->roll) != x->p->size && x->roll[0])
            return gs_fail(GS_E_FORMAT,
                           "the store holds the roll of another run: choose another place to meet");
    }
    for (int i = 0; i < x->p->size; i++) {
        x->present[i] = x->roll[i] == '1';
        if (i == x->p->rank)
            x->p->host[i].late = !x->present[i];
        else
            x->p->host[i].came = x->present[i];
    }
    x->store->ops->strangers(x->store, x->p->strangers, sizeof x->p->strangers);
    return GS_OK;
}

/* ---- pairs ---- */

/* The higher rank calls, so it knows why nothing came of it, and tells all. */
static gs_status put_link(const probing *x, int peer) {
    char key[GS_STORE_KEY], value[GS_STORE_VALUE];
    bool there;
    const gs_probe_link *l = link_of(x->p, peer, x->p->rank);
    snprintf(key, sizeof key, "pair-%d-%d", peer, x->p->rank);
    snprintf(value, sizeof value, "%d %.9g %.9g %.9g %.9g %s", l->works, l->round_trip, l->down, l->up,
             l->ahead, l->why);
    return put(x, key, value, &there);
}

static gs_status measure_with(const probing *x, int peer) {
    const int me = x->p->rank;
    gs_probe_link l = {.known = true};
    if (x->socket[peer] < 0) return GS_OK;
    l.works = gs_probe_measure(x->socket[peer], me > peer, &l) == GS_OK;
    if (!l.works) snprintf(l.why, sizeof l.why, "%s", gs_message());
    if (me < peer) return GS_OK; /* the caller tells */
    *link_of(x->p, peer, me) = l;
    return put_link(x, peer);
}

/* In round k ranks a and b with a + b = k (mod size) are partners: each pair once, and each rank has one partner. */
static gs_status measure_all(const probing *x) {
    const int size = x->p->size, me = x->p->rank;
    for (int k = 0; k < size; k++) {
        const int peer = (k - me + size) % size;
        if (peer != me && x->present[peer]) GS_TRY(measure_with(x, peer));
    }
    return GS_OK;
}

/* Those that this rank has called, in vain. */
static gs_status tell_unreached(const probing *x) {
    char key[GS_STORE_KEY], value[GS_STORE_VALUE] = "1";
    bool there;
    for (int peer = 0; peer < x->p->rank; peer++) {
        if (!x->present[peer] || x->socket[peer] >= 0) continue;
        gs_probe_link *l = link_of(x->p, peer, x->p->rank);
        *l = (gs_probe_link){.known = true};
        snprintf(l->why, sizeof l->why, "%s", x->why[peer]);
        GS_TRY(put_link(x, peer));
    }
    snprintf(key, sizeof key, "tried-%d", x->p->rank);
    return put(x, key, value, &there);
}

static bool somebody_tries(const probing *x) {
    for (int i = 0; i < x->p->size; i++)
        if (i != x->p->rank && x->present[i] && !x->tried[i] && !x->gone[i]) return true;
    return false;
}

static gs_status learn_unreached(probing *x, double end) {
    while (somebody_tries(x) && gs_seconds() < end && !(x->r->stop && *x->r->stop))
        GS_TRY(x->store->ops->look(x->store, LOOK, see, x));
    x->news->connected(x->news->context, x->p);
    return GS_OK;
}

static bool lacks_a_link(const probing *x) {
    for (int b = 0; b < x->p->size; b++)
        for (int a = 0; a < b; a++) {
            const bool both = x->present[a] && x->present[b];
            if (both && !x->gone[b] && !link_of(x->p, a, b)->known) return true;
        }
    return false;
}

static gs_status learn_links(probing *x) {
    const double end = gs_seconds() + SETTLE + x->p->size;
    while (lacks_a_link(x) && gs_seconds() < end && !(x->r->stop && *x->r->stop))
        GS_TRY(x->store->ops->look(x->store, LOOK, see, x));
    return GS_OK;
}

static gs_status connect_and_measure(probing *x, int listener) {
    gs_rendezvous quick = *x->r;
    quick.timeout = CONNECT;
    const double told = gs_seconds() + CONNECT + TELL;
    if (x->p->host[x->p->rank].late) {
        GS_TRY(learn_unreached(x, told));
        return learn_links(x);
    }
    GS_TRY(gs_mesh_connect_some(&quick, x->all, listener, x->present, x->socket, x->why));
    gs_status status = tell_unreached(x);
    if (status == GS_OK) status = learn_unreached(x, told);
    if (status == GS_OK) status = measure_all(x);
    if (status == GS_OK) status = learn_links(x);
    for (int i = 0; i < x->p->size; i++)
        if (x->socket[i] >= 0) close(x->socket[i]);
    return status;
}

/* ---- all of it ---- */

static gs_status look_around(probing *x, const char *facts) {
    int listener = -1;
    gs_passport *mine = &x->all[x->r->rank];
    GS_TRY(gs_meeting_passport(x->m, mine));
    GS_TRY(gs_mesh_listen(gs_meeting_address(x->m), mine, &listener));
    gs_status status = put_host(x, facts);
    const bool put = status == GS_OK;
    if (status == GS_OK) status = wait_for_all(x);
    if (status == GS_OK) status = connect_and_measure(x, listener);
    /* In a folder what this process has put goes when it leaves: the others must have read it. */
    if (put && status == GS_OK && strncmp(x->r->meet, "tcp:", 4) != 0) gs_nap(LINGER);
    close(listener);
    return status;
}

static gs_status make(const gs_rendezvous *r, gs_probe *p, probing *x) {
    const size_t n = (size_t)r->size;
    if (r->size > ROLL) return gs_fail(GS_E_USAGE, "%d machines; at most %d can be looked at", r->size, ROLL);
    *p = (gs_probe){.size = r->size, .rank = r->rank};
    p->host = calloc(n, sizeof *p->host);
    p->link = calloc(n * n, sizeof *p->link);
    x->all = calloc(n, sizeof *x->all);
    x->socket = malloc(n * sizeof *x->socket);
    x->gone = calloc(n, sizeof *x->gone);
    x->present = calloc(n, sizeof *x->present);
    x->tried = calloc(n, sizeof *x->tried);
    x->why = calloc(n, sizeof *x->why);
    if (!p->host || !p->link || !x->all || !x->socket || !x->gone || !x->present || !x->tried || !x->why)
        return gs_fail(GS_E_MEMORY, "no memory for %d machines", r->size);
    for (size_t i = 0; i < n; i++) x->socket[i] = -1;
    return GS_OK;
}

/* A place that does not answer is named soon, and then tried until the end. */
static gs_status open_meeting(probing *x, gs_rendezvous *r) {
    char why[1000];
    const double wait = r->timeout;
    x->r = r;
    x->end = gs_seconds() + wait;
    r->timeout = wait < SOON ? wait : SOON;
    gs_status status = gs_meeting_open(r, &x->m);
    r->timeout = ceil(10 * (x->end - gs_seconds())) / 10; /* it is in messages */
    if (status == GS_E_PEER && r->timeout > 0) {
        snprintf(why, sizeof why, "%s", gs_message());
        x->news->unreached(x->news->context, why, r->timeout);
        status = gs_meeting_open(r, &x->m);
    }
    r->timeout = wait;
    return status;
}

gs_status gs_probe_run(const gs_rendezvous *from, const char *facts, const gs_probe_news *news,
                       gs_probe **out) {
    gs_probe *p = calloc(1, sizeof *p);
    gs_rendezvous r = *from;
    probing x = {.r = &r, .news = news, .p = p};
    *out = NULL;
    gs_status status = p ? make(&r, p, &x) : gs_fail(GS_E_MEMORY, "no memory for %d machines", r.size);
    if (status == GS_OK) status = open_meeting(&x, &r);
    if (status == GS_OK) {
        x.store = gs_meeting_store(x.m, &x.key);
        status = look_around(&x, facts);
        gs_meeting_close(x.m);
    }
    free(x.all);
    free(x.socket);
    free(x.gone);
    free(x.present);
    free(x.tried);
    free(x.why);
    if (status == GS_OK)
        *out = p;
    else
        gs_probe_free(p);
    return status;
}

void gs_probe_free(gs_probe *p) {
    if (!p) return;
    free(p->host);
    free(p->link);
    free(p);
}

gs_status gs_probe_shared_memory(size_t bytes) {
    gs_segment one, other;
    GS_TRY(gs_segment_create(&one));
    gs_status status = gs_segment_reserve(&one, 0, gs_segment_pages(bytes));
    if (status == GS_OK && (status = gs_segment_open(&other, (long)getpid(), one.file)) == GS_OK)
        gs_segment_close(&other);
    gs_segment_close(&one);
    return status;
}
