/* Ranks as processes, over Gloo. How they are connected: open.c; where one is lost: lost.c. */
#include "comm/gloo/state.h"
#include "comm/meet/board.h"
#include "comm/rendezvous.h"

#include <stdlib.h>
#include <string.h>

/* ---- collectives ---- */

/* Of `peer`, or of all (-1), this rank has heard that they have come as far as this call. */
static void hear(const gs_comm *c, int peer, const gs_call *call) {
    const gs_gloo_state *s = c->state;
    const uint64_t word = gs_call_pack(call);
    for (int r = peer < 0 ? 0 : peer; r < (peer < 0 ? c->size : peer + 1); r++)
        atomic_store_explicit(&s->heard[r], word, memory_order_relaxed);
}

static gs_status lost(gs_comm *c, const gs_call *call, const gs_gloo_error *e) {
    const gs_gloo_state *s = c->state;
    const char *what = gs_call_text(call, false);
    if (!gs_operation_has_root(call->operation)) return gs_gloo_lost(c, e, -1, "%s", what);
    return gs_gloo_lost(c, e, -1, "%s from %s %d", what, s->noun, call->root);
}

static gs_status gloo_collective(gs_comm *c, const gs_call *call, const void *in, void *out) {
    gs_gloo_state *s = c->state;
    gs_gloo_error e;
    gs_gloo_code code;
    const int timeout = gs_gloo_milliseconds(c->timeout);
    if (atomic_load(&s->failed)) return gs_gloo_failed(s);
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
            code = gs_direct_all_reduce(s->direct, call, out, timeout, &e);
        else
            code = gs_gloo_collective(s->gloo, call, in, out, timeout, &e);
    }
    if (code != GS_GLOO_OK) return lost(c, call, &e);
    hear(c, -1, call);
    return GS_OK;
}

/* ---- messages ---- */

static gs_status gloo_send(gs_comm *c, const gs_envelope *envelope, const void *data, size_t bytes) {
    gs_gloo_state *s = c->state;
    gs_gloo_error e;
    if (atomic_load(&s->failed)) return gs_gloo_failed(s);
    if (bytes == 0 ||
        gs_gloo_send(s, envelope, data, bytes, gs_gloo_milliseconds(c->timeout), &e) == GS_GLOO_OK)
        return GS_OK;
    return gs_gloo_lost(c, &e, envelope->peer, "%s", gs_call_text(envelope->call, false));
}

static gs_status gloo_recv(gs_comm *c, const gs_envelope *envelope, void *data, size_t bytes) {
    gs_gloo_state *s = c->state;
    gs_gloo_error e;
    if (atomic_load(&s->failed)) return gs_gloo_failed(s);
    if (bytes == 0) return GS_OK;
    if (gs_gloo_recv(s, envelope, data, bytes, gs_gloo_milliseconds(c->timeout), &e) == GS_GLOO_OK) {
        gs_call theirs = *envelope->call; /* a message was sent by the other */
        if (!gs_is_part(envelope)) theirs.operation = GS_SEND, theirs.root = c->rank;
        hear(c, envelope->peer, &theirs);
        return GS_OK;
    }
    return gs_gloo_lost(c, &e, envelope->peer, "%s", gs_call_text(envelope->call, false));
}

/* ---- making and freeing ---- */

/* All but the connections. */
static void free_state(gs_comm *c) {
    gs_gloo_state *s = c->state;
    gs_gloo_forget_wait(c);
    pthread_mutex_destroy(&s->waits);
    pthread_mutex_destroy(&s->lock);
    free(s->folder);
    gs_board_free(s->board);
    free(s->late);
    gs_scratch_free(&s->scratch);
    free(s);
}

static void gloo_free(gs_comm *c) {
    gs_gloo_state *s = c->state;
    gs_gloo_error e;
    /* A rank that closed its connections now could cut off data that the others have yet to read. If a rank has already
     * gone, the barrier fails at once. That failure is ignored: this is the end, and there is nothing left to
     * report. */
    if (s->gloo && !atomic_load(&s->failed))
        gs_gloo_collective(s->gloo, &(gs_call){.operation = GS_BARRIER}, NULL, NULL,
                           gs_gloo_milliseconds(c->timeout), &e);
    gs_gloo_disconnect(s, c->size);
    free_state(c);
}

static void gloo_of_processes(gs_comm *c) {
    ((gs_gloo_state *)c->state)->noun = "process";
}

static const gs_transport transport_gloo = {
    .name = "gloo",
    .send = gloo_send,
    .recv = gloo_recv,
    .collective = gloo_collective,
    .abort = gs_gloo_abort,
    .free = gloo_free,
    .of_processes = gloo_of_processes,
};

gs_status gs_comm_gloo_create(const gs_rendezvous *r, gs_comm **out) {
    GS_TRY(gs_rendezvous_check(r, !r->meet[0]));
    gs_gloo_state *s = calloc(1, sizeof *s);
    if (!s) return gs_fail(GS_E_MEMORY, "no memory for the connections between processes");
    s->comm = (gs_comm){&transport_gloo, r->rank, r->size, r->timeout, s};
    s->noun = "rank";
    s->folder = r->size > 1 && r->directory ? strdup(r->directory) : NULL;
    s->board = gs_board_create(r);
    s->late = calloc(2 * (size_t)r->size, sizeof *s->late);
    s->silent = s->late + r->size;
    pthread_mutex_init(&s->waits, NULL);
    pthread_mutex_init(&s->lock, NULL);
    gs_status status = (s->folder || r->size == 1 || !r->directory) && s->late
                           ? gs_gloo_open(r, &s->comm)
                           : gs_fail(GS_E_MEMORY, "no memory for the connections between processes");
    if (status == GS_OK)
        *out = &s->comm;
    else
        free_state(&s->comm);
    return status;
}
