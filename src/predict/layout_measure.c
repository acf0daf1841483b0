/* Measures how long the parts of a step take on this machine: layers, and single calls between workers.
 *
 * As many cores are busy as in a run. With N workers of t threads each on C cores, min(N, C / t) workers measure layers
 * at the same time; all N make the measured calls, in the run's groups, with its schemes, its --link, and its threads
 * bound to cores. The times therefore include how workers on one machine slow each other down: they share its memory, a
 * call waits for the last worker, and if threads outnumber cores they take turns. A call beside layers is handed to a
 * thread, as in a run (core/jobs.h), so that its time includes waking this thread and waiting for it, which takes
 * longer than a short call. Medians over rounds and turns exclude the effect of a few disturbances. */
#include <math.h>
#include <stdlib.h>

#include "comm/ranks.h"
#include "comm/split.h"
#include "core/clock.h"
#include "core/usable.h"
#include "core/median.h"
#include "core/memory.h"
#include "train/settings.h"
#include "predict/layout_plan.h"
#include "train/tensor.h"
#include "predict/profile.h"

/* How many workers measure layers at the same time. OpenCL devices are measured one at a time. */
static int at_once(const gs_layout_measured *p) {
    char device[48];
    const int most = p->cores / p->threads;
    if (gs_devices_name(p->settings->devices, 0, device) != GS_OK || strcmp(device, "cpu") != 0 || most < 1)
        return 1;
    return p->workers < most ? p->workers : most;
}

/* Bind threads as in a run (worker_share in prepare.c), if each has its own core and all devices are CPUs. */
static void bind(const gs_layout_measured *p, int rank, int ranks) {
    if (p->settings->bind && gs_devices_are_cpu(p->settings->devices) && p->workers * p->threads <= p->cores)
        (void)gs_cores_bind_share(rank, ranks);
}

/* ---- layers ---- */

typedef struct crew {
    const gs_layout_measured *measured;
    const gs_settings *settings;
    size_t samples;
    int ranks;
    gs_layer_times *times; /* stored by rank 0; all ranks obtain the same times */
} crew;

/* Thread 0 takes the last shard of a group, thread 1 the one before it, and so on: the last shard holds the
 * largest part of a vocabulary, and must be measured even if there are fewer cores than shards. */
static gs_status measure_layers(void *context, int rank, gs_comm **comm) {
    const crew *c = context;
    const gs_settings *s = c->settings;
    const int parts = s->tensor > 1 ? s->tensor : 1;
    const gs_tensor_group group = gs_tensor_group_of(s, parts - 1 - rank % parts);
    char device[48];
    gs_layer_times unused = {0}, *times = rank == 0 ? c->times : &unused;
    GS_TRY(gs_devices_name(c->measured->settings->devices, rank, device));
    bind(c->measured, rank, c->ranks);
    const gs_status status = gs_layer_times_of(&(gs_layer_bench){.settings = s,
                                                                 .data = s->train_set,
                                                                 .device = device,
                                                                 .threads = c->measured->threads,
                                                                 .samples = c->samples,
                                                                 .group = group.size > 0 ? &group : NULL,
                                                                 .peers = *comm,
                                                                 .updates = c->measured->update <= 0},
                                               times);
    if (rank > 0) gs_layer_times_free(times);
    return status;
}

static gs_status layers(gs_layout_measured *p, const gs_settings *s, size_t samples,
                        const gs_layer_times **out) {
    const int parts = s->tensor > 1 ? s->tensor : 1;
    gs_layout_times *t = p->times;
    while (t && (t->samples != samples || t->parts != parts || t->sequence != s->sequence)) t = t->next;
    if (!t) {
        GS_TRY(GS_NEW(t, 1, "the times of layers"));
        t->next = p->times;
        p->times = t; /* its `samples` stays 0 until it is measured, so that no search finds it */
        crew c = {p, s, samples, at_once(p), &t->times};
        GS_TRY(gs_ranks_run(c.ranks, GS_TIMEOUT, measure_layers, &c));
        t->samples = samples;
        t->parts = parts;
        t->sequence = s->sequence;
    }
    *out = &t->times;
    return GS_OK;
}

/* ---- calls ---- */

enum { FLOATS_MOST = 4 << 20, ROUNDS = 12, CALLS_MOST = 50 };
static const double ENOUGH = 5e-4; /* minimum seconds in a round */

typedef struct bench {
    const gs_layout_measured *measured;
    gs_layout_call call; /* with at most FLOATS_MOST floats */
    double seconds;
} bench;

