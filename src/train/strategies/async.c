/* --sync async --staleness K: nobody waits for everybody.
 *
 *     worker r   computes its gradient  ->  sends it  ->  gets the weights that there are  ->  next step
 *     server     takes each gradient as it comes, and makes an update from it at once
 *
 * So a straggler does not hold up the others until they are K steps ahead of it. The price: others change the
 * weights while a gradient is being computed. The staleness of a gradient is how many gradients of others came in
 * between; the run ends with the distribution that was seen. With K = 0 all wait for all, and the result is the
 * synchronous one.
 *
 * The server (async_server.h) lies in the process of rank 0. Rank 0, a worker like the others, uses it directly. For
 * each other worker a thread there receives its gradients, hands them to the server, and sends the answer.
 *
 *     rank 1  == messages ==  thread 1 \
 *     rank 2  == messages ==  thread 2 --  server  --  rank 0
 *     rank 3  == messages ==  thread 3 /
 *
 * Each worker has one message under way at a time: its gradient, or the answer. A thread that loses its worker makes
 * the server and the comm fail, so nobody goes on waiting.
 *
 * Source: Dean et al., "Large scale distributed deep networks" (NIPS 2012), whose Downpour SGD has no bound.
 */
#include "core/clock.h"
#include "core/thread.h"
#include "train/strategies/async_server.h"
#include "train/internal.h"
#include "train/timeline/timeline.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct async async;

/* On rank 0: what serves one other worker during an epoch. */
typedef struct connection {
    async *async;
    int rank;
    bool running;
    pthread_t thread;
    float *data;
} connection;

struct async {
    gs_worker *worker;
    size_t saved, steps;   /* floats of the model; steps of this epoch ... */
    uint64_t steps_before; /* ... and before it */
    float *data;           /* gradient there, weights back; with state and counts */
    gs_server *server;     /* on rank 0; NULL elsewhere, like the connections: */
    connection *connections;
};

static size_t bytes_of(const async *a) {
    return (a->saved + GS_STATS) * sizeof(float);
}

static gs_status create(gs_worker *w) {
    async *a = w->strategy_state = calloc(1, sizeof *a);
    if (!a) return gs_fail(GS_E_MEMORY, "no memory for a parameter server");
    a->worker = w;
    a->saved = w->model->saved;
    w->sync_most = GS_STATS;
    if (!(a->data = gs_host_alloc(w, GS_MEMORY_COMMUNICATION, bytes_of(a))))
        return gs_fail(GS_E_MEMORY, "no memory for %zu floats", a->saved);
    if (w->comm->rank != 0) return GS_OK;
    a->connections = calloc((size_t)w->comm->size, sizeof *a->connections);
    if (!a->connections) return gs_fail(GS_E_MEMORY, "no memory for %d workers", w->comm->size);
    for (int r = 1; r < w->comm->size; r++) {
        a->connections[r] = (connection){.async = a, .rank = r};
        a->connections[r].data = gs_host_alloc(w, GS_MEMORY_COMMUNICATION, bytes_of(a));
        if (!a->connections[r].data)
            return gs_fail(GS_E_MEMORY, "no memory for the gradients of %d workers", w->comm->size);
    }
    GS_TRY(gs_server_create(w, &a->server));
    return gs_book_host(w, GS_MEMORY_COMMUNICATION, a->server, gs_server_bytes(a->server));
}

/* Join all threads that run. They have ended, or soon will: after their last step, or because the comm or the server
 * failed. */
static void join_all(async *a) {
    for (int r = 1; a->connections && r < a->worker->comm->size; r++) {
        connection *k = &a->connections[r];
        if (k->running) pthread_join(k->thread, NULL);
        k->running = false;
    }
}

/* After a failure the comm has failed too. */
static void free_async(gs_worker *w) {
    async *a = w->strategy_state;
    if (!a) return;
    if (a->server) gs_server_fail(a->server, &(gs_error){GS_E_PEER, "rank 0 has ended"});
    join_all(a);
    for (int r = 1; a->connections && r < a->worker->comm->size; r++) free(a->connections[r].data);
    free(a->connections);
    gs_server_free(a->server);
    free(a->data);
    free(a);
}

static bool is_stop(const async *a, const float *data) {
    return data[a->saved + GS_STAT_STOP] > 0;
}

/* A message of a worker's step `step`, to or from `peer`, in the thread of row `row`. */
static gs_status send(const async *a, const float *data, int peer, int row, uint64_t step) {
    double start = gs_seconds();
    GS_TRY(gs_comm_send(a->worker->comm, data, bytes_of(a), peer));
    gs_timeline_message(a->worker, row, step, false, peer, bytes_of(a), start);
    return GS_OK;
}

