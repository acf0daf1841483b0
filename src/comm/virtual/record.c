#include "comm/virtual/record.h"

static gs_virtual_list *list_of(const gs_comm *c) {
    return ((const gs_recorder *)c->state)->list;
}

static gs_status record_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    (void)data;
    return gs_virtual_list_add(list_of(c), GS_VIRTUAL_SEND, e->peer, bytes);
}

static gs_status record_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    (void)data;
    return gs_virtual_list_add(list_of(c), GS_VIRTUAL_RECV, e->peer, bytes);
}

static gs_status record_added(gs_comm *c, size_t bytes) {
    return gs_virtual_list_add(list_of(c), GS_VIRTUAL_ADD, 0, bytes);
}

static void record_abort(gs_comm *c, const char *message) {
    gs_bug("rank %d of a recording is aborted: %s", c->rank, message);
}

static void record_free(gs_comm *c) {
    (void)c;
}

static const gs_transport transport_recorder = {
    .name = "virtual",
    .send = record_send,
    .recv = record_recv,
    .collective = gs_collective_by_messages,
    .abort = record_abort,
    .free = record_free,
    .added = record_added,
};

void gs_recorder_begin(gs_recorder *r, int ranks) {
    *r = (gs_recorder){.comm = {&transport_recorder, 0, ranks, GS_TIMEOUT, r}};
}
