/* Ranks as processes, over Gloo. How they are connected: gloo_open.c; where one is lost: gloo_lost.c. */
#include "data/shard.h"
#include "sync/gloo_state.h"

#include <stdlib.h>
#include <string.h>

enum { WHAT = 96 };

/* ---- operations ---- */

/* Is there nothing to do? Then *status is the result: a failure of old, or nothing to move. */
static bool nothing_to_do(const gs_comm *c, size_t bytes, gs_status *status) {
    const gs_gloo_state *s = c->state;
    *status = atomic_load(&s->failed) ? gs_gloo_failed(s) : GS_OK;
    return *status != GS_OK || c->size == 1 || bytes == 0;
}

/* The result of a collective: why `call` failed, if it did. */
static gs_status outcome(gs_comm *c, gs_call call, gs_gloo_code code, const gs_gloo_error *e) {
    const gs_gloo_state *s = c->state;
    if (code == GS_GLOO_OK) return GS_OK;
    char what[WHAT];
    gs_call_describe(&call, false, what, sizeof what);
    if (!gs_operation_has_root(call.operation)) return gs_gloo_lost(c, e, -1, "%s", what);
    bool to_root = call.operation == GS_REDUCE || call.operation == GS_GATHER;
    return gs_gloo_lost(c, e, -1, "%s %s %s %d", what, to_root ? "to" : "from", s->noun, call.root);
}

/* A rank alone has what it will get already, but perhaps in another place. */
static gs_status alone(const gs_comm *c, gs_status status, void *to, const void *from, size_t bytes) {
    if (status == GS_OK && c->size == 1 && bytes > 0 && to != from) memcpy(to, from, bytes);
    return status;
}

static gs_gloo_reduction reduction_of(gs_type type, gs_reduction reduction) {
    return (gs_gloo_reduction){gs_type_size(type), gs_combine_of(type, reduction)};
}

static gs_status gloo_all_reduce(gs_comm *c, void *data, size_t count, gs_type type, gs_reduction reduction) {
    gs_gloo_state *s = c->state;
    gs_gloo_error e;
    gs_status status;
    if (nothing_to_do(c, count, &status)) return status;
    const gs_gloo_reduction sum = reduction_of(type, reduction);
    gs_gloo_code code =
        s->direct ? gs_direct_all_reduce(s->direct, data, count, sum, &e)
                  : gs_gloo_all_reduce(s->gloo, data, count, sum, gs_gloo_milliseconds(c->timeout), &e);
    return outcome(c, (gs_call){GS_ALL_REDUCE, count, type, reduction, 0}, code, &e);
}

static gs_status gloo_reduce(gs_comm *c, void *data, size_t count, gs_type type, gs_reduction reduction,
                             int root) {
    gs_gloo_state *s = c->state;
    gs_gloo_error e;
    gs_status status;
    size_t bytes = count * gs_type_size(type);
    gs_check_root(c, root);
    if (nothing_to_do(c, count, &status)) return status;
    /* Gloo leaves parts of sums on the others */
    void *used_up = c->rank == root ? data : gs_scratch_take(&s->scratch, bytes);
    if (!used_up)
        return gs_fail(GS_E_MEMORY, "%s %d: reduce: no memory for %zu bytes", s->noun, c->rank, bytes);
    if (used_up != data) memcpy(used_up, data, bytes);
    gs_gloo_code code = gs_gloo_reduce(s->gloo, used_up, count, reduction_of(type, reduction), root,
                                       gs_gloo_milliseconds(c->timeout), &e);
    return outcome(c, (gs_call){GS_REDUCE, count, type, reduction, root}, code, &e);
}

static gs_status gloo_broadcast(gs_comm *c, void *data, size_t count, gs_type type, int root) {
    gs_gloo_state *s = c->state;
    gs_gloo_error e;
    gs_status status;
    gs_check_root(c, root);
    if (nothing_to_do(c, count, &status)) return status;
    gs_gloo_code code = gs_gloo_broadcast(s->gloo, data, count * gs_type_size(type), root,
                                          gs_gloo_milliseconds(c->timeout), &e);
    return outcome(c, (gs_call){GS_BROADCAST, count, type, 0, root}, code, &e);
}

static gs_status gloo_all_gather(gs_comm *c, const void *mine, void *all, size_t count, gs_type type) {
    gs_gloo_state *s = c->state;
    gs_gloo_error e;
    gs_status status;
    size_t bytes = count * gs_type_size(type);
    if (nothing_to_do(c, count, &status)) return alone(c, status, all, mine, bytes);
    gs_gloo_code code = gs_gloo_all_gather(s->gloo, mine, all, bytes, gs_gloo_milliseconds(c->timeout), &e);
    return outcome(c, (gs_call){GS_ALL_GATHER, count, type, 0, 0}, code, &e);
}