/* A worker that makes calls. */
typedef struct caller {
    const bench *b;
    gs_comm *all, *group;
    gs_device *device; /* if the call has samples: the device of the arrays below */
    gs_mem part, whole;
    gs_sync *sync;
    float *mine, *of_all;
    gs_token_shards tokens;
    gs_jobs *jobs; /* has a thread for calls beside layers */
} caller;

static gs_status message(const caller *c) {
    const size_t bytes = c->b->call.floats * sizeof(float);
    const int n = c->group->size, r = c->group->rank;
    GS_TRY(gs_comm_send(c->group, c->of_all, bytes, (r + 1) % n));
    return gs_comm_recv(c->group, c->mine, bytes, (r + n - 1) % n);
}

static gs_status call_once(const caller *c) {
    const gs_layout_call *call = &c->b->call;
    const size_t n = (size_t)c->group->size, each = call->floats / n;
    if (call->scheme) return gs_sync_run(c->sync, c->of_all, call->floats);
    if (call->operation == GS_SEND) return message(c);
    if (call->samples && call->operation == GS_ALL_GATHER)
        return gs_token_shards_gather(&c->tokens, c->device, c->whole, c->part);
    if (call->samples) return gs_token_shards_reduce(&c->tokens, c->device, c->part, c->whole);
    if (call->operation == GS_ALL_REDUCE)
        return gs_comm_all_reduce(c->group, c->of_all, call->floats, GS_F32, GS_SUM);
    float *own = c->of_all + each * (size_t)c->group->rank;
    if (call->operation == GS_ALL_GATHER) return gs_comm_all_gather(c->group, own, c->of_all, each, GS_F32);
    return gs_comm_reduce_scatter(c->group, c->of_all, own, each * n, GS_F32, GS_SUM);
}

static gs_status call_job(void *context, const gs_job *job) {
    (void)job;
    return call_once(context);
}

static gs_status call_as_in_a_run(caller *c) {
    uint64_t number;
    GS_TRY(gs_jobs_give(c->jobs, (gs_job){.run = call_job, .context = c}, &number));
    return gs_jobs_wait(c->jobs, number);
}

/* *seconds: mean time per call over `calls` calls, from the common start until the last worker has finished. */
static gs_status make_round(caller *c, int calls, double *seconds) {
    double start;
    GS_TRY(gs_ranks_begin(c->all, &c->b->measured->settings->link, &start));
    for (int i = 0; i < calls; i++) GS_TRY(call_as_in_a_run(c));
    double ends[2] = {gs_seconds(), -start};
    GS_TRY(gs_comm_all_reduce(c->all, ends, 2, GS_F64, GS_MAX));
    *seconds = (ends[0] + ends[1]) / calls;
    return GS_OK;
}

static gs_status make_rounds(caller *c, double *seconds) {
    double one, round[ROUNDS];
    for (int i = 0; i < 2; i++) GS_TRY(make_round(c, 1, &one)); /* the first round warms up */
    const int calls = (int)fmin(fmax(ENOUGH / fmax(one, 1e-9), 1), CALLS_MOST);
    for (int i = 0; i < ROUNDS; i++) GS_TRY(make_round(c, calls, &round[i]));
    *seconds = gs_median(round, ROUNDS);
    return GS_OK;
}

static gs_status allocate(caller *c) {
    const gs_layout_call *call = &c->b->call;
    const size_t floats = call->floats, bytes = floats * sizeof(float);
    const gs_sync_array array = {floats, c->b->measured->settings->wire, GS_STATS};
    GS_TRY(GS_NEW(c->mine, floats, "messages of %zu floats", floats));
    GS_TRY(GS_NEW(c->of_all, floats, "messages of %zu floats", floats)); /* zeros: their sums stay 0 */
    GS_TRY(gs_jobs_create(call->background ? 1 : 0, &c->jobs));
    if (call->scheme) return gs_sync_create_wire(call->scheme, c->group, array, &c->sync);
    if (!call->samples) return GS_OK;
    GS_TRY(gs_device_open("cpu", 1, &c->device));
    GS_TRY(gs_alloc(c->device, GS_MEMORY_COMMUNICATION, bytes, &c->part));
    GS_TRY(gs_alloc(c->device, GS_MEMORY_COMMUNICATION, bytes, &c->whole));
    c->tokens = (gs_token_shards){.tp = c->group,
                                  .ordered = c->mine,
                                  .n = call->samples,
                                  .each = floats / call->samples / (size_t)c->group->size};
    return c->device->ops->fill(c->device, c->whole, 0, floats);
}

