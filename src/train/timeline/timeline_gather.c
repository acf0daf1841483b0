/* The timelines of all workers, on rank 0. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/timeline/timeline_rows.h"

void gs_timeline_parts_free(gs_timeline_part *parts, int workers) {
    for (int r = 0; parts && r < workers; r++) {
        free(parts[r].span);
        free(parts[r].memory);
    }
    free(parts);
}

/* All rows, one behind the other. */
static gs_status join(const gs_timeline *t, gs_timeline_part *out) {
    const gs_timeline_memory *m = &t->memory;
    *out = (gs_timeline_part){.samples = m->count, .lost = m->lost};
    for (int i = 0; i < t->rows; i++) out->count += t->row[i].count;
    out->span = malloc(out->count * sizeof *out->span + 1);
    out->memory = malloc(m->count * sizeof *out->memory + 1);
    if (!out->span || !out->memory)
        return gs_fail(GS_E_MEMORY, "no memory for a timeline of %zu spans", out->count);
    if (m->count > 0) memcpy(out->memory, m->sample, m->count * sizeof *out->memory);
    size_t done = 0;
    for (int i = 0; i < t->rows; i++) {
        if (t->row[i].count > 0)
            memcpy(out->span + done, t->row[i].span, t->row[i].count * sizeof *out->span);
        done += t->row[i].count;
        out->lost += t->row[i].lost;
    }
    return GS_OK;
}

/* An array travels in blocks, so memory is taken only for what has arrived. */
enum { BLOCK = 4096 };

static size_t block_at(uint64_t at, uint64_t count) {
    return count - at < BLOCK ? (size_t)(count - at) : BLOCK;
}

static gs_status receive_array(gs_comm *c, int rank, uint64_t count, size_t size, void **array,
                               size_t *there) {
    while (*there < count) {
        const size_t n = block_at(*there, count);
        void *larger = realloc(*array, (*there + n) * size);
        if (!larger) return gs_fail(GS_E_MEMORY, "no memory for %zu spans of worker %d", *there + n, rank);
        *array = larger;
        GS_TRY(gs_comm_recv(c, (char *)larger + *there * size, n * size, rank));
        *there += n;
    }
    return GS_OK;
}

static gs_status send_array(gs_comm *c, const void *array, size_t count, size_t size) {
    for (size_t at = 0, n; at < count; at += n) {
        n = block_at(at, count);
        GS_TRY(gs_comm_send(c, (const char *)array + at * size, n * size, 0));
    }
    return GS_OK;
}

static gs_status receive(gs_comm *c, int rank, gs_timeline_part *out) {
    uint64_t head[3];
    void *spans = NULL, *samples = NULL;
    GS_TRY(gs_comm_recv(c, head, sizeof head, rank));
    out->lost = head[2];
    gs_status status = receive_array(c, rank, head[0], sizeof *out->span, &spans, &out->count);
    if (status == GS_OK)
        status = receive_array(c, rank, head[1], sizeof *out->memory, &samples, &out->samples);
    out->span = spans;
    out->memory = samples;
    return status;
}

static gs_status send(gs_comm *c, const gs_timeline_part *mine) {
    uint64_t head[3] = {mine->count, mine->samples, mine->lost};
    GS_TRY(gs_comm_send(c, head, sizeof head, 0));
    GS_TRY(send_array(c, mine->span, mine->count, sizeof *mine->span));
    return send_array(c, mine->memory, mine->samples, sizeof *mine->memory);
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
    case GS_SPAN_FETCH:
    case GS_SPAN_PUT_AWAY:
        return GS_MEMORY_KINDS;
    default:
        return INT32_MAX;
    }
}

static bool can_be(const gs_span *s, int workers, size_t layers) {
    static const double most = 1e9; /* seconds */
    return s->kind >= GS_SPAN_STEP && s->kind < GS_SPANS && s->row >= 0 && s->row < GS_ROW_SERVER + workers &&
           s->index >= 0 && (size_t)s->index < indices_of(s->kind, (size_t)workers, layers) &&
           fabs(s->start) < most && fabs(s->end) < most;
}

static bool is_amount(double x) {
    return x >= 0 && x < 1e18;
}

static bool can_be_memory(const gs_memory_sample *m) {
    bool can = fabs(m->at) < 1e9 && is_amount(m->needed);
    for (int k = 0; k < GS_MEMORY_KINDS; k++) can = can && is_amount(m->use.bytes[k]);
    return can;
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
    for (size_t i = 0; i < part->samples; i++)
        if (!can_be_memory(&part->memory[i]))
            return gs_fail(GS_E_PEER, "worker %d sent an amount of memory that cannot be, at %g s", rank,
                           part->memory[i].at);
    return GS_OK;
}

gs_status gs_timeline_gather(gs_worker *w, gs_timeline_part **parts) {
    gs_comm *c = w->comm;
    gs_timeline_part mine, *all = NULL;
    *parts = NULL;
    gs_loader_watch(w->loader, NULL); /* a run may end before the last recorded step */
    gs_timeline_settle(w);
    gs_status status = join(w->timeline, &mine);
    if (c->rank != 0) {
        if (status == GS_OK) status = send(c, &mine);
        free(mine.span);
        free(mine.memory);
        return status;
    }
    if (status == GS_OK && !(all = calloc((size_t)c->size, sizeof *all)))
        status = gs_fail(GS_E_MEMORY, "no memory for the timelines of %d workers", c->size);
    if (!all) {
        free(mine.span);
        free(mine.memory);
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
