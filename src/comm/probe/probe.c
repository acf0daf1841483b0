#include "comm/probe/probe.h"
#include "comm/rendezvous/rendezvous.h"
#include "comm/rendezvous/route.h"
#include "core/clock.h"
#include "core/median.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ROLL = 1024 /* maximum number of machines; --nodes takes no more */,
    PINGS = 20,
    PIECE = 64 * 1024,
    MOST = 64 << 20
};
static const double LOOK = 0.05, SOON = 1.5 /* s before missing machines are named */,
                    CONNECT = 1.2 /* s to detect closed ports */,
                    SETTLE = 15 /* s for the others to measure */, WAIT = 10 /* s for any bytes */,
                    ENOUGH = 0.02 /* s of sending, for a bandwidth */;

typedef struct probing {
    const gs_rendezvous *r;
    gs_probe *p;
    gs_probe_waits *waits;
    void *context;
    gs_rendezvous_state *m;
    double end; /* when the wait for missing machines ends */
    int *socket;
    char (*why)[GS_MESH_WHY];
    char roll[ROLL + 1]; /* '1' for each rank that takes part, else '0'; "": not yet decided */
} probing;

static gs_probe_link *link_of(const gs_probe *p, int a, int b) {
    return a < b ? &p->link[a * p->size + b] : &p->link[b * p->size + a];
}

/* ---- one connection ---- */

static gs_status move(int socket, bool out, void *data, size_t bytes) {
    if (gs_socket_move(socket, out, data, bytes, gs_awake_seconds() + WAIT)) return GS_OK;
    return gs_fail(GS_E_PEER, "the connection broke, or carried nothing for %g s", WAIT);
}

/* Move a number, then that many bytes. */
static gs_status move_bytes(int socket, bool out, unsigned char *piece, uint64_t *bytes) {
    GS_TRY(move(socket, out, bytes, sizeof *bytes));
    if (*bytes > MOST) return gs_fail(GS_E_PEER, "what came through the connection is not what was sent");
    for (uint64_t left = *bytes; left > 0; left -= left < PIECE ? left : PIECE)
        GS_TRY(move(socket, out, piece, left < PIECE ? (size_t)left : PIECE));
    return GS_OK;
}

/* The called end: echo everything until the caller closes the connection. */
static gs_status serve(int socket, unsigned char *piece) {
    for (uint64_t bytes;;) {
        GS_TRY(move_bytes(socket, false, piece, &bytes));
        GS_TRY(move_bytes(socket, true, piece, &bytes));
    }
}

static gs_status there_and_back(int socket, unsigned char *piece, uint64_t bytes, double *took) {
    const double start = gs_seconds();
    GS_TRY(move_bytes(socket, true, piece, &bytes));
    GS_TRY(move_bytes(socket, false, piece, &bytes));
    *took = gs_seconds() - start;
    return GS_OK;
}

/* The caller's end. The bytes double until they take long enough; the measured time excludes the round trip. */
static gs_status ask(int socket, unsigned char *piece, gs_probe_link *l) {
    double took[PINGS], time = 0;
    for (int i = 0; i < PINGS; i++) GS_TRY(there_and_back(socket, piece, 0, &took[i]));
    l->round_trip = gs_median(took, PINGS);
    for (uint64_t bytes = PIECE; time < 2 * ENOUGH && bytes <= MOST; bytes *= 2) {
        GS_TRY(there_and_back(socket, piece, bytes, &time));
        l->rate = 2 * (double)bytes / (time - l->round_trip > time / 10 ? time - l->round_trip : time / 10);
    }
    return shutdown(socket, SHUT_WR) == 0 ? GS_OK
                                          : gs_fail(GS_E_PEER, "the connection broke after it was measured");
}

/* ---- the store ---- */

static gs_status take_host(probing *x, int rank, const char *value) {
    const gs_rank_info *mine = &x->m->all[x->r->rank];
    gs_probe_host *h = &x->p->host[rank];
    gs_rank_info its = {.rank = rank};
    gs_status status = gs_rank_info_parse(mine, rank, value, "the store", &its);
    if (status == GS_E_PEER) gs_fail(status, "%s: all need the same --nodes", gs_message());
    GS_TRY(status);
    gs_rank_info_derive(&its, x->m->key);
    for (int i = 0; value && i < 4; i++) value = strchr(value, '\n') ? strchr(value, '\n') + 1 : NULL;
    snprintf(h->name, sizeof h->name, "%.*s", (int)strcspn(its.machine, " "), its.machine);
    snprintf(h->address, sizeof h->address, "%s", its.address);
    snprintf(h->facts, sizeof h->facts, "%s", value ? value : ""); /* after the rank info's four lines */
    x->m->all[rank] = its;
    h->came = true;
    return GS_OK;
}

