#include "tests/counted.h"

static gs_status counted_send(gs_comm *comm, const gs_envelope *e, const void *data, size_t bytes) {
    gs_counted *c = comm->state;
    if (c->counts(e->call) && atomic_load(&c->on))
        atomic_store(&c->bytes, atomic_load(&c->bytes) + (double)bytes);
    return c->inner->ops->send(c->inner, e, data, bytes);
}

static gs_status counted_recv(gs_comm *comm, const gs_envelope *e, void *data, size_t bytes) {
    gs_counted *c = comm->state;
    return c->inner->ops->recv(c->inner, e, data, bytes);
}

static void counted_abort(gs_comm *comm, const char *message) {
    gs_counted *c = comm->state;
    c->inner->ops->abort(c->inner, message);
}

static const gs_transport counted = {
    .name = "counted", .send = counted_send, .recv = counted_recv, .abort = counted_abort};

void gs_counted_begin(gs_counted *c, gs_comm *inner, bool (*counts)(const gs_call *)) {
    *c = (gs_counted){
        .comm = {&counted, inner->rank, inner->size, inner->timeout, c}, .inner = inner, .counts = counts};
}

void gs_counted_step_2(gs_worker *w) {
    gs_counted *c = w->comm->state;
    atomic_store(&c->on, w->step == 1);
}
