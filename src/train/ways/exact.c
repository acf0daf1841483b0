/* --exact: the same weights, to the bit, for 1, 2, 4 and 8 workers.
 *
 * Floating-point addition is not associative: (a + b) + c and a + (b + c) round differently. So N workers
 * give the bits of one only if all numbers are added in the same order, whatever N is. Two things fix it:
 *
 * 1. The global batch is cut into 8 virtual shards. The gradient of each is computed alone, by operators that
 *    see the same samples in the same shapes, on one CPU thread (how a product is cut over threads changes
 *    the order of its sums too).
 * 2. The 8 gradients are added in one fixed binary tree:
 *
 *        virtual shard    0     1     2     3     4     5     6     7
 *                          \   /       \   /       \   /       \   /
 *                           0+1         2+3         4+5         6+7
 *                              \       /               \       /
 *                                0..3                    4..7
 *                                     \                 /
 *                                      `-----  0..7  --'
 *
 *    With N workers each holds a subtree of 8 / N neighbouring leaves, which it adds alone: two workers hold
 *    0..3 and 4..7, four hold the pairs, eight the leaves. The levels above them are rounds of recursive
 *    doubling: in round k worker r exchanges its sum with worker r xor 2^k, its neighbour in the tree, and
 *    both add the two. a + b and b + a are the same bits, so all workers end with the same sum.
 *
 * A virtual shard may be empty: then it adds zeros in its place. Counts and loss travel in the same array.
 *
 * Linear layers that workers can share (layer/tensor.h) add their longest sums in 8 parts too, in such a tree, whether
 * they are shared or not: so --tensor gives the same bits.
 *
 * batch_norm with statistics of the global batch needs all leaves at once: see "lockstep" below.
 *
 * The price: products of an eighth of the batch, which are slower than larger ones; an addition of all gradients
 * for each leaf but the first; log2 N rounds with the whole array, where a ring sends less than two arrays.
 *
 * Source of recursive doubling: Thakur, Rabenseifner, Gropp, "Optimization of collective communication
 * operations in MPICH" (International Journal of High Performance Computing Applications 19, 2005).
 */
#include "comm/split.h"
#include "core/clock.h"
#include "train/internal.h"
#include "train/timeline/timeline.h"
#include "core/thread.h"
#include "train/digest/digest.h"

#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <stdio.h>

/* ---- lockstep ---- */

/* The virtual shards of a worker in lockstep: for a model with batch_norm, whose statistics are those of the
 * global batch.
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
    struct lockstep *all;
    int number;
    pthread_t thread;
    pthread_cond_t wake;
    bool started;
    /* What the worker has while this shard runs. Shard 0 has the worker's own model and input. */
    gs_model *model;
    gs_input input;
    gs_piece piece;

    stop at;         /* where it has stopped */
    double *numbers; /* AT_SUM: what is to be summed */
    size_t count;
    gs_error error; /* AT_END */
} shard;

enum { WORKER = -1 };

typedef struct lockstep {
    gs_worker *worker;
    int shards;
    shard shard[GS_EXACT_SHARDS];
    size_t most; /* numbers in the largest sum */
    double *mine, *gathered;

    pthread_mutex_t lock;
    pthread_cond_t wake_worker;
    int turn;    /* whose it is: a shard's or the WORKER's */
    bool failed; /* a shard that waits for a sum gets none */
    bool quit;
} lockstep;

/* ---- turns: whoever has the turn holds the lock only while it changes hands ---- */

/* Called with the lock: the shard waits for its next turn. False: there will be none. */
static bool wait_for_turn(shard *me) {
    lockstep *l = me->all;
    while (l->turn != me->number && !l->quit) pthread_cond_wait(&me->wake, &l->lock);
    if (l->quit) return false;
    l->worker->model = me->model;
    l->worker->input = me->input;
    l->worker->piece = me->piece;
    return true;
}

/* Called with the lock: the turn goes back to the worker. */
static void give_back(shard *me) {
    lockstep *l = me->all;
    me->piece = l->worker->piece;
    l->turn = WORKER;
    pthread_cond_signal(&l->wake_worker);
}

/* The worker lets a shard run, until it stops. */
static void let_run(lockstep *l, int number) {
    pthread_mutex_lock(&l->lock);
    l->turn = number;
    pthread_cond_signal(&l->shard[number].wake);
    while (l->turn != WORKER) pthread_cond_wait(&l->wake_worker, &l->lock);
    pthread_mutex_unlock(&l->lock);
}

