#include "train/timeline.h"
#include "core/memory.h"

#include "core/clock.h"
#include "layer/watch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Each row is written by one thread, so none waits for another. */
typedef struct row {
    gs_span *span;
    size_t count, room;
    uint64_t lost;
} row;

struct gs_timeline {
    gs_worker *worker;
    uint64_t first, last; /* steps */
    double began;         /* the moment when training began */
    bool recording;       /* the worker is in a recorded step ... */
    uint64_t step;        /* ... this one */
    gs_layer_watch *layers;
    double *layer_start; /* by a layer's number */
    gs_sync_observer sync;
    gs_loader_observer loader;
    double step_start;
    int rows;
    row row[];
};

/* ---- spans ---- */

static gs_span *room_for_one(row *r) {
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

void gs_timeline_phase(gs_worker *w, gs_phase phase, double start, double end) {
    if (!gs_timeline_records(w)) return;
    add(w->timeline, (gs_span){.start = start,
                               .end = end,
                               .step = w->timeline->step,
                               .kind = GS_SPAN_PHASE,
                               .index = (int32_t)phase});
}

void gs_timeline_bucket(gs_worker *w, int bucket, double start, double end) {
    if (!gs_timeline_records(w)) return;
    add(w->timeline, (gs_span){.start = start,
                               .end = end,
                               .step = w->timeline->step,
                               .row = GS_ROW_SYNC,
                               .kind = GS_SPAN_BUCKET,
                               .index = bucket});
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
    (void)direction, (void)pass, (void)in;
    gs_timeline *t = context;
    if (gs_layer_is_view(l)) return GS_OK;
    GS_TRY(l->device->ops->finish(l->device));
    t->layer_start[l->number] = gs_seconds();
    return GS_OK;
}

static gs_status after_layer(void *context, const gs_layer *l, gs_direction direction, const gs_pass *pass,
                             gs_mem out) {
    (void)pass, (void)out;
    gs_timeline *t = context;
    if (gs_layer_is_view(l)) return GS_OK;
    GS_TRY(l->device->ops->finish(l->device));
    add(t, (gs_span){.start = t->layer_start[l->number],
                     .end = gs_seconds(),
                     .step = t->step,
                     .kind = direction == GS_FORWARD ? GS_SPAN_FORWARD_LAYER : GS_SPAN_BACKWARD_LAYER,
                     .index = l->number});
    return GS_OK;
}

/* ---- making and freeing ---- */

/* Tells one machine from another, by a text that stays the same while a machine runs. */
static uint32_t machine(void) {
    char id[64] = "";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    size_t n = f ? fread(id, 1, sizeof id, f) : 0;
    if (f) fclose(f);
    return (uint32_t)crc32_z(0, (const unsigned char *)id, n);
}

/* The beginning is rank 0's. Another machine's clock counts from another moment: there it is this rank's own. */
static gs_status agree_on_beginning(gs_timeline *t) {
    gs_comm *c = t->worker->comm;
    double of_rank0[2] = {gs_seconds(), machine()};
    t->began = of_rank0[0];
    GS_TRY(gs_comm_broadcast(c, of_rank0, 2, GS_F64, 0));
    if (of_rank0[1] == machine()) t->began = of_rank0[0];
    return GS_OK;
}

static gs_status create(gs_worker *w, gs_timeline **out) {
    size_t layers = gs_layer_count(w->model->net);
    int rows = GS_ROW_SERVER + w->comm->size;
    gs_timeline *t = calloc(1, sizeof *t + (size_t)rows * sizeof *t->row);
    *out = t;
    if (t) t->layer_start = calloc(layers, sizeof *t->layer_start);
    if (!t || !t->layer_start) return gs_fail(GS_E_MEMORY, "no memory for a timeline of %zu layers", layers);
    t->worker = w;
    t->rows = rows;
    t->first = w->settings->trace.first;
    t->last = w->settings->trace.last;
    t->sync = (gs_sync_observer){.context = t, .moved = see_move};
    t->loader = (gs_loader_observer){t, see_gathered};
    return agree_on_beginning(t);
}

gs_status gs_timeline_create(gs_worker *w, gs_timeline **out) {
    gs_status status = create(w, out);
    if (status == GS_OK) return status;
    gs_timeline_free(*out);
    *out = NULL;
    return status;
}

static void stop_watching(gs_timeline *t) {
    gs_layer_watch_end(t->layers);
    t->layers = NULL;
    t->worker->sync->observer = NULL;
    t->recording = false;
}

void gs_timeline_free(gs_timeline *t) {
    if (!t) return;
    if (t->recording) stop_watching(t);
    gs_loader_watch(t->worker->loader, NULL);
    for (int i = 0; i < t->rows; i++) free(t->row[i].span);
    free(t->layer_start);
    free(t);
}

/* ---- a step ---- */

bool gs_timeline_records(const gs_worker *w) {
    return w->timeline && w->timeline->recording;
}

gs_status gs_timeline_step_begins(gs_worker *w) {
    gs_timeline *t = w->timeline;
    uint64_t step = w->step + 1;
    if (!t || step < t->first || step > t->last) return GS_OK;
    if (step == t->first) gs_loader_watch(w->loader, &t->loader);
    GS_TRY(w->device->ops->finish(w->device)); /* what the step before has left */
    GS_TRY(gs_layer_watch_begin(w->model->net, (gs_layer_watcher){t, before_layer, after_layer}, &t->layers));
    w->sync->observer = &t->sync;
    t->step = step;
    t->recording = true;
    t->step_start = gs_seconds();
    return GS_OK;
}

void gs_timeline_step_ends(gs_worker *w) {
    gs_timeline *t = w->timeline;
    if (!gs_timeline_records(w)) return;
    add(t, (gs_span){.start = t->step_start, .end = gs_seconds(), .step = t->step, .kind = GS_SPAN_STEP});
    stop_watching(t);
    if (t->step == t->last) gs_loader_watch(w->loader, NULL);
}

/* ---- all on rank 0 ---- */

void gs_timeline_parts_free(gs_timeline_part *parts, int workers) {
    for (int r = 0; parts && r < workers; r++) free(parts[r].span);
    free(parts);
}

/* All rows, one behind the other. */
static gs_status join(const gs_timeline *t, gs_timeline_part *out) {
    *out = (gs_timeline_part){0};
    for (int i = 0; i < t->rows; i++) out->count += t->row[i].count;
    out->span = malloc(out->count * sizeof *out->span + 1);
    if (!out->span) return gs_fail(GS_E_MEMORY, "no memory for a timeline of %zu spans", out->count);
    size_t done = 0;
    for (int i = 0; i < t->rows; i++) {
        if (t->row[i].count > 0)
            memcpy(out->span + done, t->row[i].span, t->row[i].count * sizeof *out->span);
        done += t->row[i].count;
        out->lost += t->row[i].lost;
    }
    return GS_OK;
}

/* The spans travel in blocks, so memory is taken only for what has arrived. */
enum { BLOCK = 4096 };

static size_t block_at(uint64_t at, uint64_t count) {
    return count - at < BLOCK ? (size_t)(count - at) : BLOCK;
}

static gs_status receive(gs_comm *c, int rank, gs_timeline_part *out) {
    uint64_t head[2];
    GS_TRY(gs_comm_recv(c, head, sizeof head, rank));
    out->lost = head[1];
    while (out->count < head[0]) {
        size_t n = block_at(out->count, head[0]);
        gs_span *larger = realloc(out->span, (out->count + n) * sizeof *larger);
        if (!larger)
            return gs_fail(GS_E_MEMORY, "no memory for %zu spans of worker %d", out->count + n, rank);
        out->span = larger;
        GS_TRY(gs_comm_recv(c, larger + out->count, n * sizeof *larger, rank));
        out->count += n;
    }
    return GS_OK;
}

static gs_status send(gs_comm *c, const gs_timeline_part *mine) {
    uint64_t head[2] = {mine->count, mine->lost};
    GS_TRY(gs_comm_send(c, head, sizeof head, 0));
    for (size_t at = 0, n; at < mine->count; at += n) {
        n = block_at(at, mine->count);
        GS_TRY(gs_comm_send(c, mine->span + at, n * sizeof *mine->span, 0));
    }
    return GS_OK;
}

/* How many values the index of a span may have: programs that show a span look up a name by it. */
static size_t indices_of(int kind, size_t workers, size_t layers) {
    switch (kind) {
    case GS_SPAN_PHASE:
        return GS_PHASES;
    case GS_SPAN_FORWARD_LAYER:
    case GS_SPAN_BACKWARD_LAYER:
        return layers;
    case GS_SPAN_SEND:
    case GS_SPAN_RECEIVE:
        return workers;
    default:
        return INT32_MAX;
    }
}

static bool can_be(const gs_span *s, int workers, size_t layers) {
    static const double most = 1e9; /* seconds */
    return s->kind >= GS_SPAN_STEP && s->kind <= GS_SPAN_GATHER && s->row >= 0 &&
           s->row < GS_ROW_SERVER + workers && s->index >= 0 &&
           (size_t)s->index < indices_of(s->kind, (size_t)workers, layers) && fabs(s->start) < most &&
           fabs(s->end) < most;
}

static gs_status check(const gs_worker *w, int rank, const gs_timeline_part *part) {
    size_t layers = gs_layer_count(w->model->net);
    for (size_t i = 0; i < part->count; i++) {
        const gs_span *s = &part->span[i];
        if (!can_be(s, w->comm->size, layers))
            return gs_fail(GS_E_PEER,
                           "worker %d sent a span that cannot be: kind %d, index %d, row %d, %g s to %g s",
                           rank, s->kind, s->index, s->row, s->start, s->end);
    }
    return GS_OK;
}

gs_status gs_timeline_gather(gs_worker *w, gs_timeline_part **parts) {
    gs_comm *c = w->comm;
    gs_timeline_part mine, *all = NULL;
    *parts = NULL;
    gs_loader_watch(w->loader, NULL); /* a run may end before the last recorded step */
    gs_status status = join(w->timeline, &mine);
    if (c->rank != 0) {
        if (status == GS_OK) status = send(c, &mine);
        free(mine.span);
        return status;
    }
    if (status == GS_OK && !(all = calloc((size_t)c->size, sizeof *all)))
        status = gs_fail(GS_E_MEMORY, "no memory for the timelines of %d workers", c->size);
    if (!all) {
        free(mine.span);
        return status;
    }
    all[0] = mine;
    for (int r = 1; r < c->size && status == GS_OK; r++) {
        status = receive(c, r, &all[r]);
        if (status == GS_OK) status = check(w, r, &all[r]);
    }
    if (status == GS_OK)
        *parts = all;
    else
        gs_timeline_parts_free(all, c->size);
    return status;
}
