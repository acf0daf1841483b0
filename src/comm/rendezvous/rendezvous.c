#include "comm/rendezvous/rendezvous.h"
#include "comm/rendezvous/route.h"
#include "comm/rendezvous/secret.h"
#include "comm/rendezvous/store_server.h"
#include "comm/mesh.h"
#include "core/clock.h"
#include "core/text.h"

#include <errno.h>
#include <stdatomic.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const double LOOK = 0.05, LINGER = 1, LINGER_EARLY = 3; /* seconds */

static atomic_bool reached; /* this process has reached a rendezvous */

/* ---- opening ---- */

gs_status gs_rendezvous_check(const gs_rendezvous *r, bool folder) {
    if (r->size < 1 || r->rank < 0 || r->rank >= r->size)
        return gs_fail(GS_E_USAGE, "rank %d of %d process%s: ranks are 0 to %d", r->rank, r->size,
                       gs_es(r->size), r->size - 1);
    if (!(r->timeout > 0))
        return gs_fail(GS_E_USAGE, "the timeout is %g s; it must be more than 0", r->timeout);
    if (folder && (!r->directory || strlen(r->directory) > 4096 - 32))
        return gs_fail(GS_E_USAGE, "%s",
                       r->directory ? "the rendezvous folder's name is too long"
                                    : "no folder was given for the processes to meet in");
    return GS_OK;
}

/* Choose the user's address, else on a single machine 127.0.0.1, else the address of the route to the others. */
static gs_status choose_address(gs_rendezvous_state *m) {
    const gs_rendezvous *r = m->r;
    const size_t size = sizeof m->address;
    if (r->interface && *r->interface) return gs_route_address(r->interface, m->address, size);
    snprintf(m->address, size, "%s", "127.0.0.1");
    if (r->address)
        snprintf(m->address, size, "%s", r->address);
    else if (m->by_store && r->nodes != 1)
        snprintf(m->address, size, "%s", gs_store_address(m->store));
    else if (!m->by_store && r->nodes > 1)
        gs_route_default(m->address, size);
    return GS_OK;
}

static gs_status open_store(gs_rendezvous_state *m) {
    const gs_rendezvous *r = m->r;
    m->by_store = r->endpoint[0] && r->size > 1;
    if (!r->endpoint[0]) return gs_store_open(r, NULL, NULL, &m->store);
    if (!m->by_store) return GS_OK;
    GS_TRY(gs_endpoint_read(r->endpoint, &m->endpoint));
    GS_TRY(gs_run_key(r->run, m->key));
    if (r->holds_store) {
        GS_TRY(gs_store_server_create(&m->endpoint, r->ports, m->key, &m->server));
        GS_TRY(gs_store_server_start(m->server));
    }
    return gs_store_open(r, &m->endpoint, m->key, &m->store);
}

static void tell_place(const gs_rendezvous_state *m) {
    char text[500], interface[40], node[40] = "the processes";
    if (!m->by_store || !m->r->tell || m->r->local_rank > 0) return;
    if (m->r->nodes != 1) snprintf(node, sizeof node, "the processes on the node of rank %d", m->r->rank);
    snprintf(text, sizeof text, "%s listen at %s%s", node, m->address,
             gs_route_interface(m->address, interface, sizeof interface));
    if (m->server) gs_append(text, sizeof text, "; all meet at %s", gs_store_server_where(m->server));
    m->r->tell(text);
}

/* Make this process's rank info, and listen. */
static gs_status prepare(gs_rendezvous_state *m) {
    gs_rank_info *mine = &m->all[m->r->rank];
    GS_TRY(choose_address(m));
    tell_place(m);
    GS_TRY(gs_rank_info_create(m->r, mine));
    gs_rank_info_derive(mine, m->key);
    return gs_mesh_listen(m->address, mine, &m->listener);
}

static gs_status make(const gs_rendezvous *r, gs_rendezvous_state **out) {
    gs_rendezvous_state *m = *out = calloc(1, sizeof *m);
    if (!m) return gs_fail(GS_E_MEMORY, "no memory to meet %d processes", r->size);
    m->r = r;
    m->listener = -1;
    GS_TRY(GS_NEW(m->all, r->size, "%d processes that meet", r->size));
    GS_TRY(GS_NEW(m->missing, r->size, "%d processes that meet", r->size));
    return open_store(m);
}