static gs_status gloo_gather(gs_comm *c, const void *mine, void *all, size_t count, gs_type type, int root) {
    gs_gloo_state *s = c->state;
    gs_gloo_error e;
    gs_status status;
    size_t bytes = count * gs_type_size(type);
    gs_check_root(c, root);
    if (nothing_to_do(c, count, &status)) return alone(c, status, all, mine, bytes);
    gs_gloo_code code = gs_gloo_gather(s->gloo, mine, all, bytes, root, gs_gloo_milliseconds(c->timeout), &e);
    return outcome(c, (gs_call){GS_GATHER, count, type, 0, root}, code, &e);
}

static gs_status gloo_scatter(gs_comm *c, const void *all, void *mine, size_t count, gs_type type, int root) {
    gs_gloo_state *s = c->state;
    gs_gloo_error e;
    gs_status status;
    size_t bytes = count * gs_type_size(type);
    gs_check_root(c, root);
    if (nothing_to_do(c, count, &status)) return alone(c, status, mine, all, bytes);
    gs_gloo_code code =
        gs_gloo_scatter(s->gloo, all, mine, bytes, root, gs_gloo_milliseconds(c->timeout), &e);
    return outcome(c, (gs_call){GS_SCATTER, count, type, 0, root}, code, &e);
}

static gs_status gloo_all_to_all(gs_comm *c, const void *from, void *to, size_t count, gs_type type) {
    gs_gloo_state *s = c->state;
    gs_gloo_error e;
    gs_status status;
    size_t bytes = count * gs_type_size(type);
    if (nothing_to_do(c, count, &status)) return alone(c, status, to, from, bytes);
    gs_gloo_code code = gs_gloo_all_to_all(s->gloo, from, to, bytes, gs_gloo_milliseconds(c->timeout), &e);
    return outcome(c, (gs_call){GS_ALL_TO_ALL, count, type, 0, 0}, code, &e);
}

static gs_status gloo_reduce_scatter(gs_comm *c, const void *all, void *mine, size_t total, gs_type type,
                                     gs_reduction reduction) {
    gs_gloo_state *s = c->state;
    gs_status status;
    gs_call call = {GS_REDUCE_SCATTER, total, type, reduction, 0};
    if (nothing_to_do(c, total, &status)) return alone(c, status, mine, all, total * gs_type_size(type));
    for (int r = 0; r < c->size; r++) s->first[r] = gs_shard_of(total, r, c->size).first;
    s->first[c->size] = total;
    return gs_pairwise_reduce_scatter(c, &call, all, mine, s->first, &s->scratch);
}

static gs_status gloo_barrier(gs_comm *c) {
    gs_gloo_state *s = c->state;
    gs_gloo_error e;
    gs_status status;
    if (nothing_to_do(c, 1, &status)) return status;
    gs_gloo_code code = gs_gloo_barrier(s->gloo, gs_gloo_milliseconds(c->timeout), &e);
    return outcome(c, (gs_call){.operation = GS_BARRIER}, code, &e);
}

/* ---- messages ---- */

/* A slot for each pair of ranks. */
static uint32_t slot_of(int from, int to) {
    return (uint32_t)from << 16 | (uint32_t)to;
}

static gs_status gloo_send_as(gs_comm *c, const void *data, size_t bytes, int process, int from, int to) {
    gs_gloo_state *s = c->state;
    gs_gloo_error e;
    gs_status status;
    if (nothing_to_do(c, bytes, &status)) return status;
    if (gs_gloo_send(s, data, bytes, process, slot_of(from, to), gs_gloo_milliseconds(c->timeout), &e) ==
        GS_GLOO_OK)
        return GS_OK;
    return gs_gloo_lost(c, &e, process, "send of %zu bytes to rank %d", bytes, to);
}

static gs_status gloo_recv_as(gs_comm *c, void *data, size_t bytes, int process, int from, int to) {
    gs_gloo_state *s = c->state;
    gs_gloo_error e;
    gs_status status;
    if (nothing_to_do(c, bytes, &status)) return status;
    if (gs_gloo_recv(s, data, bytes, process, slot_of(from, to), gs_gloo_milliseconds(c->timeout), &e) ==
        GS_GLOO_OK)
        return GS_OK;
    return gs_gloo_lost(c, &e, process, "recv of %zu bytes from rank %d", bytes, from);
}