static gs_status see(void *context, const char *key, const char *value) {
    probing *x = context;
    gs_probe_link l = {.known = true};
    int a, b, works, used = 0;
    if (strcmp(key, "roll") == 0) snprintf(x->roll, sizeof x->roll, "%s", value);
    if (sscanf(key, "rank-%d", &a) == 1 && a >= 0 && a < x->p->size && !x->p->host[a].came)
        return take_host(x, a, value);
    if (sscanf(key, "pair-%d-%d", &a, &b) != 2 || a < 0 || a >= b || b >= x->p->size) return GS_OK;
    if (sscanf(value, "%d %lf %lf %n", &works, &l.round_trip, &l.rate, &used) != 3) return GS_OK;
    l.works = works == 1;
    snprintf(l.why, sizeof l.why, "%s", value + used);
    *link_of(x->p, a, b) = l;
    return GS_OK;
}

static gs_status look(probing *x) {
    if (x->r->stop && *x->r->stop)
        return gs_fail(GS_E_INTERRUPTED, "stopped by a signal while it waited for the other machines");
    return gs_store_poll(x->m->store, LOOK, see, x);
}

static gs_status put_host(const probing *x, const char *facts) {
    const gs_probe *p = x->p;
    char key[GS_STORE_KEY], value[GS_STORE_VALUE], interface[40];
    bool there;
    snprintf(key, sizeof key, "rank-%d", p->rank);
    gs_rank_info_text(&x->m->all[p->rank], value, sizeof value);
    const size_t used = strlen(value);
    snprintf(value + used, sizeof value - used, "route %s\ninterface %s\n%s", gs_store_address(x->m->store),
             gs_route_interface(x->m->all[p->rank].address, interface, sizeof interface), facts);
    GS_TRY(gs_store_put(x->m->store, key, value, &there));
    if (!there) return GS_OK;
    return gs_fail(GS_E_USAGE, "rank %d has arrived twice: give each machine a --node-rank of its own",
                   p->rank);
}

/* Report a link to all machines. The higher rank does so, because it calls and knows the result. */
static gs_status put_link(const probing *x, int peer, const gs_probe_link *l) {
    char key[GS_STORE_KEY], value[GS_STORE_VALUE];
    bool there;
    *link_of(x->p, peer, x->p->rank) = *l;
    snprintf(key, sizeof key, "pair-%d-%d", peer, x->p->rank);
    snprintf(value, sizeof value, "%d %.9g %.9g %s", l->works, l->round_trip, l->rate, l->why);
    return gs_store_put(x->m->store, key, value, &there);
}

/* ---- the roll ---- */

static bool is_on_roll(const probing *x, int rank) {
    return x->roll[rank] == '1';
}

/* True if the info of a rank on the roll is still missing. */
static bool lacks_somebody(const probing *x) {
    for (int i = 0; i < x->p->size && x->roll[i]; i++)
        if (is_on_roll(x, i) && !x->p->host[i].came) return true;
    return false;
}

/* Wait until all are there or one of them has waited long enough. The first rank that sees this puts the roll. */
static gs_status wait_for_all(probing *x) {
    const double soon = gs_seconds() + SOON;
    bool told = x->end <= soon, all = false, there;
    while (!x->roll[0] || lacks_somebody(x)) {
        GS_TRY(look(x));
        all = true;
        for (int i = 0; i < x->p->size; i++) all = all && x->p->host[i].came;
        if (!x->roll[0] && (all || gs_seconds() >= x->end)) {
            char value[GS_STORE_VALUE];
            for (int i = 0; i < x->p->size; i++) value[i] = x->p->host[i].came ? '1' : '0';
            value[x->p->size] = '\0';
            GS_TRY(gs_store_put(x->m->store, "roll", value, &there));
            snprintf(x->roll, sizeof x->roll, "%.*s", ROLL, value);
        }
        if (!told && !x->roll[0] && gs_seconds() >= soon) {
            x->waits(x->context, x->p, x->end - gs_seconds());
            told = true;
        }
    }
    if ((int)strlen(x->roll) != x->p->size)
        return gs_fail(GS_E_FORMAT, "the store holds the roll of another run: choose another place to meet");
    for (int i = 0; i < x->p->size; i++) x->p->host[i].came = is_on_roll(x, i);
    if (!is_on_roll(x, x->p->rank))
        return gs_fail(
            GS_E_PEER,
            "node rank %d came when the others had begun; start all again, with a longer --timeout",
            x->p->rank);
    gs_store_strangers(x->m->store, x->p->strangers, sizeof x->p->strangers);
    return GS_OK;
}

