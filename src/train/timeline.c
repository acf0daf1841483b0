/* Records a worker's timeline, layer by layer and thread by thread, and gathers all timelines on rank 0. */
#include "train/timeline.h"

#include "core/clock.h"
#include "core/process.h"
#include "core/memory.h"
#include "layer/memory/buffer_plan.h"
#include "layer/watch.h"
#include "train/hooks.h"

#include <math.h>
#include <stdlib.h>

/* Each row is written by only one thread, so no thread waits for another. */
typedef struct row {
    gs_span *span;
    size_t count, room;
    uint64_t lost;
} row;

struct gs_timeline {
    gs_worker *worker;
    gs_step_range traced;
    double began;  /* when training began */
    uint64_t step; /* the step being recorded, if worker->recorded */
    gs_layer_watcher layers;
    double *layer_start; /* [layers]: by the layer's number */
    gs_sync_observer sync;
    gs_loader_observer loader;
    double step_start;
    gs_memory_sample *sample; /* written only by the worker's thread */
    size_t samples, room;
    uint64_t lost; /* number of lost samples */
    bool *needed;  /* [buffer of the arena]: true while its values will still be read */
    double stages; /* in a pipeline: bytes that will still be read, for all micro-batches that are alive */
    int rows;
    row row[];
};

/* ---- memory ----
 * Samples hold the allocated bytes, according to the ledger, and the activations that are still needed. y and dx are in
 * an arena that is allocated before the first step (memory/arena.h), so the ledger's value is constant. A picture
 * should show which activations are needed: y from its forward on, dx from its backward on, each until the last layer
 * that reads it has ended its backward (layer/memory/buffer_plan.h). */

static bool overlap(const gs_arena *a, int i, int k) {
    const gs_lifetime *x = &a->lifetimes.life[i], *y = &a->lifetimes.life[k];
    if (gs_arena_is_offloaded(a, i) || gs_arena_is_offloaded(a, k)) return false;
    return x->at < y->at + y->floats && y->at < x->at + x->floats;
}

/* Mark a buffer as needed, and the buffers whose memory it overwrites as no longer needed. */
static void now_holds(gs_timeline *t, const gs_arena *a, int buffer) {
    if (buffer < 0) return;
    for (int i = 0; i < (int)a->lifetimes.count; i++)
        if (t->needed[i] && overlap(a, i, buffer)) t->needed[i] = false;
    t->needed[buffer] = true;
}

static double needed_bytes(const gs_timeline *t, size_t n) {
    const gs_model *model = t->worker->model;
    const gs_arena *a = model->net->arena;
    double floats = 0;
    for (size_t i = 0; a && i < a->lifetimes.count; i++)
        if (t->needed[i] && !gs_arena_is_offloaded(a, (int)i)) floats += (double)a->lifetimes.life[i].floats;
    if (model->max_batch == 0) return t->stages; /* a stage's layers are in other models */
    return t->stages + floats * sizeof(float) * (double)n / (double)model->max_batch;
}

/* After a layer's backward: drop the buffers that no earlier layer reads. */
static void forget(gs_timeline *t, const gs_arena *a, const gs_layer *l) {
    for (size_t i = 0; i < a->lifetimes.count; i++)
        if (a->lifetimes.life[i].dies <= l->memory.backward_step || l == l->root) t->needed[i] = false;
}