static gs_status receive(const async *a, float *data, int peer, int row, uint64_t step) {
    double start = gs_seconds();
    GS_TRY(gs_comm_recv(a->worker->comm, data, bytes_of(a), peer));
    gs_timeline_message(a->worker, row, step, true, peer, bytes_of(a), start);
    return GS_OK;
}

/* One worker's epoch, as seen by rank 0. */
static gs_status serve(const connection *k) {
    const async *a = k->async;
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
    gs_error error = {0};
    if (gs_error_keep(&error, serve(k)) == GS_OK) return NULL;
    gs_server_fail(k->async->server, &error);
    gs_comm_abort(k->async->worker->comm, error.message);
    return NULL;
}

static gs_status begin_epoch(gs_worker *w, size_t steps) {
    async *a = w->strategy_state;
    a->steps = steps;
    a->steps_before = w->step;
    if (!a->server) return GS_OK;
    gs_server_begin_epoch(a->server, steps);
    for (int r = 1; r < w->comm->size; r++) {
        connection *k = &a->connections[r];
        k->running = gs_thread_start(&k->thread, connection_main, k) == 0;
        if (!k->running) return gs_fail(GS_E_MEMORY, "cannot start a thread to serve worker %d", r);
    }
    return GS_OK;
}

/* Send the gradient, receive the weights. */
static gs_status exchange(async *a) {
    uint64_t step = a->worker->step + 1;
    if (a->server) return gs_server_exchange(a->server, a->worker->comm->rank, a->data);
    GS_TRY(send(a, a->data, 0, GS_ROW_COMPUTE, step));
    return receive(a, a->data, 0, GS_ROW_COMPUTE, step);
}

static gs_status step(gs_worker *w, gs_score *score) {
    async *a = w->strategy_state;
    GS_TRY(gs_gradient(w));
    GS_TRY(w->device->ops->read(w->device, a->data, w->model->gradients, bytes_of(a)));
    *score = gs_score_of(a->data + a->saved);
    if (gs_watch_loss(w, score->loss, w->step + 1) || gs_stop_requested) a->data[a->saved + GS_STAT_STOP] = 1;
    GS_TRY(exchange(a));
    score->stop = is_stop(a, a->data);
    GS_TRY(w->device->ops->write(w->device, w->model->weights, a->data, a->saved * sizeof(float)));
    return gs_phase_ends(w, GS_PHASE_SYNC);
}

static gs_status end_epoch(gs_worker *w, gs_score *total) {
    async *a = w->strategy_state;
    *total = gs_score_of(a->data + a->saved); /* of the last answer, which waited for all */
    join_all(a);
    return a->server ? gs_server_status(a->server) : GS_OK;
}

static gs_status report(gs_worker *w, gs_result *result) {
    const async *a = w->strategy_state;
    return a->server ? gs_server_staleness(a->server, &result->staleness) : GS_OK;
}

static gs_status check(const gs_settings *s, bool chosen) {
    if (!chosen)
        return s->staleness >= 0
                   ? gs_fail(GS_E_USAGE, "--staleness works only with --sync async, not with --sync %s",
                             s->sync)
                   : GS_OK;
    if (s->optimizer != &gs_sgd)
        return gs_fail(GS_E_USAGE,
                       "--sync async predicts how far momentum will move the weights, which is defined only "
                       "for sgd; the optimiser is '%s'",
                       s->optimizer->name);
    if (s->clip > 0)
        return gs_fail(
            GS_E_USAGE,
            "--clip %g: --sync async makes an update from each worker's gradient as it comes, so there "
            "is no sum over all workers whose norm could be limited",
            (double)s->clip);
    if (s->staleness < 0)
        return gs_fail(
            GS_E_USAGE,
            "--sync async needs --staleness K: how many steps a worker may run ahead of the slowest");
    if (s->verify)
        return gs_fail(GS_E_USAGE, "--verify: with --sync async the workers' weights differ by design");
    return GS_OK;
}

static void describe(const gs_settings *s, char *text, size_t size) {
    snprintf(text, size, "gradients applied as they arrive (at most %d step%s ahead)", s->staleness,
             s->staleness == 1 ? "" : "s");
}

const gs_strategy gs_strategy_async = {
    .name = "async",
    .option = "--sync async",
    .check = check,
    .describe = describe,
    .apart = true,
    .create = create,
    .begin_epoch = begin_epoch,
    .step = step,
    .end_epoch = end_epoch,
    .report = report,
    .free = free_async,
};
