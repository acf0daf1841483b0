#include "train/timeline/timeline.h"

#include "core/clock.h"
#include "core/machine.h"
#include "train/hooks.h"
#include "train/timeline/timeline_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- spans ---- */

static gs_span *room_for_one(gs_timeline_row *r) {
    if (gs_grow(&r->span, r->count, &r->room, sizeof *r->span)) return &r->span[r->count++];
    r->lost++;
    return NULL;
}

static void add(gs_timeline *t, gs_span s) {
    gs_span *place = room_for_one(&t->row[s.row]);
    if (!place) return;
    memset(place, 0, sizeof *place); /* padding too: the whole struct travels */
    *place = s;
    place->start -= t->began;
    place->end -= t->began;
}

static gs_status phase_ended(gs_worker *w, gs_phase phase, double start, double end) {
    gs_timeline *t = w->timeline;
    if (!w->recorded) return GS_OK;
    add(t, (gs_span){
               .start = start, .end = end, .step = t->step, .kind = GS_SPAN_PHASE, .index = (int32_t)phase});
    gs_timeline_memory_sample(&t->memory, w, end - t->began, t->step, 0, NULL, GS_FORWARD);
    return GS_OK;
}

void gs_timeline_bucket(gs_worker *w, int bucket, double start, double end) {
    if (!w->recorded) return;
    add(w->timeline, (gs_span){.start = start,
                               .end = end,
                               .step = w->timeline->step,
                               .row = GS_ROW_SYNC,
                               .kind = GS_SPAN_BUCKET,
                               .index = bucket});
}

void gs_timeline_span(gs_worker *w, const gs_span *s) {
    if (!w->recorded) return;
    gs_span span = *s;
    span.step = w->timeline->step;
    add(w->timeline, span);
}

void gs_timeline_group(gs_worker *w, int act, size_t bytes_sent, size_t floats, double start) {
    gs_timeline_span(w, &(gs_span){.start = start,
                                   .end = gs_seconds(),
                                   .bytes = bytes_sent,
                                   .count = floats,
                                   .kind = GS_SPAN_GROUP_CALL,
                                   .index = act});
}

void gs_timeline_stage(gs_worker *w, bool backward, int micro_batch, int chunk, size_t bytes, double start) {
    if (!w->recorded) return;
    gs_timeline_memory *m = &w->timeline->memory;
    m->stages += backward ? -(double)bytes : (double)bytes;
    if (m->stages < 0) m->stages = 0; /* of a micro-batch that was forward before recording began */
    gs_timeline_span(w, &(gs_span){.start = start,
                                   .end = gs_seconds(),
                                   .kind = backward ? GS_SPAN_STAGE_BACKWARD : GS_SPAN_STAGE_FORWARD,
                                   .index = micro_batch,
                                   .round = chunk});
}

/* In the fetcher's thread, or with OpenCL in the worker's. `step` is that of the call, so nothing of the worker is read
 * here. */
static void see_away(void *context, uint64_t step, const gs_away_move *m) {
    add(context, (gs_span){.start = m->start,
                           .end = m->end,
                           .step = step,
                           .bytes = m->bytes,
                           .row = GS_ROW_FETCHER,
                           .kind = m->brought ? GS_SPAN_FETCH : GS_SPAN_PUT_AWAY,
                           .index = m->kind});
}

