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

gs_status gs_ordered_sums_add_here(gs_worker *w, gs_mem here, size_t at, size_t count, int k) {
    const gs_backend *ops = w->device->ops;
    void *x;
    if (count == 0 || w->ordered_sums.leaves < 2) return GS_OK;
    GS_TRY(ops->map(w->device, here, count * sizeof(float), &x));
    (void)gs_ordered_sums_add(&w->ordered_sums, at, count, k, x);
    return ops->unmap(w->device, here, x);
}

void gs_add_neighbours(const gs_device *d, float *x, size_t count, int workers) {
    for (int distance = 1; distance < workers; distance *= 2)
        for (int i = 0; i + distance < workers; i += 2 * distance)
            gs_host_add(d, x + (size_t)i * count, x + (size_t)(i + distance) * count, count);
}

/* --exact is allowed only on the CPU: OpenCL devices lack linear_tree (backend.h). */
gs_status gs_exact_check(const gs_settings *s) {
    for (int i = 0; s->exact && i < gs_devices_count(s->devices); i++) {
        char name[48];
        GS_TRY(gs_devices_name(s->devices, i, name));
        if (strcmp(name, "cpu") != 0)
            return gs_fail(
                GS_E_USAGE,
                "--exact: device '%s': only cpu is known to give the same bits; wanted --devices cpu", name);
    }
    return GS_OK;
}

/* ---- leaves computed together ---- */

/* A worker's virtual shards in lockstep, for a model with batch_norm over the global batch.
 *
 * The shards cannot be computed one after another, because the first batch_norm in each shard needs the sums over all
 * shards. Each shard therefore owns a replica of the model, with its own activations and gradients (the weights are
 * shared), and runs until the next sum. There the shards meet:
 *
 *     shard 0   forward ... batch_norm                     | ... batch_norm  ...
 *     shard 1                forward ... batch_norm: sum   |                 ... batch_norm: sum
 *                                          over all 8 shards, in order
 *
 * A shard stops in the middle of forward, at any depth of nested layers, so each shard has its own thread. Only one
 * shard runs at a time; when it stops, at a sum or at its end, it passes the turn to the next one. All share the
 * worker's core and device. The last shard computes the sum.
 *
 * To sum, all workers gather the values of all 8 shards, and add them in the order of the shards, in double. The bits
 * of the sums are therefore the same for any number of workers. So are the bits of all other values, because each is
 * computed from one shard alone.
 *
 * The price is memory for all of a worker's samples at once, and for each shard's gradients.
 */
typedef struct shard {
    gs_virtual_shards *all;
    int number;
    gs_jobs *jobs; /* its thread */
    /* What the worker holds while this shard runs. Shard 0 uses the worker's own model and input. */
    gs_model *model;
    gs_input input;
    gs_micro_batch micro_batch;
} shard;

struct gs_virtual_shards {
    gs_worker *worker;
    int shards;
    shard shard[GS_EXACT_SHARDS];
    size_t most;             /* number of values in the largest sum */
    size_t count;            /* number of values in the current sum, set by the first shard */
    double *mine, *gathered; /* of this worker's shards; of all 8, the first of which becomes the sum */

    pthread_mutex_t lock; /* guards the turn, the sums and the error; gs_gradient runs without it */
    pthread_cond_t passed;
    int turn;       /* the shard that runs */
    gs_error error; /* of the first shard that failed; the others then fail too */
};

/* Call this with the lock held. */
static void wait_for_turn(shard *me) {
    gs_virtual_shards *l = me->all;
    while (l->turn != me->number) pthread_cond_wait(&l->passed, &l->lock);
    l->worker->model = me->model;
    l->worker->input = me->input;
    l->worker->micro_batch = me->micro_batch;
}

/* Call this with the lock held. */
static void pass_turn(shard *me) {
    gs_virtual_shards *l = me->all;
    me->micro_batch = l->worker->micro_batch;
    l->turn = (me->number + 1) % l->shards;
    pthread_cond_broadcast(&l->passed);
}

