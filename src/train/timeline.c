#include "train/timeline.h"

#include "core/clock.h"
#include "layer/watch.h"

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
    if (r->count == r->room) {
        size_t room = r->room ? 2 * r->room : 256;
        gs_span *larger = realloc(r->span, room * sizeof *larger);
        if (!larger) {
            r->lost++;
            return NULL;
        }
        r->span = larger;
        r->room = room;
    }
    return &r->span[r->count++];
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
                     .row = t->worker->overlap ? GS_ROW_SYNC : GS_ROW_COMPUTE,
                     .kind = m->received ? GS_SPAN_RECEIVE : GS_SPAN_SEND,
                     .index = m->received ? m->from : m->to,
                     .round = m->round});
}

static void see_gathered(void *context, const gs_piece *p, double start, double end) {
    gs_timeline *t = context;
    const gs_worker *w = t->worker;
    size_t steps = (w->train_set->count + w->batch - 1) / w->batch;
    add(t, (gs_span){.start = start,
                     .end = end,
                     .step = (p->epoch - 1) * steps + p->first / w->batch + 1,
                     .bytes = p->n * gs_sample_bytes(w->train_set),
                     .row = GS_ROW_LOADER,
                     .kind = GS_SPAN_GATHER});
}

/* ---- layers ---- */

/* Layers without work of their own: what is in them is shown instead. */
static bool is_nothing(const gs_layer *l) {
    return strcmp(l->ops->name, "sequential") == 0 || strcmp(l->ops->name, "flatten") == 0 ||
           gs_layer_is_done_before(l);
}

static gs_status before_layer(void *context, const gs_layer *l, gs_direction direction) {
    (void)direction;
    gs_timeline *t = context;
    if (is_nothing(l)) return GS_OK;
    GS_TRY(l->device->ops->finish(l->device));
    t->layer_start[l->number] = gs_seconds();
    return GS_OK;
}

static gs_status after_layer(void *context, const gs_layer *l, gs_direction direction, const gs_pass *pass) {
    (void)pass;
    gs_timeline *t = context;
    if (is_nothing(l)) return GS_OK;
    GS_TRY(l->device->ops->finish(l->device));
    add(t, (gs_span){.start = t->layer_start[l->number],
                     .end = gs_seconds(),
                     .step = t->step,
                     .kind = direction == GS_FORWARD ? GS_SPAN_FORWARD_LAYER : GS_SPAN_BACKWARD_LAYER,
                     .index = l->number});
    return GS_OK;
}

static gs_status count_one(gs_layer *l, void *context) {
    (void)l;
    ++*(size_t *)context;
    return GS_OK;
}

/* ---- making and freeing ---- */

/* Tells one machine from another: while it runs, this text stays. */
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
    GS_TRY(c->ops->broadcast(c, of_rank0, 2, GS_F64, 0));
    if ((uint32_t)of_rank0[1] == machine()) t->began = of_rank0[0];
    return GS_OK;
}

static gs_status create(gs_worker *w, gs_timeline **out) {
    size_t layers = 0;
    int rows = GS_ROW_SERVER + w->comm->size;
    gs_layer_walk(w->model->net, count_one, &layers);
    gs_timeline *t = calloc(1, sizeof *t + (size_t)rows * sizeof *t->row);
    *out = t;
    if (t) t->layer_start = calloc(layers, sizeof *t->layer_start);
    if (!t || !t->layer_start) return gs_fail(GS_E_MEMORY, "no memory for a timeline of %zu layers", layers);
    t->worker = w;
    t->rows = rows;
    t->first = w->settings->trace_first;
    t->last = w->settings->trace_last;
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

static gs_status receive(gs_comm *c, int rank, gs_timeline_part *out) {
    uint64_t head[2];
    GS_TRY(c->ops->recv(c, head, sizeof head, rank));
    out->lost = head[1];
    out->span = malloc(head[0] * sizeof *out->span + 1);
    if (!out->span)
        return gs_fail(GS_E_MEMORY, "no memory for the %llu spans of worker %d", (unsigned long long)head[0],
                       rank);
    out->count = head[0];
    return out->count > 0 ? c->ops->recv(c, out->span, out->count * sizeof *out->span, rank) : GS_OK;
}

static gs_status send(gs_comm *c, const gs_timeline_part *mine) {
    uint64_t head[2] = {mine->count, mine->lost};
    GS_TRY(c->ops->send(c, head, sizeof head, 0));
    return mine->count > 0 ? c->ops->send(c, mine->span, mine->count * sizeof *mine->span, 0) : GS_OK;
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
    for (int r = 1; r < c->size && status == GS_OK; r++) status = receive(c, r, &all[r]);
    if (status == GS_OK)
        *parts = all;
    else
        gs_timeline_parts_free(all, c->size);
    return status;
}
