/* Ranks as processes, over Gloo. They meet (rendezvous/rendezvous.h), connect pairwise (mesh.h), and hand the
 * connections to Gloo; then the watchdog and the direct connection are created. failure.c handles lost ranks. */
#include "comm/gloo/state.h"
#include "comm/rendezvous/rendezvous.h"
#include "comm/mesh.h"
#include "core/process.h"
#include "core/text.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* ---- connecting ---- */

/* Everything that uses Gloo's connections is freed before the connections. */
static void free_state(gs_gloo_state *s) {
    const int size = s->comm.size;
    gs_gloo_free_mailboxes(s);
    gs_gloo_free_inboxes(s, size);
    gs_direct_free(s->direct);
    gs_watchdog_free(s->watchdog);
    gs_gloo_free(s->gloo);
    gs_processes_unwatch(size, s->process);
    gs_mesh_close(s->lines * size, s->socket);
    gs_scratch_free(&s->scratch);
    free(s->socket);
    free(s->pid);
    free(s->address);
    free(s->host);
    free(s->heard);
    free(s->notes);
    pthread_mutex_destroy(&s->list);
    pthread_mutex_destroy(&s->waits);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

enum { GLOO, DIRECT /* the lines between two ranks */ };

static int lines_of(const gs_rendezvous *r) {
    return r->size == 2 && !r->gloo_all_reduce ? 2 : 1;
}

static gs_gloo_code use_connections(const gs_rendezvous *r, gs_gloo_state *s) {
    const int timeout = gs_gloo_milliseconds(r->timeout);
    gs_gloo_code code = gs_gloo_connect(r->rank, r->size, &s->socket[GLOO * r->size], timeout, &s->gloo);
    if (code == GS_GLOO_OK) code = gs_watchdog_create(s->gloo, r->rank, r->size, &s->watchdog);
    if (code == GS_GLOO_OK) code = gs_gloo_listen(s, r->rank, r->size);
    if (code == GS_GLOO_OK && s->lines > 1)
        code = gs_direct_create(s->gloo, s->socket[DIRECT * r->size + 1 - r->rank], r->rank, timeout,
                                &s->direct);
    if (code == GS_GLOO_OK)
        code = gs_gloo_collective(s->gloo, &(gs_call){.operation = GS_BARRIER}, NULL, NULL, timeout);
    return code;
}

/* Gloo has failed, although all ranks are connected. */
static gs_status explain(gs_comm *c, gs_gloo_code code) {
    char start[40];
    if (code == GS_GLOO_MEMORY) return gs_fail(GS_E_MEMORY, "rank %d: no memory for Gloo", c->rank);
    if (strstr(gs_gloo_error_text(), strerror(EMFILE))) /* only Gloo's text reports this */
        return gs_context(gs_fail_descriptor(EMFILE),
                          "rank %d: all %d ranks are connected, but Gloo cannot start", c->rank, c->size);
    snprintf(start, sizeof start, "the start of %d ranks", c->size);
    if (code == GS_GLOO_LOST || code == GS_GLOO_TIMEOUT) return gs_gloo_diagnose(c, code, -1, start);
    return gs_fail(GS_E_PEER, "rank %d: all %d ranks are connected, but Gloo cannot start: %s", c->rank,
                   c->size, gs_gloo_error_text());
}

/* If this rank fails, it tells the others why before it closes any connection. */
static gs_status connect_all(const gs_rendezvous *r, const gs_rendezvous_state *m, gs_comm *c) {
    gs_gloo_state *s = c->state;
    s->socket = malloc((size_t)(lines_of(r) * r->size) * sizeof *s->socket);
    if (!s->socket) return gs_fail(GS_E_MEMORY, "no memory to connect %d ranks", r->size);
    s->lines = lines_of(r);
    gs_status status = gs_mesh_connect(r, m->all, m->listener, s->process, s->lines, s->socket);
    const gs_gloo_code code = status == GS_OK ? use_connections(r, s) : GS_GLOO_OK;
    if (code != GS_GLOO_OK) status = explain(c, code);
    return gs_rendezvous_fail(m, status);
}

/* Copy from the rank infos what failure messages need. */
static gs_status note_ranks(const gs_rank_info *all, int size, gs_gloo_state *s) {
    GS_TRY(GS_NEW(s->pid, size, "the numbers of %d processes", size));
    GS_TRY(GS_NEW(s->address, size, "the addresses of %d processes", size));
    GS_TRY(GS_NEW(s->host, size, "the hosts of %d processes", size));
    GS_TRY(GS_NEW(s->heard, size, "what %d processes say", size));
    GS_TRY(GS_NEW(s->notes, (size_t)size * (size_t)size, "what %d processes say", size));
    for (int r = 0; r < size; r++) {
        s->pid[r] = all[r].pid;
        snprintf(s->host[r], GS_HOST, "%.*s", (int)strcspn(all[r].machine, " "), all[r].machine);
        snprintf(s->address[r], GS_ADDRESS, "%s", all[r].address);
    }
    s->process = gs_processes_watch(size, s->pid);
    return s->process ? GS_OK : gs_fail(GS_E_MEMORY, "no memory to watch %d processes", size);
}

static gs_status meet_and_connect(const gs_rendezvous *r, gs_rendezvous_state *m, gs_comm *c) {
    GS_TRY(gs_rendezvous_wait(m));
    signal(SIGPIPE, SIG_IGN); /* writing to a lost peer must fail, not end the process */
    GS_TRY(note_ranks(m->all, r->size, c->state));
    return r->size > 1 ? connect_all(r, m, c) : GS_OK;
}

/* ---- collectives ---- */

/* Record that `peer`, or every rank (-1), has reached this call. */
static void hear(const gs_comm *c, int peer, const gs_call *call) {
    const gs_gloo_state *s = c->state;
    const uint64_t word = gs_call_pack(call);
    for (int r = peer < 0 ? 0 : peer; r < (peer < 0 ? c->size : peer + 1); r++)
        atomic_store_explicit(&s->heard[r], word, memory_order_relaxed);
}

static gs_status lost(gs_comm *c, const gs_call *call, gs_gloo_code code) {
    const gs_gloo_state *s = c->state;
    char what[120];
    snprintf(what, sizeof what, "%s", gs_call_text(call, false));
    if (gs_operation_has_root(call->operation))
        gs_append(what, sizeof what, " from %s %d", s->noun, call->root);
    return gs_gloo_diagnose(c, code, -1, what);
}

static gs_status gloo_collective(gs_comm *c, const gs_call *call, const void *in, void *out) {
    gs_gloo_state *s = c->state;
    gs_gloo_code code;
    const int timeout = gs_gloo_milliseconds(c->timeout);
    if (atomic_load(&s->failed)) return gs_error_again(&s->error);
    if (call->count == 0 && call->operation != GS_BARRIER) return GS_OK;
    if (c->size == 1) return gs_collective_by_messages(c, call, in, out);
    switch (call->operation) {
    case GS_REDUCE_SCATTER:
        return gs_pairwise_reduce_scatter(c, call, in, out, NULL, &s->scratch);
    case GS_REDUCE:
    case GS_GATHER:
    case GS_SCATTER:
        return gs_collective_by_messages(c, call, in, out);
    default:
        if (call->operation == GS_ALL_REDUCE && s->direct)
            code = gs_direct_all_reduce(s->direct, call, out, timeout);
        else
            code = gs_gloo_collective(s->gloo, call, in, out, timeout);
    }
    if (code != GS_GLOO_OK) return lost(c, call, code);
    hear(c, -1, call);
    return GS_OK;
}

/* ---- messages ---- */

static gs_status gloo_send(gs_comm *c, const gs_envelope *envelope, const void *data, size_t bytes) {
    gs_gloo_state *s = c->state;
    if (atomic_load(&s->failed)) return gs_error_again(&s->error);
    if (bytes == 0) return GS_OK;
    const gs_gloo_code code = gs_gloo_send(s, envelope, data, bytes, gs_gloo_milliseconds(c->timeout));
    if (code == GS_GLOO_OK) return GS_OK;
    return gs_gloo_diagnose(c, code, envelope->peer, gs_call_text(envelope->call, false));
}

static gs_status gloo_recv(gs_comm *c, const gs_envelope *envelope, void *data, size_t bytes) {
    gs_gloo_state *s = c->state;
    if (atomic_load(&s->failed)) return gs_error_again(&s->error);
    if (bytes == 0) return GS_OK;
    const gs_gloo_code code = gs_gloo_recv(s, envelope, data, bytes, gs_gloo_milliseconds(c->timeout));
    if (code != GS_GLOO_OK)
        return gs_gloo_diagnose(c, code, envelope->peer, gs_call_text(envelope->call, false));
    gs_call theirs = *envelope->call; /* the call as its sender made it */
    if (!gs_is_collective(envelope)) theirs.operation = GS_SEND, theirs.root = c->rank;
    hear(c, envelope->peer, &theirs);
    return GS_OK;
}

/* ---- making and freeing ---- */

static void gloo_free(gs_comm *c) {
    gs_gloo_state *s = c->state;
    /* Without this barrier, closing the connections could cut off data that the others have yet to read. If a rank has
     * already gone, the barrier fails at once; at the end of the run this failure is ignored. */
    if (s->gloo && !atomic_load(&s->failed))
        gs_gloo_collective(s->gloo, &(gs_call){.operation = GS_BARRIER}, NULL, NULL,
                           gs_gloo_milliseconds(c->timeout));
    free_state(s);
}

static void gloo_set_multithreaded(gs_comm *c) {
    ((gs_gloo_state *)c->state)->noun = "process";
}

static const gs_transport transport_gloo = {
    .name = "gloo",
    .send = gloo_send,
    .recv = gloo_recv,
    .collective = gloo_collective,
    .abort = gs_gloo_abort,
    .free = gloo_free,
    .set_multithreaded = gloo_set_multithreaded,
};

gs_status gs_comm_gloo_create(const gs_rendezvous *r, gs_comm **out) {
    GS_TRY(gs_rendezvous_check(r, !r->endpoint[0]));
    gs_rendezvous_state *m;
    gs_gloo_state *s = calloc(1, sizeof *s);
    if (!s) return gs_fail(GS_E_MEMORY, "no memory for the connections between processes");
    s->comm = (gs_comm){&transport_gloo, r->rank, r->size, r->timeout, s};
    s->noun = "rank";
    pthread_mutex_init(&s->list, NULL);
    pthread_mutex_init(&s->waits, NULL);
    pthread_mutex_init(&s->lock, NULL);
    gs_status status = gs_rendezvous_open(r, &m);
    if (status == GS_OK) status = meet_and_connect(r, m, &s->comm);
    if (status == GS_OK)
        *out = &s->comm;
    else
        free_state(s);
    gs_rendezvous_close(m);
    return status;
}
