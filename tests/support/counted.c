#include "tests/support/counted.h"

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

static gs_status train(gs_comm *comm, void *context) {
    gs_counted_run *run = context;
    gs_counted me;
    gs_worker w;
    gs_result r = {0};
    gs_counted_begin(&me, comm, run->counts);
    GS_TRY(gs_worker_create(&w, &run->settings, "cpu", &me.comm, 1, GS_NOT_SCALED, run->train, run->test));
    const gs_status status = gs_train_epochs(&w, &r);
    run->bytes[comm->rank] = atomic_load(&me.bytes);
    run->measured[comm->rank] = w.measured.sent / (double)r.steps;
    run->sent[comm->rank] = r.sent;
    gs_result_free(&r);
    if (comm->rank == 0) run->result = r;
    gs_worker_free(&w);
    return status;
}

void gs_counted_train(gs_counted_run *run, int ranks) {
    const gs_test_layout layout = {.name = "threads", .workers = {ranks}};
    gs_test_ranks_ok(&layout, train, run);
}
