/* --sync async --staleness K: no worker waits for all other workers.
 *
 *     worker r   computes its gradient  ->  sends it  ->  receives the current weights  ->  next step
 *     server     updates the weights with each gradient as it arrives
 *
 * A straggler therefore delays the others only once they are K steps ahead of it. The price: other workers change the
 * weights while a gradient is being computed. A gradient's staleness is the number of other gradients applied in the
 * meantime; the run reports the distribution at its end. With K = 0 all wait for all, as in synchronous training.
 *
 * The server runs in the process of rank 0. Rank 0 is a worker like the others, and calls the server directly. For each
 * other worker a thread in that process receives its gradients, hands them to the server, and sends the answers.
 *
 *     rank 1  == messages ==  thread 1 \
 *     rank 2  == messages ==  thread 2 --  server  --  rank 0
 *     rank 3  == messages ==  thread 3 /
 *
 * Each worker has only one message under way: its gradient, or the answer. A thread that loses its worker makes the
 * server and the comm fail, so that nobody waits for that worker.
 *
 * Source: Dean et al., "Large scale distributed deep networks" (NIPS 2012), whose Downpour SGD has no such bound.
 */
#include "comm/device.h"
#include "core/clock.h"
#include "core/functions.h"
#include "train/diverged.h"
#include "train/strategy.h"
#include "train/strategies/clocks.h"
#include "train/timeline.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the server ----
 *
 * The server holds the weights, and workers come and go at their own pace. It has no separate thread: a thread that
 * delivers a gradient (server_exchange) takes the lock, updates, and reads the weights. The server is the data that the
 * lock protects.
 *
 * clocks.h limits how far apart the workers may be. The velocity keeps moving the weights while a worker computes, so
 * the worker receives the weights that are expected at the time when it finishes (read_expected).
 *
 * Sources of expected weights: Hakimi, Barkai, Gabel, Schuster, "Taming momentum in a distributed asynchronous
 * environment" (arXiv:1907.11612, 2019); Chen, Yang, Cheng, "Efficient and robust parallel DNN training through model
 * parallelism on multi-GPU platform" (arXiv:1809.02839, 2018). Tried and rejected: a smaller step for a staler gradient
 * (Zhang, Gupta, Lian, Liu, "Staleness-aware async-SGD for distributed deep learning", IJCAI 2016): mlp at lr 0.02 lost
 * 1 point.
 */
typedef struct server {
    pthread_mutex_t lock; /* guards all other members */
    pthread_cond_t changed;
    gs_device *device; /* cpu, one thread; computes the updates */
    gs_mem weights;    /* followed by the layers' state */
    gs_mem velocity, gradient;
    size_t params, saved;    /* floats in the model, without and with the state */
    const gs_worker *worker; /* of rank 0 */
    gs_clocks clocks;
    float **given;         /* [rank]: the rank's gradient while it waits to be applied */
    int waiting, *who;     /* number of gradients waiting, and room for their ranks */
    uint64_t before;       /* steps in earlier epochs */
    float stats[GS_STATS]; /* sums over the epoch's gradients */
    gs_staleness seen;     /* the clocks share its counts */
    gs_error error;
} server;

/* Create a server for all workers of w->comm, with w's weights and optimiser. Free it even after a failure. */
static gs_status server_create(gs_worker *w, server **out) {
    const size_t workers = (size_t)w->comm->size, bound = (size_t)w->settings->staleness;
    void *initial;
    GS_TRY(GS_NEW(*out, 1, "a parameter server"));
    server *s = *out;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->params = w->model->params;
    s->saved = w->model->saved;
    s->worker = w;
    /* Between a worker's read of the weights and the update with its gradient, each of the other workers can make
     * 2 K + 1 steps: from K behind to K + 1 ahead. */
    s->seen.counts = (workers - 1) * (2 * bound + 1) + 1;
    s->seen.leads = bound + 1;
    GS_TRY(GS_NEW(s->seen.count, s->seen.counts, "counts of staleness up to %zu", s->seen.counts));
    GS_TRY(GS_NEW(s->seen.lead, s->seen.leads, "counts of %zu steps ahead", bound));
    s->clocks = (gs_clocks){.workers = w->comm->size, .bound = bound, .count = s->seen.count};
    GS_TRY(GS_NEW(s->clocks.clock, workers, "the clocks of %zu workers", workers));
    GS_TRY(GS_NEW(s->clocks.read, workers, "the clocks of %zu workers", workers));
    GS_TRY(GS_NEW(s->given, workers, "the gradients of %zu workers", workers));
    GS_TRY(GS_NEW(s->who, workers, "a list of %zu workers", workers));
    GS_TRY(gs_device_open("cpu", 1, &s->device));
    if (w->device->dry) gs_device_set_dry(s->device);
    const gs_backend *ops = s->device->ops;
    GS_TRY(ops->alloc(s->device, s->saved * sizeof(float), &s->weights));
    GS_TRY(ops->alloc(s->device, s->params * sizeof(float), &s->velocity));
    GS_TRY(ops->alloc(s->device, (s->params + GS_STATS) * sizeof(float), &s->gradient));
    GS_TRY(ops->map(s->device, s->weights, s->saved * sizeof(float), &initial));
    const gs_status status = gs_model_read_weights(w->model, initial);
    GS_TRY(gs_device_unmap_after(s->device, s->weights, initial, status));
    /* weights with state, velocity, and a gradient */
    return gs_book_host(w, GS_MEMORY_COMMUNICATION, s, (s->saved + 2 * s->params + GS_STATS) * sizeof(float));
}