/* Called after a layer or, with l NULL, after a phase. at: the time by gs_seconds(). */
static void sample_memory(gs_timeline *t, double at, size_t n, const gs_layer *l, gs_direction direction) {
    const gs_worker *w = t->worker;
    const gs_arena *a = w->model->net->arena;
    if (l && a) now_holds(t, a, direction == GS_FORWARD ? l->memory.y_buffer : l->memory.dx_buffer);
    if (!gs_grow(&t->sample, t->samples, &t->room, sizeof *t->sample)) {
        t->lost++;
        return;
    }
    gs_memory_sample *s = &t->sample[t->samples++];
    gs_memory_use host;
    memset(s, 0, sizeof *s); /* including padding: the whole struct is sent */
    s->at = at - t->began;
    s->step = t->step;
    gs_ledger_now(&w->device->memory, GS_ON_DEVICE, &s->use);
    gs_ledger_now(&w->device->memory, GS_ON_HOST, &host);
    for (int k = 0; k < GS_MEMORY_KINDS; k++) s->use.bytes[k] += host.bytes[k];
    s->needed = fmin(needed_bytes(t, n), s->use.bytes[GS_MEMORY_ACTIVATIONS]);
    if (l && a && direction == GS_BACKWARD) forget(t, a, l);
}

/* ---- spans ---- */

static void add(gs_timeline *t, gs_span s) {
    row *r = &t->row[s.row];
    if (!gs_grow(&r->span, r->count, &r->room, sizeof *r->span)) {
        r->lost++;
        return;
    }
    gs_span *place = &r->span[r->count++];
    memset(place, 0, sizeof *place); /* including padding: the whole struct is sent */
    *place = s;
    place->start -= t->began;
    place->end -= t->began;
}

static gs_status phase_ended(gs_worker *w, gs_phase phase, double start, double end) {
    gs_timeline *t = w->timeline;
    if (!w->recorded) return GS_OK;
    add(t, (gs_span){
               .start = start, .end = end, .step = t->step, .kind = GS_SPAN_PHASE, .index = (int32_t)phase});
    sample_memory(t, end, w->micro_batch.n, NULL, GS_FORWARD);
    return GS_OK;
}

void gs_timeline_span(gs_worker *w, const gs_span *s) {
    if (!w->recorded) return;
    gs_span span = *s;
    span.step = w->timeline->step;
    add(w->timeline, span);
}

void gs_timeline_bucket(gs_worker *w, int bucket, double start, double end) {
    gs_timeline_span(
        w,
        &(gs_span){.start = start, .end = end, .row = GS_ROW_SYNC, .kind = GS_SPAN_BUCKET, .index = bucket});
}

void gs_timeline_stage(gs_worker *w, bool backward, int micro_batch, int chunk, size_t bytes, double start) {
    if (!w->recorded) return;
    double *stages = &w->timeline->stages;
    /* not below 0, because the micro-batch's forward may have run before recording began */
    *stages = fmax(*stages + (backward ? -(double)bytes : (double)bytes), 0);
    gs_timeline_span(w, &(gs_span){.start = start,
                                   .end = gs_seconds(),
                                   .kind = backward ? GS_SPAN_STAGE_BACKWARD : GS_SPAN_STAGE_FORWARD,
                                   .index = micro_batch,
                                   .round = chunk});
}

/* Runs in the fetcher's thread or, with OpenCL, in the worker's. `step` is passed, to avoid reading the worker. */
static void see_transfer(void *context, uint64_t step, const gs_offload_transfer *m) {
    add(context, (gs_span){.start = m->start,
                           .end = m->end,
                           .step = step,
                           .bytes = m->bytes,
                           .row = GS_ROW_FETCHER,
                           .kind = m->fetched ? GS_SPAN_FETCH : GS_SPAN_OFFLOAD,
                           .index = m->kind});
}

void gs_timeline_message(gs_worker *w, int row, uint64_t step, bool received, int peer, size_t bytes,
                         double start) {
    gs_timeline *t = w->timeline;
    if (!t || step < t->traced.first || step > t->traced.last) return;
    add(t, (gs_span){.start = start,
                     .end = gs_seconds(),
                     .step = step,
                     .bytes = bytes,
                     .row = row,
                     .kind = received ? GS_SPAN_RECEIVE : GS_SPAN_SEND,
                     .index = peer});
}