gs_status gs_rendezvous_open(const gs_rendezvous *r, gs_rendezvous_state **out) {
    gs_status status = make(r, out);
    if (status != GS_OK) atomic_store(&reached, true); /* a second attempt would fail too */
    if (status == GS_OK) status = prepare(*out);
    if (status == GS_OK) return GS_OK;
    if (r->stop && *r->stop) /* other ranks that were stopped too may have removed the folder */
        status =
            gs_fail(GS_E_INTERRUPTED, "rank %d: stopped by a signal before it met the other ranks", r->rank);
    gs_rendezvous_close(*out);
    *out = NULL;
    return status;
}

/* ---- waiting for all ---- */

static const char *place_of(const gs_rendezvous_state *m) {
    return m->by_store ? m->r->endpoint : m->r->directory;
}

static gs_status take_rank_info(gs_rendezvous_state *m, int rank, const char *value) {
    const gs_rank_info *mine = &m->all[m->r->rank];
    gs_rank_info its = {.rank = rank};
    char source[5000];
    snprintf(source, sizeof source, "%s/rank-%d", place_of(m), rank);
    gs_status status = gs_rank_info_parse(mine, rank, value, source, &its);
    if (status == GS_E_PEER) gs_fail(status, "%s: all nodes need the same --nodes and -n", gs_message());
    GS_TRY(status);
    const bool here = strcmp(its.machine, mine->machine) == 0;
    if (!m->by_store && here && kill((pid_t)its.pid, 0) != 0 && errno == ESRCH)
        return gs_fail(GS_E_PEER,
                       "rank %d (process %ld) has already ended: it failed, or the folder %s is left from an "
                       "earlier run; use a new one for each run",
                       rank, its.pid, place_of(m));
    gs_rank_info_derive(&its, m->key);
    GS_TRY(gs_rank_info_compare(mine, &its));
    if (!here) its.pid = 0;
    m->all[rank] = its;
    m->left -= m->missing[rank];
    m->missing[rank] = false;
    return GS_OK;
}

/* Fail like another rank. fault: that rank's number (-1 unless it failed before it joined), status and reason. */
static gs_status fail_as(const gs_rendezvous *r, const char *fault) {
    int early = -1, status = GS_E_PEER, used = 0;
    sscanf(fault, "%d %d %n", &early, &status, &used);
    const bool known = status > GS_OK && status <= GS_E_DIVERGED;
    const gs_status code = known ? (gs_status)status : GS_E_PEER;
    if (early < 0) return gs_fail(code, "%s", fault + used);
    return gs_fail(code, "rank %d: rank %d failed before it joined: %s", r->rank, early, fault + used);
}

/* Put a fault. If the key already has a fault, that one stays, and this rank fails with it. */
static gs_status put_fault(const gs_rendezvous_state *m, const char *key, int early, gs_status status,
                           const char *why) {
    char value[GS_STORE_VALUE];
    bool there;
    snprintf(value, sizeof value, "%d %d %s", early, (int)status, why);
    gs_store_put(m->store, key, value, &there);
    return fail_as(m->r, value);
}

static gs_status see(void *context, const char *key, const char *value) {
    gs_rendezvous_state *m = context;
    const int size = m->r->size;
    int rank = gs_rank_of_key(key, "rank", size);
    if (rank >= 0 && rank != m->r->rank) return m->missing[rank] ? take_rank_info(m, rank, value) : GS_OK;
    if (strcmp(key, "fault") == 0 || gs_rank_of_key(key, "absent", size) >= 0) return fail_as(m->r, value);
    rank = gs_rank_of_key(key, "gone", size);
    if (rank >= 0 && rank != m->r->rank && m->left > 0)
        return gs_fail(GS_E_PEER, "rank %d has ended while the ranks waited for others", rank);
    return GS_OK;
}

/* True if the ranks may be on several machines. */
static bool spans_machines(const gs_rendezvous_state *m) {
    return m->by_store && m->r->nodes != 1;
}

static gs_status never_came(gs_rendezvous_state *m) {
    char ranks[200] = "", strangers[300], here[300] = "";
    gs_store_strangers(m->store, strangers, sizeof strangers);
    if (spans_machines(m)) gs_route_only_here(m->endpoint.host, m->endpoint.port, true, here, sizeof here);
    gs_append_ranks(ranks, sizeof ranks, "rank", 0, m->r->size, m->missing);
    return gs_fail(GS_E_PEER, "rank %d waited %g s for %s of %d, which never arrived (at %s)%s%s%s",
                   m->r->rank, m->r->timeout, ranks, m->r->size, place_of(m), strangers, *here ? "; " : "",
                   here);
}

