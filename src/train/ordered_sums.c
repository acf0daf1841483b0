#include "train/ordered_sums.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "layer/layer.h"
#include "train/hooks.h"
#include "train/strategy.h"

gs_status gs_ordered_sums_create(gs_worker *w, size_t count) {
    gs_ordered_sums *o = &w->ordered_sums;
    o->leaves = w->schedule.mine;
    o->device = w->device;
    for (int i = 0; 2 << i <= o->leaves; i++) {
        GS_TRY(gs_context(gs_host_alloc(w, GS_MEMORY_COMMUNICATION, count * sizeof(float), &o->level[i]),
                          "--exact"));
        o->floats += count;
    }
    return GS_OK;
}

void gs_ordered_sums_free(gs_ordered_sums *o) {
    for (int i = 0; i < GS_ORDERED_SUMS_LEVELS; i++) free(o->level[i]);
    *o = (gs_ordered_sums){0};
}

bool gs_ordered_sums_add(const gs_ordered_sums *o, size_t at, size_t count, int k, float *x) {
    int i = 0;
    for (; k >> i & 1; i++) gs_host_add(o->device, x, o->level[i] + at, count);
    if (k + 1 == o->leaves) return true;
    gs_host_copy(o->device, o->level[i] + at, x, count * sizeof *x);
    return false;
}

gs_status gs_ordered_sums_add_here(gs_worker *w, gs_mem place, size_t at, size_t count, int k) {
    const gs_backend *ops = w->device->ops;
    void *x;
    if (count == 0 || w->ordered_sums.leaves < 2) return GS_OK;
    GS_TRY(ops->map(w->device, place, count * sizeof(float), &x));
    (void)gs_ordered_sums_add(&w->ordered_sums, at, count, k, x);
    return ops->unmap(w->device, place, x);
}

void gs_add_neighbours(const gs_device *d, float *x, size_t count, int workers) {
    for (int distance = 1; distance < workers; distance *= 2)
        for (int i = 0; i + distance < workers; i += 2 * distance)
            gs_host_add(d, x + (size_t)i * count, x + (size_t)(i + distance) * count, count);
}

/* Only where each operator is known to give the same bits. */
gs_status gs_exact_check(const gs_settings *s) {
    if (!s->exact) return GS_OK;
    for (int i = 0; i < gs_devices_count(s->devices); i++) {
        char name[48];
        GS_TRY(gs_devices_name(s->devices, i, name));
        if (strcmp(name, "cpu") != 0)
            return gs_fail(GS_E_USAGE,
                           "--exact: device '%s': only cpu is known to give the same bits for the same "
                           "samples; wanted --devices cpu,...",
                           name);
    }
    if (s->threads > 1)
        return gs_fail(GS_E_USAGE,
                       "--exact: --threads %d: splitting products over threads changes their bits; wanted 1 "
                       "thread per worker",
                       s->threads);
    return GS_OK;
}

/* ---- leaves that are computed together ---- */

/* The virtual shards of a worker in lockstep: for a model with batch_norm over the global batch.
 *
 * They cannot be computed one after the other: the first batch_norm of each needs the sums of all. So each shard has a
 * replica of the model, with activations and gradients of its own (the weights are shared), and each is computed as far
 * as the next sum. There they meet:
 *
 *     shard 0   forward ... batch_norm |             | ... batch_norm |             | ... loss, backward ... |
 *     shard 1                forward ... batch_norm  |  ...
 *                                          the worker: sum over all 8 shards, in their order
 *
 * A shard stops in the middle of forward, within any nesting of layers, so each has a thread, as a place to stop in.
 * Only one of them runs at any time: they take turns, on the worker's one core and device.
 *
 * The sums: all workers gather the numbers of all 8 shards and add them in the order of the shards, in double. So they
 * are the same bits for any number of workers, as everything between them is: it sees one shard alone.
 *
 * The price is memory: all of a worker's samples at once, and gradients for each shard.
 */
typedef enum stop { AT_START, AT_SUM, AT_END } stop;

/* A virtual shard. */
typedef struct shard {
    gs_virtual_shards *all;
    int number;
    gs_jobs *jobs; /* a thread */
    pthread_cond_t wake;
    /* What the worker has while this shard runs. Shard 0 has the worker's own model and input. */
    gs_model *model;
    gs_input input;
    gs_micro_batch micro_batch;

    stop at;         /* where it has stopped */
    double *numbers; /* AT_SUM: what is to be summed */
    size_t count;
} shard;

