/* Every operation passes through this file. A message goes to the transport's send or recv. A collective goes to the
 * transport, or to collectives.c, which builds it from the parts below. */
#include "comm/transports.h"

#include <stdio.h>

/* ---- every operation ---- */

gs_status gs_call_run(gs_comm *c, const gs_call *call, const void *in, void *out) {
    int root = call->root;
    if (call->operation == GS_SEND || call->operation == GS_RECV) {
        bool sends = call->operation == GS_SEND;
        if (root < 0 || root >= c->size || root == c->rank)
            gs_bug("rank %d of %d %s rank %d", c->rank, c->size, sends ? "sends to" : "receives from", root);
        const gs_call message = {call->operation, call->count * gs_type_size(call->type), GS_U8, GS_SUM,
                                 root};
        if (sends) return c->ops->send(c, &(gs_envelope){root, c->rank, root, &message}, in, message.count);
        return c->ops->recv(c, &(gs_envelope){root, root, c->rank, &message}, out, message.count);
    }
    if (gs_operation_has_root(call->operation) && (root < 0 || root >= c->size))
        gs_bug("rank %d of %d: the root is rank %d", c->rank, c->size, root);
    if (gs_operation_is_in_place(call->operation)) in = out;
    return (c->ops->collective ? c->ops->collective : gs_collective_by_messages)(c, call, in, out);
}

int gs_comm_reported_rank(const gs_comm *c) {
    return c->ops->reported_rank ? c->ops->reported_rank(c) : c->rank;
}

void gs_comm_abort(gs_comm *c, const char *reason) {
    char message[GS_FAILURE_TEXT];
    snprintf(message, sizeof message, "rank %d: %s", gs_comm_reported_rank(c), reason);
    c->ops->abort(c, message);
}

/* ---- parts of a collective ---- */

gs_status gs_collective_send(gs_comm *c, const gs_call *call, const void *data, size_t bytes, int to) {
    return c->ops->send(c, &(gs_envelope){to, c->rank, to, call}, data, bytes);
}

gs_status gs_collective_recv(gs_comm *c, const gs_call *call, void *data, size_t bytes, int from) {
    return c->ops->recv(c, &(gs_envelope){from, from, c->rank, call}, data, bytes);
}

gs_status gs_collective_combine(gs_comm *c, const gs_call *call, void *to, const void *from, size_t bytes) {
    if (c->ops->added) return c->ops->added(c, bytes);
    gs_combine_of(call->type, call->reduction)(to, to, from, bytes / gs_type_size(call->type));
    return GS_OK;
}