static void see_move(void *context, const gs_sync_move *m) {
    gs_timeline *t = context;
    add(t, (gs_span){.start = m->start,
                     .end = m->end,
                     .step = t->step,
                     .bytes = m->bytes,
                     .first = m->first,
                     .count = m->count,
                     .row = t->worker->final ? GS_ROW_SYNC : GS_ROW_COMPUTE,
                     .kind = m->received ? GS_SPAN_RECEIVE : GS_SPAN_SEND,
                     .index = m->received ? m->from : m->to,
                     .round = m->round});
}

static void see_gathered(void *context, const gs_micro_batch *p, double start, double end) {
    gs_timeline *t = context;
    add(t, (gs_span){.start = start,
                     .end = end,
                     .step = p->step,
                     .bytes = p->n * gs_sample_bytes(t->worker->train_set),
                     .row = GS_ROW_LOADER,
                     .kind = GS_SPAN_GATHER});
}

/* ---- layers ---- */

static gs_status before_layer(void *context, const gs_layer *l, gs_direction direction, const gs_pass *pass,
                              gs_mem in) {
    (void)pass, (void)in;
    gs_timeline *t = context;
    if (l == l->root && direction == GS_FORWARD && t->needed)
        memset(t->needed, 0, l->arena->lifetimes.count * sizeof *t->needed);
    if (gs_layer_is_view(l)) return GS_OK;
    GS_TRY(l->device->ops->finish(l->device));
    t->layer_start[l->number] = gs_seconds();
    return GS_OK;
}

static gs_status after_layer(void *context, const gs_layer *l, gs_direction direction, const gs_pass *pass,
                             gs_mem out) {
    (void)out;
    gs_timeline *t = context;
    if (gs_layer_is_view(l)) return GS_OK;
    GS_TRY(l->device->ops->finish(l->device));
    const double end = gs_seconds();
    sample_memory(t, end, pass->n ? pass->n : t->worker->micro_batch.n, l, direction);
    add(t, (gs_span){.start = t->layer_start[l->number],
                     .end = end,
                     .step = t->step,
                     .kind = direction == GS_FORWARD ? GS_SPAN_FORWARD_LAYER : GS_SPAN_BACKWARD_LAYER,
                     .index = l->number});
    return GS_OK;
}

/* ---- creation and release ---- */

/* Times count from rank 0's beginning; on a machine with a different clock, from this rank's beginning. */
static gs_status agree_on_beginning(gs_timeline *t) {
    gs_comm *c = t->worker->comm;
    double of_rank0[2] = {gs_seconds(), gs_boot_id()};
    t->began = of_rank0[0];
    GS_TRY(gs_comm_broadcast(c, of_rank0, 2, GS_F64, 0));
    if (of_rank0[1] == gs_boot_id()) t->began = of_rank0[0];
    return GS_OK;
}

gs_status gs_timeline_create(gs_worker *w, gs_timeline **out) {
    const size_t layers = gs_layer_count(w->model->net);
    const gs_arena *arena = w->model->net->arena; /* NULL for a stage, whose layers are in other models */
    const int rows = GS_ROW_SERVER + w->comm->size;
    gs_timeline *t = *out = calloc(1, sizeof *t + (size_t)rows * sizeof *t->row);
    if (!t) return gs_fail(GS_E_MEMORY, "no memory for a timeline of %zu layers", layers);
    t->worker = w;
    t->rows = rows;
    GS_TRY(GS_NEW(t->layer_start, layers, "a timeline of %zu layers", layers));
    if (arena) GS_TRY(GS_NEW(t->needed, arena->lifetimes.count, "a timeline of %zu layers", layers));
    t->traced = w->settings->trace;
    t->sync = (gs_sync_observer){.context = t, .moved = see_move};
    t->loader = (gs_loader_observer){t, see_gathered};
    t->layers = (gs_layer_watcher){t, before_layer, after_layer, NULL};
    return agree_on_beginning(t);
}

static void stop_watching(gs_timeline *t) {
    gs_layer_watch_end(t->worker->model->net);
    t->worker->sync->observer = NULL;
    t->worker->device->offload_watcher = (gs_offload_watcher){0};
    t->worker->recorded = false;
}