enum { WORKER = -1 };

struct gs_virtual_shards {
    gs_worker *worker;
    int shards;
    shard shard[GS_EXACT_SHARDS];
    size_t most; /* numbers in the largest sum */
    double *mine, *gathered;

    pthread_mutex_t lock;
    pthread_cond_t wake_worker;
    int turn;    /* whose it is: a shard's or the WORKER's */
    bool failed; /* a shard that waits for a sum gets none */
};

/* ---- turns: whoever has the turn holds the lock only while it changes hands ---- */

/* Called with the lock: the shard waits for its next turn. */
static void wait_for_turn(shard *me) {
    gs_virtual_shards *l = me->all;
    while (l->turn != me->number) pthread_cond_wait(&me->wake, &l->lock);
    l->worker->model = me->model;
    l->worker->input = me->input;
    l->worker->micro_batch = me->micro_batch;
}

/* Called with the lock: the turn goes back to the worker. */
static void give_back(shard *me, stop at) {
    gs_virtual_shards *l = me->all;
    me->at = at;
    me->micro_batch = l->worker->micro_batch;
    l->turn = WORKER;
    pthread_cond_signal(&l->wake_worker);
}

/* ---- a shard ---- */

static gs_status compute(void *context, const gs_job *job) {
    shard *me = context;
    gs_virtual_shards *l = me->all;
    (void)job;
    pthread_mutex_lock(&l->lock);
    wait_for_turn(me);
    pthread_mutex_unlock(&l->lock);
    const gs_status status = gs_gradient(l->worker);
    pthread_mutex_lock(&l->lock);
    give_back(me, AT_END);
    pthread_mutex_unlock(&l->lock);
    return status;
}

gs_status gs_virtual_shards_sum(void *worker, double *numbers, size_t count) {
    gs_virtual_shards *l = ((gs_worker *)worker)->virtual_shards;
    pthread_mutex_lock(&l->lock);
    shard *me = &l->shard[l->turn];
    me->numbers = numbers;
    me->count = count;
    give_back(me, AT_SUM);
    wait_for_turn(me);
    const bool failed = l->failed;
    pthread_mutex_unlock(&l->lock);
    return failed ? gs_fail(GS_E_PEER, "another virtual shard has failed") : GS_OK;
}

/* ---- the worker ---- */

/* It lets a shard run, until it stops. */
static gs_status let_run(gs_virtual_shards *l, shard *s) {
    if (s->at == AT_START) GS_TRY(gs_jobs_give(s->jobs, (gs_job){.run = compute, .context = s}, NULL));
    pthread_mutex_lock(&l->lock);
    l->turn = s->number;
    pthread_cond_signal(&s->wake);
    while (l->turn != WORKER) pthread_cond_wait(&l->wake_worker, &l->lock);
    pthread_mutex_unlock(&l->lock);
    return s->at == AT_END ? gs_jobs_wait_for_all(s->jobs) : GS_OK;
}

/* All shards have stopped at the same sum, for each makes the same calls. */
static gs_status sum(gs_virtual_shards *l) {
    const size_t count = l->shard[0].count;
    for (int i = 0; i < l->shards; i++) {
        const shard *s = &l->shard[i];
        if (s->at != AT_SUM || s->count != count || count > l->most)
            gs_bug("virtual shards: shard %d is at another sum than shard 0, of %zu numbers and %zu", i,
                   s->count, count);
        memcpy(l->mine + (size_t)i * count, s->numbers, count * sizeof *l->mine);
    }
    GS_TRY(gs_comm_all_gather(l->worker->comm, l->mine, l->gathered, (size_t)l->shards * count, GS_F64));
    for (size_t k = 0; k < count; k++) {
        double total = l->gathered[k];
        for (size_t i = 1; i < GS_EXACT_SHARDS; i++) total += l->gathered[i * count + k];
        for (int i = 0; i < l->shards; i++) l->shard[i].numbers[k] = total;
    }
    return GS_OK;
}

/* Each shard as far as its next sum, or its end; *ended: all have ended. */
static gs_status round_of_turns(gs_virtual_shards *l, bool *ended) {
    *ended = true;
    for (int i = 0; i < l->shards; i++) {
        GS_TRY(let_run(l, &l->shard[i]));
        *ended = *ended && l->shard[i].at == AT_END;
    }
    return GS_OK;
}

