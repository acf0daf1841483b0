/* A comm of two levels: see gs_levels in transports.h. */
#include "comm/transports.h"

#include <stdio.h>

int gs_group_of(const gs_levels *l, int rank) {
    int g = 0;
    while (rank >= l->first[g + 1]) g++;
    return g;
}

/* A failure at one level fails both, so that no rank keeps waiting at the other. */
static void fail_all(const gs_levels *l, const char *message) {
    if (l->inside) l->inside->ops->abort(l->inside, message);
    l->outside->ops->abort(l->outside, message);
}

gs_status gs_levels_finish(const gs_levels *l, gs_status status) {
    char message[GS_FAILURE_TEXT];
    if (status == GS_OK) return GS_OK;
    snprintf(message, sizeof message, "%s", gs_message());
    fail_all(l, message);
    if (status == GS_E_PEER && l->inside)
        return gs_comm_barrier(l->inside); /* fails with the first message */
    return gs_fail(status, "%s", message);
}

gs_status gs_levels_broadcast(gs_levels *l, const gs_call *call, void *data) {
    const int owner = gs_group_of(l, call->root), mine = gs_group_of(l, l->comm.rank);
    gs_call inside = *call, between = *call;
    inside.root = owner == mine ? call->root - l->first[mine] : 0;
    inside.count = owner == mine ? call->count : 0; /* so that no rank waits long for a lost leader */
    between.root = owner;
    if (l->inside) GS_TRY(gs_levels_finish(l, gs_call_run(l->inside, &inside, NULL, data)));
    inside.count = call->count;
    if (l->leaders) GS_TRY(gs_levels_finish(l, gs_call_run(l->leaders, &between, NULL, data)));
    if (!l->inside || owner == mine) return GS_OK;
    return gs_levels_finish(l, gs_call_run(&l->patient, &inside, NULL, data));
}

gs_status gs_levels_barrier(gs_levels *l, const gs_call *call) {
    if (l->inside) GS_TRY(gs_levels_finish(l, gs_call_run(l->inside, call, NULL, NULL)));
    if (l->leaders) GS_TRY(gs_levels_finish(l, gs_call_run(l->leaders, call, NULL, NULL)));
    return l->inside ? gs_levels_finish(l, gs_call_run(&l->patient, call, NULL, NULL)) : GS_OK;
}

/* The comm that reaches the peer; *inner becomes the envelope in that comm. */
static gs_comm *way_to_peer(const gs_levels *l, const gs_envelope *e, gs_envelope *inner) {
    const int group = gs_group_of(l, e->peer), mine = gs_group_of(l, l->comm.rank);
    *inner = *e;
    if (group == mine && l->inside) {
        inner->peer -= l->first[mine];
        return l->inside;
    }
    if (l->outside->size < l->comm.size) inner->peer = group;
    return l->outside;
}

gs_status gs_levels_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    gs_envelope inner;
    gs_comm *way = way_to_peer(c->state, e, &inner);
    return gs_levels_finish(c->state, way->ops->send(way, &inner, data, bytes));
}

gs_status gs_levels_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    gs_envelope inner;
    gs_comm *way = way_to_peer(c->state, e, &inner);
    return gs_levels_finish(c->state, way->ops->recv(way, &inner, data, bytes));
}

void gs_levels_abort(gs_comm *c, const char *message) {
    fail_all(c->state, message);
}

double gs_levels_patience(double timeout) {
    return (timeout < 3 ? timeout : 3) + 0.5;
}