/* ---- pairs ---- */

static gs_status measure_with(const probing *x, int peer) {
    const int me = x->p->rank;
    gs_probe_link l = {.known = true};
    if (x->socket[peer] < 0) return GS_OK;
    unsigned char *piece = calloc(1, PIECE);
    if (!piece) return gs_fail(GS_E_MEMORY, "no memory to measure a connection");
    l.works = (me > peer ? ask(x->socket[peer], piece, &l) : serve(x->socket[peer], piece)) == GS_OK;
    free(piece);
    if (!l.works) snprintf(l.why, sizeof l.why, "%s", gs_message());
    return me > peer ? put_link(x, peer, &l) : GS_OK;
}

/* In round k, ranks a and b are partners if a + b = k (mod size). Each pair meets once. */
static gs_status tell_and_measure(const probing *x) {
    const int size = x->p->size, me = x->p->rank;
    gs_probe_link closed = {.known = true};
    for (int peer = 0; peer < me; peer++) {
        if (!is_on_roll(x, peer) || x->socket[peer] >= 0) continue;
        snprintf(closed.why, sizeof closed.why, "%s", x->why[peer]);
        GS_TRY(put_link(x, peer, &closed));
    }
    for (int k = 0; k < size; k++) {
        const int peer = (k - me + size) % size;
        if (peer != me && is_on_roll(x, peer)) GS_TRY(measure_with(x, peer));
    }
    return GS_OK;
}

static bool lacks_a_link(const probing *x) {
    for (int b = 0; b < x->p->size; b++)
        for (int a = 0; a < b; a++)
            if (is_on_roll(x, a) && is_on_roll(x, b) && !link_of(x->p, a, b)->known) return true;
    return false;
}

static gs_status connect_and_measure(probing *x) {
    gs_rendezvous quick = *x->r;
    quick.timeout = CONNECT;
    GS_TRY(gs_mesh_connect_some(&quick, x->m->all, x->m->listener, x->roll, x->socket, x->why));
    gs_status status = tell_and_measure(x);
    const double end = gs_seconds() + SETTLE + x->p->size;
    while (status == GS_OK && lacks_a_link(x) && gs_seconds() < end) status = look(x);
    gs_mesh_close(x->p->size, x->socket);
    return status;
}

/* ---- all of it ---- */

static gs_status make(const gs_rendezvous *r, gs_probe *p, probing *x) {
    const size_t n = (size_t)r->size;
    *p = (gs_probe){.size = r->size, .rank = r->rank};
    GS_TRY(GS_NEW(p->host, n, "%d machines", r->size));
    GS_TRY(GS_NEW(p->link, n * n, "%d machines", r->size));
    GS_TRY(GS_NEW(x->socket, n, "%d machines", r->size));
    return GS_NEW(x->why, n, "%d machines", r->size);
}

gs_status gs_probe_run(const gs_rendezvous *r, const char *facts, gs_probe_waits *waits, void *context,
                       gs_probe **out) {
    gs_probe *p = calloc(1, sizeof *p);
    probing x = {.r = r, .waits = waits, .context = context, .p = p, .end = gs_seconds() + r->timeout};
    gs_status status = p ? make(r, p, &x) : gs_fail(GS_E_MEMORY, "no memory for %d machines", r->size);
    if (status == GS_OK) status = gs_rendezvous_open(r, &x.m);
    if (status == GS_OK) x.m->met = true;
    if (status == GS_OK) status = put_host(&x, facts);
    if (status == GS_OK) status = wait_for_all(&x);
    if (status == GS_OK) status = connect_and_measure(&x);
    gs_rendezvous_close(x.m);
    free(x.socket);
    free(x.why);
    *out = status == GS_OK ? p : NULL;
    if (status != GS_OK) gs_probe_free(p);
    return status;
}

void gs_probe_free(gs_probe *p) {
    if (!p) return;
    free(p->host);
    free(p->link);
    free(p);
}
