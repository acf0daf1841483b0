#include "train/strategies/async_server.h"

#include "train/internal.h"
#include "train/strategies/clocks.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gs_server {
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t changed;
    gs_device *device; /* cpu, one thread: the updates are made here */
    gs_mem weights, velocity, gradient;
    float *state;          /* of the layers */
    size_t params, saved;  /* of the model: without the state, and with it */
    size_t samples, batch; /* numbers of the training set and of a global batch */
    int answers;           /* of each sample */
    gs_lr_course rates;
    float momentum, weight_decay;
    gs_clocks clocks;
    float **given;         /* [rank]: its gradient, while it waits to be applied */
    int waiting, *who;     /* how many do, and room for the ranks of these */
    size_t before;         /* steps of the epochs before this one */
    float stats[GS_STATS]; /* sums over the epoch's gradients */
    gs_staleness seen;     /* its counts are those of the clocks */
    gs_error error;
};

/* The weights and the state that the run begins with. */
static gs_status take_initial(gs_server *s, gs_model *m) {
    size_t state = (s->saved - s->params) * sizeof *s->state;
    float *initial = malloc(s->saved * sizeof *initial + 1);
    s->state = malloc(state + 1);
    if (!initial || !s->state) {
        free(initial);
        return gs_fail(GS_E_MEMORY, "no memory for a parameter server of %zu floats", s->saved);
    }
    gs_status status = gs_model_read_weights(m, initial);
    if (status == GS_OK)
        status = s->device->ops->write(s->device, s->weights, initial, s->params * sizeof(float));
    if (status == GS_OK) memcpy(s->state, initial + s->params, state);
    free(initial);
    return status;
}

static gs_status create(gs_server *s, const gs_worker *w) {
    size_t workers = (size_t)w->comm->size, bound = (size_t)w->settings->staleness;
    s->params = w->model->params;
    s->saved = w->model->saved;
    s->samples = w->train_set->count;
    s->batch = w->batch;
    s->answers = gs_model_answers(w->model);
    s->rates = w->rates;
    s->momentum = w->optimizer->momentum;
    s->weight_decay = w->optimizer->weight_decay;
    /* Between reading the weights and applying the gradient, each of the others can make 2 K + 1 steps: from K behind
     * to K + 1 ahead. */
    s->seen.counts = (workers - 1) * (2 * bound + 1) + 1;
    s->seen.leads = bound + 1;
    s->seen.count = calloc(s->seen.counts, sizeof *s->seen.count);
    s->seen.lead = calloc(s->seen.leads, sizeof *s->seen.lead);
    s->clocks = (gs_clocks){.workers = w->comm->size, .bound = bound, .count = s->seen.count};
    s->clocks.clock = calloc(workers, sizeof *s->clocks.clock);
    s->clocks.read = calloc(workers, sizeof *s->clocks.read);
    s->given = calloc(workers, sizeof *s->given);
    s->who = calloc(workers, sizeof *s->who);
    gs_status status = GS_OK;
    if (!s->seen.count || !s->seen.lead || !s->clocks.clock || !s->clocks.read || !s->given || !s->who)
        status = gs_fail(GS_E_MEMORY, "no memory for a parameter server of %zu workers", workers);
    if (status == GS_OK) status = gs_worker_device(w->settings, "cpu", 1, &s->device);
    if (status == GS_OK) status = s->device->ops->alloc(s->device, s->params * sizeof(float), &s->weights);
    if (status == GS_OK) status = s->device->ops->alloc(s->device, s->params * sizeof(float), &s->velocity);
    if (status == GS_OK)
        status = s->device->ops->alloc(s->device, (s->params + GS_STATS) * sizeof(float), &s->gradient);
    return status == GS_OK ? take_initial(s, w->model) : status;
}

size_t gs_server_bytes(const gs_server *s) {
    return (3 * s->params + GS_STATS) * sizeof(float);
}

gs_status gs_server_create(const gs_worker *w, gs_server **out) {
    *out = calloc(1, sizeof **out);
    if (!*out) return gs_fail(GS_E_MEMORY, "no memory for a parameter server");
    pthread_mutex_init(&(*out)->lock, NULL);
    pthread_cond_init(&(*out)->changed, NULL);
    return create(*out, w);
}