/* Wait until the device's thread has done the work of recorded steps. */
static void settle(const gs_worker *w) {
    if (w->device && w->device->offload)
        (void)w->device->ops->settle(w->device); /* a failure shows up again in the next call */
}

void gs_timeline_free(gs_timeline *t) {
    if (!t) return;
    if (t->worker->recorded) stop_watching(t);
    settle(t->worker);
    gs_loader_watch(t->worker->loader, NULL);
    free(t->sample);
    free(t->needed);
    for (int i = 0; i < t->rows; i++) free(t->row[i].span);
    free(t->layer_start);
    free(t);
}

/* ---- gathering on rank 0 ---- */

void gs_rank_timelines_free(gs_rank_timeline *parts, int workers) {
    for (int r = 0; parts && r < workers; r++) {
        free(parts[r].span);
        free(parts[r].memory);
    }
    free(parts);
}

/* Take over the samples, and concatenate all rows. */
static gs_status join(gs_timeline *t, gs_rank_timeline *out) {
    *out = (gs_rank_timeline){.memory = t->sample, .samples = t->samples, .lost = t->lost};
    t->sample = NULL;
    for (int i = 0; i < t->rows; i++) out->count += t->row[i].count;
    GS_TRY(GS_NEW(out->span, out->count, "a timeline of %zu spans", out->count));
    size_t done = 0;
    for (int i = 0; i < t->rows; i++) {
        if (t->row[i].count > 0)
            memcpy(out->span + done, t->row[i].span, t->row[i].count * sizeof *out->span);
        done += t->row[i].count;
        out->lost += t->row[i].lost;
    }
    return GS_OK;
}

/* Send an array from `rank` to rank 0 in blocks. Rank 0 allocates memory only for blocks that arrive. */
static gs_status move_array(gs_comm *c, int rank, size_t count, size_t size, void **array) {
    enum { BLOCK = 4096 };
    for (size_t at = 0, n; at < count; at += n) {
        n = count - at < BLOCK ? count - at : BLOCK;
        void *room = c->rank == 0 ? realloc(*array, (at + n) * size) : *array;
        if (!room) return gs_fail(GS_E_MEMORY, "no memory for %zu spans of worker %d", at + n, rank);
        *array = room;
        char *block = (char *)room + at * size;
        GS_TRY(c->rank == 0 ? gs_comm_recv(c, block, n * size, rank) : gs_comm_send(c, block, n * size, 0));
    }
    return GS_OK;
}

/* Send the timeline of `rank` to rank 0. */
static gs_status move(gs_comm *c, int rank, gs_rank_timeline *t) {
    uint64_t head[3] = {t->count, t->samples, t->lost};
    void *spans = t->span, *samples = t->memory;
    GS_TRY(c->rank == 0 ? gs_comm_recv(c, head, sizeof head, rank) : gs_comm_send(c, head, sizeof head, 0));
    gs_status status = move_array(c, rank, head[0], sizeof *t->span, &spans);
    if (status == GS_OK) status = move_array(c, rank, head[1], sizeof *t->memory, &samples);
    const bool whole = status == GS_OK;
    *t = (gs_rank_timeline){spans, whole ? head[0] : 0, samples, whole ? head[1] : 0, head[2]};
    return status;
}

/* True if the span is valid, including its index: programs that show a span look up its name by the index. */
static bool can_be(const gs_span *s, size_t workers, size_t layers) {
    const size_t indices[GS_SPANS] = {[GS_SPAN_PHASE] = GS_PHASES,        [GS_SPAN_FORWARD_LAYER] = layers,
                                      [GS_SPAN_BACKWARD_LAYER] = layers,  [GS_SPAN_SEND] = workers,
                                      [GS_SPAN_RECEIVE] = workers,        [GS_SPAN_FETCH] = GS_MEMORY_KINDS,
                                      [GS_SPAN_OFFLOAD] = GS_MEMORY_KINDS}; /* 0: any */
    static const double most = 1e9;                                         /* seconds */
    return s->kind >= GS_SPAN_STEP && s->kind < GS_SPANS && s->row >= 0 &&
           s->row < GS_ROW_SERVER + (int)workers && s->index >= 0 &&
           (indices[s->kind] == 0 || (size_t)s->index < indices[s->kind]) && fabs(s->start) < most &&
           fabs(s->end) < most;
}