static void server_free(server *s) {
    if (!s) return;
    if (s->device) {
        s->device->ops->free(s->device, s->weights);
        s->device->ops->free(s->device, s->velocity);
        s->device->ops->free(s->device, s->gradient);
    }
    gs_device_close(s->device);
    gs_staleness_free(&s->seen);
    free(s->clocks.clock);
    free(s->clocks.read);
    free(s->given);
    free(s->who);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* Make every exchange fail with this message, including exchanges that are waiting. Only the first message is kept. */
static void server_fail(server *s, const gs_error *e) {
    pthread_mutex_lock(&s->lock);
    if (s->error.status == GS_OK) s->error = *e;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* ---- called with the lock held ---- */

/* The sum of the waiting gradients, in rank order. They all belong to the same step. */
static float *sum_of_given(server *s) {
    float *sum = NULL;
    int n = 0;
    for (int r = 0; r < s->clocks.workers; r++) {
        float *from = s->given[r];
        if (!from) continue;
        if (!sum)
            sum = from;
        else
            gs_host_add(s->device, sum, from, s->saved + GS_STATS);
        s->given[r] = NULL;
        s->who[n++] = r;
    }
    gs_clocks_apply(&s->clocks, s->who, n);
    s->waiting = 0;
    return sum;
}

/* m^s with the same bits everywhere, unlike powf */
static float power(float m, float s) {
    return s == 1 ? m : gs_exp(s * gs_log(m));
}

/* Update the weights once. The gradient of a share s of the global batch makes a share s of a step. The gradient is
 * divided by the size of the whole batch, weight decay is multiplied by s, and the velocity decays by m^s, so that N
 * shares decay it as much as one step. With the learning rate below, a gradient g moves the weights, in the end, as far
 * as in the synchronous step: lr g (1 + m + m^2 + ...) = lr g / (1 - m).
 *
 *     v = m^s v + g + s decay W;    W -= lr (1 - m^s) / (1 - m) v           s = 1: the synchronous step
 *
 * The layers' state moves by the same share: state = (1 - s) state + s mean. The gradient's array holds s batch mean.
 */
static gs_status apply(server *s, size_t step) {
    const gs_backend *ops = s->device->ops;
    const gs_worker *w = s->worker;
    const float *sum = sum_of_given(s), *stats = sum + s->saved, m = w->optimizer->momentum;
    const size_t batch = gs_smaller(w->train_set->count - step * w->batch, w->batch);
    const size_t rows = batch * (size_t)gs_model_targets(w->model);
    float share = stats[GS_STAT_SAMPLES] / (float)rows;
    for (int i = 0; i < GS_STATS; i++) s->stats[i] += stats[i];
    if (!(share > 0)) return GS_OK; /* an empty part changes nothing */
    float momentum = power(m, share);
    float rate = m < 1 ? (1 - momentum) / (1 - m) : share;
    float lr = gs_lr_of_step(&w->rates, s->before + step);
    const gs_mem behind = gs_at(s->weights, s->params);
    void *state;
    GS_TRY(ops->map(s->device, behind, (s->saved - s->params) * sizeof *sum, &state));
    for (size_t i = 0; i < s->saved - s->params; i++)
        ((float *)state)[i] = (1 - share) * ((float *)state)[i] + sum[s->params + i] / (float)batch;
    GS_TRY(ops->unmap(s->device, behind, state));
    GS_TRY(ops->write(s->device, s->gradient, sum, s->params * sizeof *sum));
    return ops->sgd_update(s->device, s->weights, s->velocity, s->gradient, s->params,
                           (float)(1.0 / (double)rows), lr * rate, momentum,
                           w->optimizer->weight_decay * share);
}

/* The answer to a worker: not the current weights, but those expected when its gradient will be applied. If all workers
 * are equally fast, each of the others will have delivered a gradient by then: N - 1 updates, each by a share of 1/N.
 * Their gradients are still unknown, but the velocity's own effect on the weights is known. Let q = m^(1/N) be the
 * momentum of such an update, and l = lr (1 - q) / (1 - m) its rate:
 *
 *     W' = W - l (q + q^2 + ... + q^(N-1)) v = W - lr (q - m) / (1 - m) v
 *
 * Without this correction, a gradient is computed at weights that the velocity has long left behind, and training
 * oscillates, the more so the larger m is. W' is W if K = 0, after an epoch's last step, and when a run is to stop. */
static gs_status read_expected(server *s, size_t step, bool later, float *data) {
    const gs_backend *ops = s->device->ops;
    const float m = s->worker->optimizer->momentum;
    GS_TRY(ops->read(s->device, data, s->weights, s->saved * sizeof *data));
    if (!later || s->clocks.bound == 0 || !(m < 1)) return GS_OK;
    float q = power(m, 1 / (float)s->clocks.workers);
    float far = gs_lr_of_step(&s->worker->rates, s->before + step) * (q - m) / (1 - m);
    void *velocity;
    GS_TRY(ops->map(s->device, s->velocity, s->params * sizeof(float), &velocity));
    for (size_t i = 0; i < s->params; i++) data[i] -= far * ((const float *)velocity)[i];
    return ops->unmap(s->device, s->velocity, velocity);
}

/* True if the worker may continue. After a request to stop it does not wait, unless every step needs all workers. */
static bool may_go_on(const server *s, int rank) {
    bool stopping = s->stats[GS_STAT_STOP] > 0 && s->clocks.bound > 0;
    return gs_clocks_may_go_on(&s->clocks, rank) || stopping;
}

static gs_status answer(server *s, int rank, float *data) {
    size_t *mine = &s->clocks.clock[rank];
    GS_TRY(gs_error_again(&s->error));
    s->given[rank] = data;
    s->waiting++;
    /* apply it at once; but if no rank may be ahead, apply all together, as in the synchronous step */
    if (s->waiting == (s->clocks.bound == 0 ? s->clocks.workers : 1)) GS_TRY(apply(s, *mine));
    ++*mine;
    pthread_cond_broadcast(&s->changed);

    while (s->error.status == GS_OK && !may_go_on(s, rank)) pthread_cond_wait(&s->changed, &s->lock);
    GS_TRY(gs_error_again(&s->error));
    size_t lead = *mine - gs_clocks_slowest(&s->clocks);
    if (*mine < s->clocks.steps && lead < s->seen.leads) s->seen.lead[lead]++;
    gs_clocks_read(&s->clocks, rank);
    memcpy(data + s->saved, s->stats, sizeof s->stats);
    bool later = *mine < s->clocks.steps && !(s->stats[GS_STAT_STOP] > 0); /* the worker continues */
    return read_expected(s, *mine, later, data);
}

/* Worker `rank` delivers its gradient (saved + GS_STATS floats) in `data`. Once it may begin its next step, `data`
 * holds the weights, the layers' state and the epoch's counts so far. After its last step of an epoch the worker waits
 * for everyone's last step, so that all receive the same weights. A nonzero GS_STAT_STOP count means that a worker was
 * asked to stop; after that (if K > 0), nobody waits. Called by several threads, each for its own rank. */
static gs_status server_exchange(server *s, int rank, float *data) {
    pthread_mutex_lock(&s->lock);
    gs_status status = answer(s, rank, data);
    if (gs_error_keep(&s->error, status) != GS_OK) pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return status;
}

void gs_staleness_free(gs_staleness *s) {
    free(s->count);
    free(s->lead);
    *s = (gs_staleness){0};
}

/* ---- a worker; and on rank 0, the threads that serve the other workers ---- */

/* On rank 0: the thread and the buffer that serve one other worker. */
typedef struct connection {
    gs_jobs *jobs; /* a thread */
    float *data;
} connection;

typedef struct async {
    gs_worker *worker;
    size_t saved;            /* floats in the model */
    float *data;             /* the gradient, then the weights that come back; both with state and counts */
    server *server;          /* `server` and `connections`: NULL except on rank 0 */
    connection *connections; /* [rank] */
} async;

static size_t bytes_of(const async *a) {
    return (a->saved + GS_STATS) * sizeof(float);
}

static gs_status create(gs_worker *w) {
    async *a;
    GS_TRY(GS_NEW(a, 1, "a parameter server"));
    w->strategy_state = a;
    a->worker = w;
    a->saved = w->model->saved;
    w->sync_most = GS_STATS;
    GS_TRY(gs_host_alloc(w, GS_MEMORY_COMMUNICATION, bytes_of(a), &a->data));
    if (w->comm->rank != 0) return GS_OK;
    GS_TRY(GS_NEW(a->connections, w->comm->size, "%d workers", w->comm->size));
    for (int r = 1; r < w->comm->size; r++) {
        GS_TRY(gs_host_alloc(w, GS_MEMORY_COMMUNICATION, bytes_of(a), &a->connections[r].data));
        GS_TRY(w->jobs(w, 1, &a->connections[r].jobs));
    }
    return server_create(w, &a->server);
}

/* After a failure, the comm has failed too. */
static void free_async(gs_worker *w) {
    async *a = w->strategy_state;
    if (!a) return;
    if (a->server) server_fail(a->server, &(gs_error){GS_E_PEER, "rank 0 has ended"});
    for (int r = 1; a->connections && r < a->worker->comm->size; r++) {
        gs_jobs_free(a->connections[r].jobs);
        free(a->connections[r].data);
    }
    free(a->connections);
    server_free(a->server);
    free(a->data);
    free(a);
}

static bool is_stop(const async *a, const float *data) {
    return data[a->saved + GS_STAT_STOP] > 0;
}

/* Send or receive a message of a worker's step `step`, in the thread that row `row` of the timeline shows. */
static gs_status message(const async *a, float *data, int peer, bool receives, int row, uint64_t step) {
    gs_comm *c = a->worker->comm;
    const double start = gs_seconds();
    GS_TRY(receives ? gs_comm_recv(c, data, bytes_of(a), peer) : gs_comm_send(c, data, bytes_of(a), peer));
    gs_timeline_message(a->worker, row, step, receives, peer, bytes_of(a), start);
    return GS_OK;
}

/* Serve one worker for an epoch, on rank 0. */
static gs_status serve(const async *a, int rank) {
    const int row = GS_ROW_SERVER + rank;
    server *s = a->server;
    float *data = a->connections[rank].data;
    bool stop = false;
    for (size_t i = 0; i < s->clocks.steps && !stop; i++) {
        const uint64_t step = s->before + i + 1;
        GS_TRY(message(a, data, rank, true, row, step));
        GS_TRY(server_exchange(s, rank, data));
        stop = is_stop(a, data);
        GS_TRY(message(a, data, rank, false, row, step));
    }
    return GS_OK;
}

static gs_status serve_job(void *context, const gs_job *job) {
    const async *a = context;
    gs_error error = {0};
    if (gs_error_keep(&error, serve(a, job->unit)) == GS_OK) return GS_OK;
    server_fail(a->server, &error);
    gs_comm_abort(a->worker->comm, error.message);
    return gs_error_again(&error);
}

static gs_status begin_epoch(gs_worker *w, size_t steps) {
    async *a = w->strategy_state;
    server *s = a->server; /* needs no lock, because between two epochs no exchange is under way */
    if (!s) return GS_OK;
    s->before = w->step;
    s->clocks.steps = steps;
    memset(s->stats, 0, sizeof s->stats);
    memset(s->clocks.clock, 0, (size_t)s->clocks.workers * sizeof *s->clocks.clock);
    for (int r = 1; r < w->comm->size; r++)
        GS_TRY(
            gs_jobs_give(a->connections[r].jobs, (gs_job){.run = serve_job, .context = a, .unit = r}, NULL));
    return GS_OK;
}

static gs_status exchange(async *a) {
    uint64_t step = a->worker->step + 1;
    if (a->server) return server_exchange(a->server, 0, a->data);
    GS_TRY(message(a, a->data, 0, false, GS_ROW_COMPUTE, step));
    return message(a, a->data, 0, true, GS_ROW_COMPUTE, step);
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
    *total = gs_score_of(a->data + a->saved); /* from the last answer, which waited for all workers */
    for (int r = 1; a->server && r < w->comm->size; r++) (void)gs_jobs_wait_for_all(a->connections[r].jobs);
    return a->server ? gs_error_again(&a->server->error) : GS_OK; /* needs no lock: all threads are idle */
}

/* Move the server's counts into the result, without trailing zeros. */
static gs_status report(gs_worker *w, gs_result *result) {
    const async *a = w->strategy_state;
    if (!a->server) return GS_OK;
    gs_staleness *s = &a->server->seen;
    while (s->counts > 1 && s->count[s->counts - 1] == 0) s->counts--;
    while (s->leads > 1 && s->lead[s->leads - 1] == 0) s->leads--;
    result->staleness = *s;
    *s = (gs_staleness){0};
    return GS_OK;
}

static gs_status check(const gs_settings *s) {
    if (s->optimizer != &gs_sgd)
        return gs_fail(GS_E_USAGE,
                       "--sync async predicts how far momentum will move the weights, which is defined only "
                       "for sgd; the optimiser is '%s'",
                       s->optimizer->name);
    if (s->clip > 0)
        return gs_fail(
            GS_E_USAGE,
            "--clip %g: --sync async applies each worker's gradient as it arrives, so there is no sum "
            "over all workers to clip",
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