/* Those that wait for a sum end, so that no shard is left in the middle. */
static void end_all(gs_virtual_shards *l) {
    l->failed = true;
    for (int i = 0; i < l->shards; i++)
        if (l->shard[i].at == AT_SUM) (void)let_run(l, &l->shard[i]);
    l->failed = false;
}

static gs_status run(gs_virtual_shards *l) {
    bool ended;
    for (int i = 0; i < l->shards; i++) l->shard[i].at = AT_START;
    GS_TRY(round_of_turns(l, &ended));
    while (!ended) {
        GS_TRY(sum(l));
        GS_TRY(round_of_turns(l, &ended));
    }
    return GS_OK;
}

static gs_status run_all(gs_virtual_shards *l) {
    gs_error error = {0};
    if (gs_error_keep(&error, run(l)) != GS_OK) end_all(l);
    l->worker->model = l->shard[0].model;
    l->worker->input = l->shard[0].input;
    return gs_error_again(&error);
}

gs_status gs_virtual_shards_gradient(gs_virtual_shards *l, int k) {
    gs_model *m = l->worker->model;
    if (k == 0) return run_all(l);
    return m->device->ops->copy(m->device, m->gradients, l->shard[k].model->gradients, m->saved + GS_STATS);
}

/* ---- create, free ---- */

static gs_status find_most(gs_layer *l, void *most) {
    const size_t count = 1 + 2 * (size_t)l->in.c;
    if (l->ops->depends_on_batch && count > *(size_t *)most) *(size_t *)most = count;
    return GS_OK;
}

/* Another model with the same weights, and room for its samples. */
static gs_status make_replica(shard *s) {
    gs_worker *w = s->all->worker;
    gs_device *d = w->device;
    const size_t most = w->schedule.most;
    s->input = (gs_input){.most = most, .target_bytes = w->input.target_bytes, .scales = w->input.scales};
    GS_TRY(gs_model_create(d, &(gs_model_config){.of = w->model, .max_batch = most}, &s->model));
    GS_HOOKS(model, w, s->model->net);
    s->model->scaling = w->model->scaling;
    GS_TRY(gs_alloc(d, GS_MEMORY_DATA, most * gs_shape_size(w->model->in) * sizeof(float), &s->input.x));
    return gs_alloc(d, GS_MEMORY_DATA, most * w->input.target_bytes, &s->input.targets);
}

static gs_status make_shard(gs_virtual_shards *l, int i) {
    shard *s = &l->shard[i];
    *s = (shard){.all = l, .number = i, .model = l->worker->model, .input = l->worker->input};
    pthread_cond_init(&s->wake, NULL);
    l->shards++;
    if (i > 0) {
        s->model = NULL;
        GS_TRY(make_replica(s));
    }
    return gs_context(gs_jobs_create(1, &s->jobs), "--exact");
}

gs_status gs_virtual_shards_create(gs_worker *w) {
    GS_TRY(GS_NEW(w->virtual_shards, 1, "the virtual shards of --exact"));
    gs_virtual_shards *l = w->virtual_shards;
    l->worker = w;
    l->turn = WORKER;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->wake_worker, NULL);
    GS_TRY(gs_layer_walk(w->model->net, find_most, &l->most));
    GS_TRY(GS_NEW(l->mine, (size_t)w->schedule.mine * l->most, "sums of %zu numbers (--exact)", l->most));
    GS_TRY(GS_NEW(l->gathered, GS_EXACT_SHARDS * l->most, "sums of %zu numbers (--exact)", l->most));
    for (int i = 0; i < w->schedule.mine; i++) GS_TRY(make_shard(l, i));
    return GS_OK;
}

void gs_virtual_shards_free(gs_virtual_shards *l) {
    if (!l) return;
    const gs_worker *w = l->worker;
    for (int i = 0; i < l->shards; i++) {
        shard *s = &l->shard[i];
        gs_jobs_free(s->jobs);
        pthread_cond_destroy(&s->wake);
        if (i == 0) continue;
        w->device->ops->free(w->device, s->input.x);
        w->device->ops->free(w->device, s->input.targets);
        gs_model_free(s->model);
    }
    pthread_cond_destroy(&l->wake_worker);
    pthread_mutex_destroy(&l->lock);
    free(l->mine);
    free(l->gathered);
    free(l);
}