/* Slots of their own, so that a message which nobody has received yet is not taken for a part. */
static uint32_t slot_of_part(int from, int to) {
    return slot_of(from, to) | 1u << 31;
}

static gs_status lost_part(gs_comm *c, const gs_call *call, const gs_gloo_error *e, int peer) {
    char what[WHAT];
    gs_call_describe(call, false, what, sizeof what);
    return gs_gloo_lost(c, e, peer, "%s", what);
}

static gs_status gloo_send_part(gs_comm *c, const gs_call *call, const void *data, size_t bytes, int to) {
    gs_gloo_state *s = c->state;
    gs_gloo_error e;
    gs_status status;
    if (nothing_to_do(c, bytes, &status)) return status;
    gs_gloo_code code =
        gs_gloo_send(s, data, bytes, to, slot_of_part(c->rank, to), gs_gloo_milliseconds(c->timeout), &e);
    return code == GS_GLOO_OK ? GS_OK : lost_part(c, call, &e, to);
}

static gs_status gloo_recv_part(gs_comm *c, const gs_call *call, void *data, size_t bytes, int from) {
    gs_gloo_state *s = c->state;
    gs_gloo_error e;
    gs_status status;
    if (nothing_to_do(c, bytes, &status)) return status;
    gs_gloo_code code =
        gs_gloo_recv(s, data, bytes, from, slot_of_part(from, c->rank), gs_gloo_milliseconds(c->timeout), &e);
    return code == GS_GLOO_OK ? GS_OK : lost_part(c, call, &e, from);
}

static gs_status gloo_send(gs_comm *c, const void *data, size_t bytes, int to) {
    gs_check_peer(c, "sends to", to);
    return gloo_send_as(c, data, bytes, to, c->rank, to);
}

static gs_status gloo_recv(gs_comm *c, void *data, size_t bytes, int from) {
    gs_check_peer(c, "receives from", from);
    return gloo_recv_as(c, data, bytes, from, from, c->rank);
}

/* ---- making and freeing ---- */

static void gloo_free(gs_comm *c) {
    gs_gloo_state *s = c->state;
    gs_gloo_error e;
    /* A rank that closed its connections now could cut off what the others have still to read. Where one has
     * gone already the barrier fails at once; this is the end, and nothing is left to be told. */
    if (s->gloo && !atomic_load(&s->failed)) gs_gloo_barrier(s->gloo, gs_gloo_milliseconds(c->timeout), &e);
    gs_gloo_disconnect(s, c->size);
    pthread_mutex_destroy(&s->lock);
    gs_scratch_free(&s->scratch);
    free(s->first);
    free(s);
    free(c);
}

static void gloo_of_processes(gs_comm *c) {
    ((gs_gloo_state *)c->state)->noun = "process";
}

static const gs_process_ops between_processes = {
    .of_processes = gloo_of_processes,
    .send = gloo_send_as,
    .recv = gloo_recv_as,
    .send_part = gloo_send_part,
    .recv_part = gloo_recv_part,
    .fail = gs_gloo_fail,
};

static const gs_transport transport_gloo = {
    .name = "gloo",
    .send = gloo_send,
    .recv = gloo_recv,
    .broadcast = gloo_broadcast,
    .all_reduce = gloo_all_reduce,
    .reduce = gloo_reduce,
    .all_gather = gloo_all_gather,
    .gather = gloo_gather,
    .scatter = gloo_scatter,
    .reduce_scatter = gloo_reduce_scatter,
    .all_to_all = gloo_all_to_all,
    .barrier = gloo_barrier,
    .abort = gs_gloo_abort,
    .free = gloo_free,
    .between = &between_processes,
};

const char *gs_comm_gloo_version(void) {
    return gs_gloo_version();
}

gs_status gs_comm_gloo_create(const gs_rendezvous *r, gs_comm **out) {
    gs_comm *c = malloc(sizeof *c);
    gs_gloo_state *s = calloc(1, sizeof *s);
    if (s && r->size > 0) s->first = calloc((size_t)r->size + 1, sizeof *s->first);
    gs_status status = c && s && (s->first || r->size < 1)
                           ? gs_gloo_open(r, s)
                           : gs_fail(GS_E_MEMORY, "no memory for the connections between processes");
    if (status != GS_OK) {
        if (s) free(s->first);
        free(s);
        free(c);
        return status;
    }
    s->noun = "rank";
    pthread_mutex_init(&s->lock, NULL);
    *c = (gs_comm){&transport_gloo, r->rank, r->size, r->timeout, s};
    *out = c;
    return GS_OK;
}