static gs_status compute(void *context, const gs_job *job) {
    shard *me = context;
    gs_virtual_shards *l = me->all;
    (void)job;
    pthread_mutex_lock(&l->lock);
    wait_for_turn(me);
    pthread_mutex_unlock(&l->lock);
    const gs_status status = gs_gradient(l->worker);
    pthread_mutex_lock(&l->lock);
    (void)gs_error_keep(&l->error, status);
    pass_turn(me);
    pthread_mutex_unlock(&l->lock);
    return status;
}

/* By now all shards have stored their values, because each makes the same calls. */
static gs_status sum(gs_virtual_shards *l, size_t count) {
    GS_TRY(gs_comm_all_gather(l->worker->comm, l->mine, l->gathered, (size_t)l->shards * count, GS_F64));
    for (size_t i = 1; i < GS_EXACT_SHARDS; i++)
        for (size_t k = 0; k < count; k++) l->gathered[k] += l->gathered[i * count + k];
    return GS_OK;
}

/* No shard returns before the last one has computed the sum. It stays valid until that shard computes the next sum. */
gs_status gs_virtual_shards_sum(void *worker, double *numbers, size_t count) {
    gs_virtual_shards *l = ((gs_worker *)worker)->virtual_shards;
    if (count > l->most) gs_bug("virtual shards: a sum of %zu numbers, not of at most %zu", count, l->most);
    pthread_mutex_lock(&l->lock);
    shard *me = &l->shard[l->turn];
    if (me->number == 0) l->count = count;
    if (count != l->count && l->error.status == GS_OK)
        gs_bug("virtual shards: shard %d is at another sum than shard 0", me->number);
    memcpy(l->mine + (size_t)me->number * count, numbers, count * sizeof *numbers);
    if (me->number == l->shards - 1 && l->error.status == GS_OK)
        (void)gs_error_keep(&l->error, sum(l, count));
    if (l->error.status == GS_OK) {
        pass_turn(me);
        wait_for_turn(me);
    }
    const bool failed = l->error.status != GS_OK;
    pthread_mutex_unlock(&l->lock);
    if (failed) return gs_fail(GS_E_PEER, "another virtual shard has failed");
    memcpy(numbers, l->gathered, count * sizeof *numbers);
    return GS_OK;
}

static gs_status compute_all(gs_virtual_shards *l) {
    GS_TRY(gs_error_again(&l->error)); /* else one shard would begin although another accepts no more jobs */
    for (int i = 0; i < l->shards; i++)
        GS_TRY(gs_jobs_give(l->shard[i].jobs, (gs_job){.run = compute, .context = &l->shard[i]}, NULL));
    for (int i = 0; i < l->shards; i++) (void)gs_jobs_wait_for_all(l->shard[i].jobs);
    l->worker->model = l->shard[0].model;
    l->worker->input = l->shard[0].input;
    return gs_error_again(&l->error);
}

gs_status gs_virtual_shards_gradient(gs_virtual_shards *l, int k) {
    gs_model *m = l->worker->model;
    if (k == 0) return compute_all(l);
    return m->device->ops->copy(m->device, m->gradients, l->shard[k].model->gradients, m->saved + GS_STATS);
}

/* ---- creation and release ---- */

static gs_status find_most(gs_layer *l, void *most) {
    const size_t count = 1 + 2 * (size_t)l->in.c;
    if (l->ops->depends_on_batch && count > *(size_t *)most) *(size_t *)most = count;
    return GS_OK;
}

/* Make a model that shares the weights, and buffers for its samples. */
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
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->passed, NULL);
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
        if (i == 0) continue;
        w->device->ops->free(w->device, s->input.x);
        w->device->ops->free(w->device, s->input.targets);
        gs_model_free(s->model);
    }
    pthread_cond_destroy(&l->passed);
    pthread_mutex_destroy(&l->lock);
    free(l->mine);
    free(l->gathered);
    free(l);
}