static bool is_amount(double x) {
    return x >= 0 && x < 1e18;
}

static bool can_be_memory(const gs_memory_sample *m) {
    bool can = fabs(m->at) < 1e9 && is_amount(m->needed);
    for (int k = 0; k < GS_MEMORY_KINDS; k++) can = can && is_amount(m->use.bytes[k]);
    return can;
}

static gs_status check(const gs_worker *w, int rank, const gs_rank_timeline *part) {
    size_t layers = gs_layer_count(w->model->net);
    for (size_t i = 0; i < part->count; i++) {
        const gs_span *s = &part->span[i];
        if (!can_be(s, (size_t)w->comm->size, layers))
            return gs_fail(GS_E_PEER,
                           "worker %d sent a span that cannot be: kind %d, index %d, row %d, %g s to %g s",
                           rank, s->kind, s->index, s->row, s->start, s->end);
    }
    for (size_t i = 0; i < part->samples; i++)
        if (!can_be_memory(&part->memory[i]))
            return gs_fail(GS_E_PEER, "worker %d sent an amount of memory that cannot be, at %g s", rank,
                           part->memory[i].at);
    return GS_OK;
}

gs_status gs_timeline_gather(gs_worker *w, gs_rank_timeline **parts) {
    gs_comm *c = w->comm;
    const int count = c->rank == 0 ? c->size : 1;
    gs_rank_timeline *all;
    *parts = NULL;
    gs_loader_watch(w->loader, NULL); /* a run may end before the last step to record */
    settle(w);
    GS_TRY(GS_NEW(all, count, "the timelines of %d workers", count));
    gs_status status = join(w->timeline, all);
    if (status == GS_OK && c->rank != 0) status = move(c, c->rank, all);
    for (int r = 1; r < count && status == GS_OK; r++) {
        status = move(c, r, &all[r]);
        if (status == GS_OK) status = check(w, r, &all[r]);
    }
    if (status == GS_OK && c->rank == 0)
        *parts = all;
    else
        gs_rank_timelines_free(all, count);
    return status;
}

/* ---- a step ---- */

static gs_status before_step(gs_worker *w) {
    gs_timeline *t = w->timeline;
    uint64_t step = w->step + 1;
    if (!t || step < t->traced.first || step > t->traced.last) return GS_OK;
    if (step == t->traced.first) gs_loader_watch(w->loader, &t->loader);
    GS_TRY(w->device->ops->finish(w->device)); /* the previous step's work */
    gs_layer_watch_begin(w->model->net, &t->layers);
    w->sync->observer = &t->sync;
    w->device->offload_watcher = (gs_offload_watcher){see_transfer, t, step};
    t->step = step;
    t->stages = 0;
    w->recorded = true;
    t->step_start = gs_seconds();
    sample_memory(t, t->step_start, w->micro_batch.n, NULL, GS_FORWARD);
    return GS_OK;
}

static gs_status after_step(gs_worker *w, gs_event *e) {
    gs_timeline *t = w->timeline;
    (void)e;
    if (!w->recorded) return GS_OK;
    add(t, (gs_span){.start = t->step_start, .end = gs_seconds(), .step = t->step, .kind = GS_SPAN_STEP});
    stop_watching(t);
    if (t->step == t->traced.last) gs_loader_watch(w->loader, NULL);
    return GS_OK;
}

const gs_hook gs_hook_timeline = {.before_step = before_step, .phase = phase_ended, .after_step = after_step};