/* ---- a shard ---- */

static void *shard_main(void *argument) {
    shard *me = argument;
    lockstep *l = me->all;
    pthread_mutex_lock(&l->lock);
    while (wait_for_turn(me)) {
        pthread_mutex_unlock(&l->lock);
        me->error.status = GS_OK;
        gs_error_keep(&me->error, gs_gradient(l->worker));
        pthread_mutex_lock(&l->lock);
        me->at = AT_END;
        give_back(me);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static gs_status lockstep_sum(lockstep *l, double *numbers, size_t count) {
    pthread_mutex_lock(&l->lock);
    shard *me = &l->shard[l->turn];
    me->at = AT_SUM;
    me->numbers = numbers;
    me->count = count;
    give_back(me);
    bool goes_on = wait_for_turn(me) && !l->failed;
    pthread_mutex_unlock(&l->lock);
    return goes_on ? GS_OK : gs_fail(GS_E_PEER, "another virtual shard has failed");
}

/* ---- the worker ---- */

/* All shards have stopped at the same sum, for each makes the same calls. */
static gs_status sum(lockstep *l) {
    const size_t count = l->shard[0].count;
    for (int i = 0; i < l->shards; i++) {
        const shard *s = &l->shard[i];
        if (s->at != AT_SUM || s->count != count || count > l->most)
            gs_bug("lockstep: shard %d is at another sum than shard 0, of %zu numbers and %zu", i, s->count,
                   count);
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
static gs_status round_of_turns(lockstep *l, bool *ended) {
    *ended = true;
    for (int i = 0; i < l->shards; i++) {
        const shard *s = &l->shard[i];
        let_run(l, i);
        if (s->at == AT_END) GS_TRY(gs_error_again(&s->error));
        *ended = *ended && s->at == AT_END;
    }
    return GS_OK;
}

/* Those that wait for a sum end, so that no shard is left in the middle. */
static void end_all(lockstep *l) {
    l->failed = true;
    for (int i = 0; i < l->shards; i++)
        if (l->shard[i].at == AT_SUM) let_run(l, i);
    l->failed = false;
}

static gs_status run(lockstep *l) {
    bool ended;
    for (int i = 0; i < l->shards; i++) l->shard[i].at = AT_START;
    GS_TRY(round_of_turns(l, &ended));
    while (!ended) {
        GS_TRY(sum(l));
        GS_TRY(round_of_turns(l, &ended));
    }
    return GS_OK;
}

static gs_status lockstep_run(lockstep *l) {
    gs_error error = {0};
    if (gs_error_keep(&error, run(l)) != GS_OK) end_all(l);
    l->worker->model = l->shard[0].model;
    l->worker->input = l->shard[0].input;
    return gs_error_again(&error);
}

static gs_mem lockstep_gradients(const lockstep *l, int i) {
    return l->shard[i].model->gradients;
}

/* ---- create, free ---- */

static gs_status find_most(gs_layer *l, void *most) {
    const size_t count = 1 + 2 * (size_t)l->in.c;
    if (l->ops->of_batch && count > *(size_t *)most) *(size_t *)most = count;
    return GS_OK;
}

/* Another model with the same weights, and room for its samples. */
static gs_status make_replica(shard *s) {
    gs_worker *w = s->all->worker;
    const size_t most = w->schedule.most;
    s->input = (gs_input){.most = most, .answer_bytes = w->input.answer_bytes, .scales = w->input.scales};
    w->device->offload &= ~(unsigned)GS_OFFLOAD_ACTIVATIONS; /* it goes by turns of its own */
    const gs_status made = gs_model_create_replica(w->model, w->settings->model, most, &s->model);
    w->device->offload = w->settings->offload;
    GS_TRY(made);
    GS_TRY(gs_digest_watch(w, s->model->net));
    s->model->scaling = w->model->scaling;
    GS_TRY(
        gs_alloc(w->device, GS_MEMORY_DATA, most * gs_shape_size(w->model->in) * sizeof(float), &s->input.x));
    return gs_alloc(w->device, GS_MEMORY_DATA, most * w->input.answer_bytes, &s->input.answers);
}

static gs_status make_shard(lockstep *l, int i) {
    shard *s = &l->shard[i];
    *s = (shard){.all = l, .number = i, .model = l->worker->model, .input = l->worker->input};
    pthread_cond_init(&s->wake, NULL);
    l->shards++;
    if (i > 0) {
        s->model = NULL;
        GS_TRY(make_replica(s));
    }
    s->started = gs_thread_start(&s->thread, shard_main, s) == 0;
    return s->started ? GS_OK : gs_fail(GS_E_MEMORY, "--exact: cannot start a thread for a virtual shard");
}

static gs_status lockstep_create(gs_worker *w, lockstep **out) {
    lockstep *l = *out = calloc(1, sizeof *l);
    if (!l) return gs_fail(GS_E_MEMORY, "--exact: no memory for the virtual shards");
    l->worker = w;
    l->turn = WORKER;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->wake_worker, NULL);
    GS_TRY(gs_layer_walk(w->model->net, find_most, &l->most));
    l->mine = malloc((size_t)w->schedule.mine * l->most * sizeof *l->mine);
    l->gathered = malloc(GS_EXACT_SHARDS * l->most * sizeof *l->gathered);
    if (!l->mine || !l->gathered)
        return gs_fail(GS_E_MEMORY, "--exact: no memory for sums of %zu numbers", l->most);
    for (int i = 0; i < w->schedule.mine; i++) GS_TRY(make_shard(l, i));
    return GS_OK;
}

static void lockstep_free(lockstep *l) {
    if (!l) return;
    const gs_worker *w = l->worker;
    pthread_mutex_lock(&l->lock);
    l->quit = true;
    for (int i = 0; i < l->shards; i++) pthread_cond_signal(&l->shard[i].wake);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->shards; i++) {
        shard *s = &l->shard[i];
        if (s->started) pthread_join(s->thread, NULL);
        pthread_cond_destroy(&s->wake);
        if (i == 0) continue;
        w->device->ops->free(w->device, s->input.x);
        w->device->ops->free(w->device, s->input.answers);
        gs_model_free(s->model);
    }
    pthread_cond_destroy(&l->wake_worker);
    pthread_mutex_destroy(&l->lock);
    free(l->mine);
    free(l->gathered);
    free(l);
}

/* ---- the tree ---- */

typedef struct exact {
    lockstep *together; /* the leaves, where batch_norm takes statistics of the global batch; else NULL */
    size_t count;       /* floats in the gradient array, state and counts included */
    float *partial[];   /* [level]: the left sum, while the right one is computed; level 0 joins all; then the
                         sum that comes from a neighbour */
} exact;

enum { LEVELS = 3, ARRIVED = LEVELS, BUFFERS };
_Static_assert(1 << LEVELS == GS_EXACT_SHARDS, "the tree has 2^LEVELS leaves");

static gs_status create(gs_worker *w) {
    exact *e = w->way_state = calloc(1, sizeof *e + BUFFERS * sizeof *e->partial);
    if (!e) return gs_fail(GS_E_MEMORY, "no memory for --exact");
    e->count = w->model->saved + GS_STATS;
    for (int i = 0; i < BUFFERS; i++)
        if (!(e->partial[i] = gs_host_alloc(w, GS_MEMORY_COMMUNICATION, e->count * sizeof(float))))
            return gs_fail(GS_E_MEMORY, "--exact: no memory for %d sums of %zu floats", BUFFERS, e->count);
    return gs_batch_norm_is_shared(w) ? lockstep_create(w, &e->together) : GS_OK;
}

static void free_sums(gs_worker *w) {
    exact *e = w->way_state;
    if (e) lockstep_free(e->together);
    for (int i = 0; e && i < BUFFERS; i++) free(e->partial[i]);
    free(e);
}

/* sum += x */
static void add(float *restrict sum, const float *restrict x, size_t count) {
    for (size_t i = 0; i < count; i++) sum[i] += x[i];
}

/* ---- the leaves and subtrees of one worker ---- */

/* gradients = the sum of this worker's next `leaves` virtual shards */
static gs_status subtree(gs_worker *w, int leaves, int level) {
    if (leaves == 1) return gs_gradient(w);
    const exact *e = w->way_state;
    gs_device *d = w->device;
    gs_mem gradients = w->model->gradients;
    void *host;
    GS_TRY(subtree(w, leaves / 2, level + 1));
    GS_TRY(d->ops->read(d, e->partial[level], gradients, e->count * sizeof(float)));
    GS_TRY(subtree(w, leaves / 2, level + 1));
    GS_TRY(d->ops->map(d, gradients, e->count * sizeof(float), &host));
    add(host, e->partial[level], e->count);
    GS_TRY(d->ops->unmap(d, gradients, host));
    return gs_phase_ends(w, GS_PHASE_SYNC);
}

/* The same, where they are computed together: leaf += its neighbour at distance 1, 2, 4. */
static gs_status subtree_together(gs_worker *w, int leaves) {
    const exact *e = w->way_state;
    gs_device *d = w->device;
    GS_TRY(lockstep_run(e->together));
    for (int distance = 1; distance < leaves; distance *= 2)
        for (int i = 0; i < leaves; i += 2 * distance) {
            gs_mem left = lockstep_gradients(e->together, i);
            gs_mem right = lockstep_gradients(e->together, i + distance);
            void *host;
            GS_TRY(d->ops->read(d, e->partial[0], right, e->count * sizeof(float)));
            GS_TRY(d->ops->map(d, left, e->count * sizeof(float), &host));
            add(host, e->partial[0], e->count);
            GS_TRY(d->ops->unmap(d, left, host));
        }
    return gs_phase_ends(w, GS_PHASE_SYNC);
}

static gs_status share(void *worker, double *numbers, size_t count) {
    const gs_worker *w = worker;
    const exact *e = w->way_state;
    return lockstep_sum(e->together, numbers, count);
}

/* ---- the levels above ---- */

static gs_status recursive_doubling(gs_worker *w, float *sum, float *arrived, size_t count) {
    gs_comm *c = w->groups.comm[GS_DP];
    size_t bytes = count * sizeof *sum;
    for (int distance = 1; distance < c->size; distance *= 2) {
        int neighbour = c->rank ^ distance;
        const int shown = c == w->comm ? neighbour : gs_comm_rank_in_parent(c, neighbour);
        double start = gs_seconds();
        GS_TRY(gs_comm_send(c, sum, bytes, neighbour));
        gs_timeline_message(w, GS_ROW_COMPUTE, w->step + 1, false, shown, bytes, start);
        start = gs_seconds();
        GS_TRY(gs_comm_recv(c, arrived, bytes, neighbour));
        gs_timeline_message(w, GS_ROW_COMPUTE, w->step + 1, true, shown, bytes, start);
        add(sum, arrived, count);
    }
    return GS_OK;
}

/* gradients = the sum over all workers, by the rest of the tree */
static gs_status sum_over_workers(gs_worker *w) {
    if (w->groups.layout.dp == 1) return GS_OK;
    const exact *e = w->way_state;
    void *host;
    GS_TRY(w->device->ops->map(w->device, w->model->gradients, e->count * sizeof(float), &host));
    GS_TRY(recursive_doubling(w, host, e->partial[ARRIVED], e->count));
    return w->device->ops->unmap(w->device, w->model->gradients, host);
}

static gs_status step(gs_worker *w, gs_score *score) {
    const exact *e = w->way_state;
    const int leaves = GS_EXACT_SHARDS / w->groups.layout.dp;
    GS_TRY(e->together ? subtree_together(w, leaves) : subtree(w, leaves, 0));
    GS_TRY(gs_tell_wish_to_stop(w));
    GS_TRY(sum_over_workers(w));
    GS_TRY(gs_read_score(w, score));
    GS_TRY(gs_phase_ends(w, GS_PHASE_SYNC));

    GS_TRY(gs_update(w, score->samples));
    return gs_phase_ends(w, GS_PHASE_UPDATE);
}

/* ---- what it goes with ---- */

/* Only where each operator is known to give the same bits. */
static gs_status check(const gs_settings *s, bool chosen) {
    if (!chosen) return GS_OK;
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
    if (strcmp(s->sync, gs_settings_default().sync) != 0)
        return gs_fail(GS_E_USAGE, "--exact adds in its own order: it does not work with --sync %s", s->sync);
    return GS_OK;
}

const gs_way gs_way_exact = {
    .name = "exact",
    .option = "--exact",
    .no_bucket = "adds in one fixed tree after backward",
    .no_wire =
        "needs values that are not rounded on the way, to give the same bits for any number of workers",
    .one_thread = true,
    .parts = GS_EXACT_SHARDS,
    .workers = "1, 2, 4 or 8",
    .check = check,
    .check_workers = gs_exact_check_passes,
    .summary = "gradients summed in one fixed tree",
    .promise = "exact    the same bits for 1, 2, 4 and 8 workers on this kind of CPU",
    .own_sums = true,
    .create = create,
    .step = step,
    .share = share,
    .free = free_sums,
};