static gs_status wait_for_all(gs_rendezvous_state *m) {
    const double end = gs_awake_seconds() + m->r->timeout;
    const bool hints = m->r->rank == 0 && spans_machines(m);
    gs_route_hint hint = {hints ? m->r->tell : NULL, gs_awake_seconds()};
    while (m->left > 0) {
        const bool late = gs_awake_seconds() >= end;
        gs_route_tell_only_here(&hint, m->endpoint.host, m->endpoint.port, true);
        if (m->r->stop && *m->r->stop)
            return gs_fail(GS_E_INTERRUPTED,
                           "rank %d: stopped by a signal while it waited for the other ranks", m->r->rank);
        GS_TRY(gs_store_poll(m->store, LOOK, see, m));
        if (late && m->left > 0) return never_came(m);
    }
    return GS_OK;
}

/* Another process with this rank has already arrived. */
static gs_status came_twice(const gs_rendezvous_state *m, const char *value) {
    const gs_rank_info *mine = &m->all[m->r->rank];
    gs_rank_info its = {.rank = mine->rank};
    if (!m->by_store)
        return gs_fail(
            GS_E_FILE,
            "%s/rank-%d already exists: either rank %d was started twice, or the folder is left from an "
            "earlier run; use a new one for each run",
            place_of(m), mine->rank, mine->rank);
    GS_TRY(gs_rank_info_parse(mine, mine->rank, value, "the store", &its));
    return gs_fail(
        GS_E_USAGE,
        "rank %d has arrived twice: process %ld on %.*s, and process %ld on %.*s: give each node a node "
        "rank of its own",
        mine->rank, its.pid, (int)strcspn(its.machine, " "), its.machine, mine->pid,
        (int)strcspn(mine->machine, " "), mine->machine);
}

static gs_status put_rank_info(const gs_rendezvous_state *m) {
    char key[GS_STORE_KEY], value[GS_STORE_VALUE];
    bool there = false;
    snprintf(key, sizeof key, "rank-%d", m->r->rank);
    gs_rank_info_text(&m->all[m->r->rank], value, sizeof value);
    GS_TRY(gs_store_put(m->store, key, value, &there));
    return there ? came_twice(m, value) : GS_OK;
}

gs_status gs_rendezvous_fail(const gs_rendezvous_state *m, gs_status status) {
    return m->store && status != GS_OK ? put_fault(m, "fault", -1, status, gs_message()) : status;
}

static gs_status put_and_wait(gs_rendezvous_state *m) {
    for (int i = 0; i < m->r->size; i++) m->missing[i] = i != m->r->rank;
    m->left = m->r->size - 1;
    GS_TRY(put_rank_info(m));
    m->here = true;
    return wait_for_all(m);
}

gs_status gs_rendezvous_wait(gs_rendezvous_state *m) {
    atomic_store(&reached, true);
    gs_status status = m->store ? put_and_wait(m) : GS_OK;
    if (m->by_store)
        status = gs_rendezvous_fail(m, status); /* in a folder each rank finds this fault by itself */
    m->met = status == GS_OK;
    m->failed = !m->met;
    /* Give the others time to find out that this rank cannot belong to their run. */
    if (m->failed && m->here && !m->by_store && status != GS_E_INTERRUPTED) gs_sleep(LINGER);
    return status;
}

void gs_rendezvous_close(gs_rendezvous_state *m) {
    if (!m) return;
    if (m->store && (m->by_store ? m->met : m->here)) gs_store_leave(m->store, m->met);
    gs_store_free(m->store);
    /* The other processes may still need the store that this process holds. */
    if (m->server && (m->met || m->failed)) gs_store_server_linger(m->server, m->r->size, LINGER);
    gs_store_server_free(m->server);
    if (m->listener >= 0) close(m->listener);
    free(m->all);
    free(m->missing);
    free(m);
}

/* ---- early failure ---- */

void gs_comm_fail_early(const gs_rendezvous *r, gs_status status, const char *why) {
    gs_rendezvous brief = *r;
    gs_rendezvous_state *m;
    char key[GS_STORE_KEY], message[1200];
    if (r->size < 2 || atomic_load(&reached) || !(r->endpoint[0] || r->directory)) return;
    if (brief.timeout > 2) brief.timeout = 2;
    brief.tell = NULL;
    snprintf(message, sizeof message, "%s", why);
    if (make(&brief, &m) == GS_OK) {
        snprintf(key, sizeof key, "absent-%d", r->rank);
        put_fault(m, key, r->rank, status, message);
        gs_store_free(m->store); /* without leaving, so that a folder stays for the others */
        m->store = NULL;
        if (m->server) gs_store_server_linger(m->server, r->size, LINGER_EARLY);
    }
    gs_rendezvous_close(m);
    gs_fail(status, "%s", message);
}
