/* --sync async --staleness K: nobody waits for everybody.
 *
 *     worker r   computes its gradient  ->  sends it  ->  gets the weights that there are  ->  next step
 *     server     takes each gradient as it comes, and makes an update from it at once
 *
 * So a slow worker does not hold up the others, until they are K steps ahead of it. The price: a gradient was
 * computed at weights that others have changed since. How many gradients of others came in between is its
 * staleness; the run ends with the distribution of what was seen. With K = 0 all wait for all, and the result is
 * the synchronous one.
 *
 * The server (async_server.h) lies in the process of rank 0. Rank 0, a worker as the others, uses it directly; for
 * each other worker a thread there receives its gradients, brings them to the server, and sends the answer.
 *
 *     rank 1  == messages ==  thread 1 \
 *     rank 2  == messages ==  thread 2 --  server  --  rank 0
 *     rank 3  == messages ==  thread 3 /
 *
 * Each worker has one message under way at a time: its gradient, or the answer. A thread that loses its worker
 * makes the server fail, and the comm, so that nobody waits on.
 *
 * Source: Dean et al., "Large scale distributed deep networks" (NIPS 2012), whose Downpour SGD knows no bound.
 */
#include "core/clock.h"
#include "train/async_server.h"
#include "train/modes.h"
#include "train/timeline.h"

#include <pthread.h>
#include <stdlib.h>

/* On rank 0: what serves one other worker during an epoch. */
typedef struct connection {
    gs_async *async;
    int rank;
    bool running;
    pthread_t thread;
    float *data;
} connection;

struct gs_async {
    gs_worker *worker;
    gs_comm *comm;
    size_t params, steps;  /* steps of this epoch ... */
    uint64_t steps_before; /* ... and before it */
    float *data;           /* gradient there, weights back */
    gs_server *server;     /* on rank 0; NULL elsewhere, like the connections: */
    connection *connections;
};

static size_t bytes_of(const gs_async *a) {
    return (a->params + GS_STATS) * sizeof(float);
}

gs_status gs_async_create(gs_worker *w, gs_async **out) {
    gs_async *a = calloc(1, sizeof *a);
    *out = a;
    if (!a) return gs_fail(GS_E_MEMORY, "no memory for a parameter server");
    a->worker = w;
    a->comm = w->comm;
    a->params = w->model->params;
    if (!(a->data = malloc(bytes_of(a)))) return gs_fail(GS_E_MEMORY, "no memory for %zu floats", a->params);
    if (w->comm->rank != 0) return GS_OK;
    a->connections = calloc((size_t)w->comm->size, sizeof *a->connections);
    if (!a->connections) return gs_fail(GS_E_MEMORY, "no memory for %d workers", w->comm->size);
    for (int r = 1; r < w->comm->size; r++) {
        a->connections[r] = (connection){.async = a, .rank = r, .data = malloc(bytes_of(a))};
        if (!a->connections[r].data)
            return gs_fail(GS_E_MEMORY, "no memory for the gradients of %d workers", w->comm->size);
    }
    return gs_server_create(w, &a->server);
}

/* All that run have ended, or end soon: after their last step, or because the comm or the server failed. */
static void join_all(gs_async *a) {
    for (int r = 1; a->connections && r < a->comm->size; r++) {
        connection *k = &a->connections[r];
        if (k->running) pthread_join(k->thread, NULL);
        k->running = false;
    }
}

void gs_async_free(gs_async *a) {
    if (!a) return;
    if (a->server) gs_server_fail(a->server, GS_E_PEER, "rank 0 has ended");
    join_all(a);
    for (int r = 1; a->connections && r < a->comm->size; r++) free(a->connections[r].data);
    free(a->connections);
    gs_server_free(a->server);
    free(a->data);
    free(a);
}

static bool is_stop(const gs_async *a, const float *data) {
    return data[a->params + GS_STAT_STOP] > 0;
}

/* A message of a worker's step `step`, to or from `peer`, in the thread of row `row`. */
static gs_status send(const gs_async *a, const float *data, int peer, int row, uint64_t step) {
    double start = gs_seconds();
    GS_TRY(a->comm->ops->send(a->comm, data, bytes_of(a), peer));
    gs_timeline_message(a->worker, row, step, false, peer, bytes_of(a), start);
    return GS_OK;
}

static gs_status receive(const gs_async *a, float *data, int peer, int row, uint64_t step) {
    double start = gs_seconds();
    GS_TRY(a->comm->ops->recv(a->comm, data, bytes_of(a), peer));
    gs_timeline_message(a->worker, row, step, true, peer, bytes_of(a), start);
    return GS_OK;
}

/* One worker's epoch, as seen by rank 0. */
static gs_status serve(const connection *k) {
    const gs_async *a = k->async;
    int row = GS_ROW_SERVER + k->rank;
    bool stop = false;
    for (size_t i = 0; i < a->steps && !stop; i++) {
        uint64_t step = a->steps_before + i + 1;
        GS_TRY(receive(a, k->data, k->rank, row, step));
        GS_TRY(gs_server_exchange(a->server, k->rank, k->data));
        stop = is_stop(a, k->data);
        GS_TRY(send(a, k->data, k->rank, row, step));
    }
    return GS_OK;
}

static void *connection_main(void *argument) {
    const connection *k = argument;
    gs_status status = serve(k);
    if (status == GS_OK) return NULL;
    gs_server_fail(k->async->server, status, gs_message());
    k->async->comm->ops->abort(k->async->comm, gs_message());
    return NULL;
}

gs_status gs_async_begin_epoch(gs_worker *w, size_t steps) {
    gs_async *a = w->async;
    a->steps = steps;
    a->steps_before = w->step;
    if (!a->server) return GS_OK;
    gs_server_begin_epoch(a->server, steps);
    for (int r = 1; r < w->comm->size; r++) {
        connection *k = &a->connections[r];
        k->running = pthread_create(&k->thread, NULL, connection_main, k) == 0;
        if (!k->running) return gs_fail(GS_E_MEMORY, "no thread could be started to serve worker %d", r);
    }
    return GS_OK;
}

/* Gradient there, weights back. */
static gs_status exchange(gs_async *a) {
    uint64_t step = a->worker->step + 1;
    if (a->server) return gs_server_exchange(a->server, a->comm->rank, a->data);
    GS_TRY(send(a, a->data, 0, GS_ROW_COMPUTE, step));
    return receive(a, a->data, 0, GS_ROW_COMPUTE, step);
}

gs_status gs_async_step(gs_worker *w, size_t batch_first, size_t batch, gs_score *score) {
    gs_async *a = w->async;
    GS_TRY(gs_fresh_gradient(w, batch_first, gs_shard_of(batch, w->comm->rank, w->comm->size)));
    GS_TRY(w->device->ops->read(w->device, a->data, w->model->gradients, bytes_of(a)));
    *score = gs_score_of(a->data + a->params);
    if (gs_stop_requested) a->data[a->params + GS_STAT_STOP] = 1;
    GS_TRY(exchange(a));
    score->stop = is_stop(a, a->data);
    GS_TRY(gs_model_write_weights(w->model, a->data));
    return gs_phase_ends(w, GS_PHASE_SYNC);
}

gs_status gs_async_end_epoch(gs_worker *w, gs_score *total) {
    gs_async *a = w->async;
    *total = gs_score_of(a->data + a->params); /* of the last answer, which waited for all */
    join_all(a);
    return a->server ? gs_server_status(a->server) : GS_OK;
}

gs_status gs_async_staleness(gs_worker *w, gs_staleness *out) {
    return w->async->server ? gs_server_staleness(w->async->server, out) : GS_OK;
}