void gs_server_free(gs_server *s) {
    if (!s) return;
    if (s->device) {
        s->device->ops->free(s->device, s->weights);
        s->device->ops->free(s->device, s->velocity);
        s->device->ops->free(s->device, s->gradient);
    }
    gs_device_close(s->device);
    gs_staleness_free(&s->seen);
    free(s->state);
    free(s->clocks.clock);
    free(s->clocks.read);
    free(s->given);
    free(s->who);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void gs_server_begin_epoch(gs_server *s, size_t steps) {
    pthread_mutex_lock(&s->lock);
    s->before += s->clocks.steps;
    s->clocks.steps = steps;
    memset(s->stats, 0, sizeof s->stats);
    for (int r = 0; r < s->clocks.workers; r++) s->clocks.clock[r] = 0;
    pthread_mutex_unlock(&s->lock);
}

void gs_server_fail(gs_server *s, const gs_error *e) {
    pthread_mutex_lock(&s->lock);
    if (s->error.status == GS_OK) s->error = *e;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

gs_status gs_server_status(gs_server *s) {
    pthread_mutex_lock(&s->lock);
    gs_status status = gs_error_again(&s->error);
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* ---- with the lock held ---- */

static void add(float *restrict sum, const float *restrict x, size_t count) {
    for (size_t i = 0; i < count; i++) sum[i] += x[i];
}

static void add_scaled(float *restrict sum, const float *restrict x, float scale, size_t count) {
    for (size_t i = 0; i < count; i++) sum[i] += scale * x[i];
}

/* The gradients that wait, added in the order of the ranks. They are all of the same step. */
static float *sum_of_given(gs_server *s) {
    float *sum = NULL;
    int n = 0;
    for (int r = 0; r < s->clocks.workers; r++) {
        float *from = s->given[r];
        if (!from) continue;
        if (!sum)
            sum = from;
        else
            add(sum, from, s->saved + GS_STATS);
        s->given[r] = NULL;
        s->who[n++] = r;
    }
    gs_clocks_apply(&s->clocks, s->who, n);
    s->waiting = 0;
    return sum;
}

/* One update of the weights. A gradient from the share s of the global batch is the share s of a step. It is divided by
 * the size of the whole batch, weight decay counts s times, and the velocity decays by m^s, so that N shares make it
 * decay as one step does. The learning rate is such that a gradient g in the end moves the weights as far as in the
 * synchronous step, lr g (1 + m + m^2 + ...) = lr g / (1 - m):
 *
 *     v = m^s v + g + s decay W;    W -= lr (1 - m^s) / (1 - m) v           s = 1: the synchronous step
 *
 * The layers' state moves by the same share: state = (1 - s) state + s mean, where the gradient brings s batch mean. */
static gs_status apply(gs_server *s, size_t step) {
    const gs_backend *ops = s->device->ops;
    const float *sum = sum_of_given(s), *stats = sum + s->saved;
    size_t left = s->samples - step * s->batch, batch = left < s->batch ? left : s->batch;
    size_t rows = batch * (size_t)s->answers;
    float share = stats[GS_STAT_SAMPLES] / (float)rows;
    for (int i = 0; i < GS_STATS; i++) s->stats[i] += stats[i];
    if (!(share > 0)) return GS_OK; /* an empty part changes nothing */
    float momentum = powf(s->momentum, share);
    float rate = s->momentum < 1 ? (1 - momentum) / (1 - s->momentum) : share;
    float lr = gs_lr_of_step(&s->rates, s->before + step);
    for (size_t i = 0; i < s->saved - s->params; i++)
        s->state[i] = (1 - share) * s->state[i] + sum[s->params + i] / (float)batch;
    GS_TRY(ops->write(s->device, s->gradient, sum, s->params * sizeof *sum));
    return ops->sgd_update(s->device, s->weights, s->velocity, s->gradient, s->params,
                           (float)(1.0 / (double)rows), lr * rate, momentum, s->weight_decay * share);
}

/* What a worker gets: not the current weights, but those expected at the time when its gradient will be applied. By
 * then each of the others has given a gradient too, as long as all are equally fast: N - 1 updates by share 1/N. Their
 * gradients are not known yet, but the velocity's own effect on the weights is. With q = m^(1/N), the momentum of such
 * an update, and its rate l = lr (1 - q) / (1 - m):
 *
 *     W' = W - l (q + q^2 + ... + q^(N-1)) v = W - lr (q - m) / (1 - m) v
 *
 * Without this, a gradient is computed at weights that the velocity has long left behind, and training oscillates, all
 * the more the larger m is. W' = W where all wait for all (K = 0), and for workers that make no more steps. */
static gs_status read_expected(gs_server *s, size_t step, bool later, float *data) {
    const gs_backend *ops = s->device->ops;
    GS_TRY(ops->read(s->device, data, s->weights, s->params * sizeof *data));
    memcpy(data + s->params, s->state, (s->saved - s->params) * sizeof *data);
    if (!later || s->clocks.bound == 0 || !(s->momentum < 1)) return GS_OK;
    float q = powf(s->momentum, 1 / (float)s->clocks.workers);
    float far = gs_lr_of_step(&s->rates, s->before + step) * (q - s->momentum) / (1 - s->momentum);
    void *velocity;
    GS_TRY(ops->map(s->device, s->velocity, s->params * sizeof(float), &velocity));
    add_scaled(data, velocity, -far, s->params);
    return ops->unmap(s->device, s->velocity, velocity);
}

/* A worker that was asked to stop waits for nobody, except where every step needs all. */
static bool may_go_on(const gs_server *s, int rank) {
    bool stopping = s->stats[GS_STAT_STOP] > 0 && s->clocks.bound > 0;
    return gs_clocks_may_go_on(&s->clocks, rank) || stopping;
}

static gs_status exchange(gs_server *s, int rank, float *data) {
    size_t *mine = &s->clocks.clock[rank];
    GS_TRY(gs_error_again(&s->error));
    s->given[rank] = data;
    s->waiting++;
    /* apply it at once; but where no rank may be ahead, one update from all: the synchronous step */
    if (s->waiting == (s->clocks.bound == 0 ? s->clocks.workers : 1)) GS_TRY(apply(s, *mine));
    ++*mine;
    pthread_cond_broadcast(&s->changed);

    while (s->error.status == GS_OK && !may_go_on(s, rank)) pthread_cond_wait(&s->changed, &s->lock);
    GS_TRY(gs_error_again(&s->error));
    size_t lead = *mine - gs_clocks_slowest(&s->clocks);
    if (*mine < s->clocks.steps && lead < s->seen.leads) s->seen.lead[lead]++;
    gs_clocks_read(&s->clocks, rank);
    memcpy(data + s->saved, s->stats, sizeof s->stats);
    bool later = *mine < s->clocks.steps && !(s->stats[GS_STAT_STOP] > 0); /* it goes on from here */
    return read_expected(s, *mine, later, data);
}

gs_status gs_server_exchange(gs_server *s, int rank, float *data) {
    pthread_mutex_lock(&s->lock);
    gs_status status = exchange(s, rank, data);
    if (gs_error_keep(&s->error, status) != GS_OK) pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* ---- what was seen ---- */

/* Without the zeros at the end. */
static gs_status copy_of(const uint64_t *from, size_t *n, uint64_t **out) {
    while (*n > 1 && from[*n - 1] == 0) --*n;
    *out = malloc(*n * sizeof **out);
    if (!*out) return gs_fail(GS_E_MEMORY, "no memory for the distribution of staleness");
    memcpy(*out, from, *n * sizeof **out);
    return GS_OK;
}

gs_status gs_server_staleness(gs_server *s, gs_staleness *out) {
    pthread_mutex_lock(&s->lock);
    *out = (gs_staleness){.counts = s->seen.counts, .leads = s->seen.leads};
    gs_status status = copy_of(s->seen.count, &out->counts, &out->count);
    if (status == GS_OK) status = copy_of(s->seen.lead, &out->leads, &out->lead);
    pthread_mutex_unlock(&s->lock);
    return status;
}

void gs_staleness_free(gs_staleness *s) {
    free(s->count);
    free(s->lead);
    *s = (gs_staleness){0};
}