static void free_caller(caller *c) {
    gs_jobs_free(c->jobs);
    if (c->device) {
        c->device->ops->free(c->device, c->part);
        c->device->ops->free(c->device, c->whole);
    }
    gs_device_close(c->device);
    gs_sync_free(c->sync);
    if (c->group != c->all) gs_comm_free(c->group);
    free(c->mine);
    free(c->of_all);
}

static gs_status make_calls(void *context, int rank, gs_comm **comm) {
    bench *b = context;
    caller c = {.b = b};
    double seconds = 0;
    GS_TRY(gs_comm_linked_create(*comm, &b->measured->settings->link, comm));
    c.all = c.group = *comm;
    bind(b->measured, rank, b->measured->workers);
    const int ranks = b->call.ranks;
    gs_status status = b->call.whole ? GS_OK : gs_comm_split(*comm, rank / ranks * ranks, 1, ranks, &c.group);
    if (status == GS_OK) status = allocate(&c);
    if (status == GS_OK) status = make_rounds(&c, &seconds);
    free_caller(&c);
    if (rank == 0) b->seconds = seconds;
    return status;
}

static bool same(const gs_layout_call *a, const gs_layout_call *b) {
    return a->scheme == b->scheme && a->operation == b->operation && a->ranks == b->ranks &&
           a->whole == b->whole && a->floats == b->floats && a->samples == b->samples &&
           a->background == b->background;
}

/* A call with more than FLOATS_MOST floats is measured with FLOATS_MOST, and its time is scaled in proportion. */
static gs_status call(gs_layout_measured *p, const gs_layout_call *wanted, double *seconds) {
    bench b = {.measured = p, .call = *wanted};
    for (size_t i = 0; i < p->calls_known; i++) {
        *seconds = p->known[i].seconds;
        if (same(&p->known[i].call, wanted)) return GS_OK;
    }
    if (wanted->floats > FLOATS_MOST) {
        const size_t times = (wanted->floats + FLOATS_MOST - 1) / FLOATS_MOST;
        b.call.samples = (wanted->samples + times - 1) / times;
        b.call.floats = wanted->samples ? wanted->floats / wanted->samples * b.call.samples : FLOATS_MOST;
    }
    GS_TRY(gs_ranks_run(p->workers, GS_TIMEOUT, make_calls, &b));
    *seconds = b.seconds * (double)wanted->floats / (double)b.call.floats;
    if (!gs_grow(&p->known, p->calls_known, &p->calls_room, sizeof *p->known))
        return gs_fail(GS_E_MEMORY, "no memory for the times of calls");
    p->known[p->calls_known++] = (gs_layout_call_time){*wanted, *seconds};
    return GS_OK;
}

static const gs_layout_source measured = {layers, call};

/* ---- a worker's data and update ---- */

static gs_status measure_worker(gs_layout_measured *p, size_t batch) {
    static const double SECONDS = 0.2;
    enum { MOST = 64 };
    gs_settings s = *p->settings;
    gs_profile profile;
    const gs_layer_times *t;
    char device[48];
    GS_TRY(gs_settings_alone(&s, device));
    s.threads = 1;
    s.batch = batch > MOST ? MOST : batch;
    s.accumulate = 1;
    GS_TRY(gs_profile_run(&s, SECONDS, &profile));
    const double n = (double)s.batch, params = (double)profile.params;
    p->data = profile.rows[0].cell[GS_FORWARD].seconds / n;
    p->loader = profile.loader > 0 ? 1 / profile.loader : 0;
    gs_profile_free(&profile);
    GS_TRY(layers(p, &s, s.batch, &t));
    double step = t->update + p->data * n;
    for (int i = 0; i < t->layers; i++) step += t->both[i];
    p->samples_per_s = n / step;
    p->update = t->update / params;
    return GS_OK;
}

gs_status gs_layout_measure(gs_layout_measured *p, size_t batch) {
    enum { FLOATS = 1 << 20 };
    const gs_layout_call message = {.operation = GS_SEND, .ranks = p->workers, .floats = FLOATS};
    double seconds = 0;
    p->source = &measured;
    GS_TRY(measure_worker(p, batch));
    if (p->workers > 1) GS_TRY(call(p, &message, &seconds));
    p->bandwidth = seconds > 0 ? FLOATS * sizeof(float) / seconds : 0;
    return GS_OK;
}

void gs_layout_measured_free(gs_layout_measured *p) {
    while (p->times) {
        gs_layout_times *t = p->times;
        p->times = t->next;
        gs_layer_times_free(&t->times);
        free(t);
    }
    free(p->known);
    p->known = NULL;
    p->calls_known = p->calls_room = 0;
}