void gs_timeline_message(gs_worker *w, int row, uint64_t step, bool received, int peer, size_t bytes,
                         double start) {
    gs_timeline *t = w->timeline;
    if (!t || step < t->first || step > t->last) return;
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

static void see_gathered(void *context, const gs_piece *p, double start, double end) {
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
    gs_timeline_memory_begins(&t->memory, l, direction);
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
    gs_timeline_memory_sample(&t->memory, t->worker, end - t->began, t->step, pass->n, l, direction);
    add(t, (gs_span){.start = t->layer_start[l->number],
                     .end = end,
                     .step = t->step,
                     .kind = direction == GS_FORWARD ? GS_SPAN_FORWARD_LAYER : GS_SPAN_BACKWARD_LAYER,
                     .index = l->number});
    return GS_OK;
}

/* ---- making and freeing ---- */

/* The beginning is rank 0's. Another machine's clock counts from another moment: there it is this rank's own. */
static gs_status agree_on_beginning(gs_timeline *t) {
    gs_comm *c = t->worker->comm;
    double of_rank0[2] = {gs_seconds(), gs_machine()};
    t->began = of_rank0[0];
    GS_TRY(gs_comm_broadcast(c, of_rank0, 2, GS_F64, 0));
    if (of_rank0[1] == gs_machine()) t->began = of_rank0[0];
    return GS_OK;
}

gs_status gs_timeline_create(gs_worker *w, gs_timeline **out) {
    size_t layers = gs_layer_count(w->model->net);
    int rows = GS_ROW_SERVER + w->comm->size;
    gs_timeline *t = calloc(1, sizeof *t + (size_t)rows * sizeof *t->row);
    *out = t;
    if (t) t->worker = w;
    if (t) t->layer_start = calloc(layers, sizeof *t->layer_start);
    if (!t || !t->layer_start) return gs_fail(GS_E_MEMORY, "no memory for a timeline of %zu layers", layers);
    t->rows = rows;
    t->first = w->settings->trace.first;
    t->last = w->settings->trace.last;
    t->sync = (gs_sync_observer){.context = t, .moved = see_move};
    t->loader = (gs_loader_observer){t, see_gathered};
    t->layers = (gs_layer_watcher){t, before_layer, after_layer, NULL};
    GS_TRY(gs_timeline_memory_create(&t->memory, w->model));
    return agree_on_beginning(t);
}

static void stop_watching(gs_timeline *t) {
    gs_layer_watch_end(t->worker->model->net);
    t->worker->sync->observer = NULL;
    t->worker->device->away_watch = (gs_away_watch){0};
    t->worker->recorded = false;
}

void gs_timeline_settle(const gs_worker *w) {
    if (w->device && w->device->offload)
        (void)w->device->ops->settle(w->device); /* what fails there, fails again */
}

void gs_timeline_free(gs_timeline *t) {
    if (!t) return;
    if (t->worker->recorded) stop_watching(t);
    gs_timeline_settle(t->worker);
    gs_loader_watch(t->worker->loader, NULL);
    gs_timeline_memory_free(&t->memory);
    for (int i = 0; i < t->rows; i++) free(t->row[i].span);
    free(t->layer_start);
    free(t);
}

/* ---- a step ---- */

static gs_status before_step(gs_worker *w) {
    gs_timeline *t = w->timeline;
    uint64_t step = w->step + 1;
    if (!t || step < t->first || step > t->last) return GS_OK;
    if (step == t->first) gs_loader_watch(w->loader, &t->loader);
    GS_TRY(w->device->ops->finish(w->device)); /* what the step before has left */
    gs_layer_watch_begin(w->model->net, &t->layers);
    w->sync->observer = &t->sync;
    w->device->away_watch = (gs_away_watch){see_away, t, step};
    t->step = step;
    t->memory.stages = 0;
    w->recorded = true;
    t->step_start = gs_seconds();
    gs_timeline_memory_sample(&t->memory, w, t->step_start - t->began, step, 0, NULL, GS_FORWARD);
    return GS_OK;
}

static gs_status after_step(gs_worker *w, gs_event *e) {
    gs_timeline *t = w->timeline;
    (void)e;
    if (!w->recorded) return GS_OK;
    add(t, (gs_span){.start = t->step_start, .end = gs_seconds(), .step = t->step, .kind = GS_SPAN_STEP});
    stop_watching(t);
    if (t->step == t->last) gs_loader_watch(w->loader, NULL);
    return GS_OK;
}

const gs_hook gs_hook_timeline = {.before_step = before_step, .phase = phase_ended, .after_step = after_step};
