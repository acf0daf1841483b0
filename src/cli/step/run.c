#include "cli/step/step.h"
#include "comm/ranks.h"
#include "core/memory.h"

#include <stdlib.h>

/* The events of one worker, recorded in its own thread; threads share no list. */
typedef struct worker {
    gs_step_record *step;
    float *data;
    gs_sync *sync;
    gs_step_event *events;
    int count;
    size_t room;
    int sent; /* messages sent so far */
    gs_status status;
} worker;

/* ---- chunks ---- */

static int compare_sizes(const void *a, const void *b) {
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

/* Cut the array wherever a message or a part of a sum begins or ends. */
static gs_status find_chunks(gs_step_record *s) {
    size_t room = 1, used = 0, unique = 0;
    for (int i = 0; i < s->count; i++) room += (size_t)s->events[i].count + 1;
    size_t *b;
    GS_TRY(GS_NEW(b, room, "the chunks of a step"));
    for (int i = 0; i < s->count; i++) {
        const gs_step_event *e = &s->events[i];
        for (int p = 0; p < e->count; p++) b[used++] = e->parts[p].first;
        b[used++] = e->parts[e->count - 1].first + e->parts[e->count - 1].count;
    }
    qsort(b, used, sizeof *b, compare_sizes);
    for (size_t i = 0; i < used; i++)
        if (i == 0 || b[i] != b[unique - 1]) b[unique++] = b[i];
    s->bounds = b;
    s->chunks = (int)unique - 1;
    return GS_OK;
}

int gs_step_chunk_at(const gs_step_record *s, size_t element) {
    int c = 0;
    while (s->bounds[c] < element) c++;
    return c;
}

const gs_step_part *gs_step_part_at(const gs_step_event *e, size_t element) {
    int p = 0;
    while (e->parts[p].first + e->parts[p].count <= element) p++;
    return &e->parts[p];
}

/* ---- recording ---- */

/* A value that is not a sum of some 2^r comes from a faulty scheme: return the bits of its integer part, or 0. */
static uint32_t workers_in(float value) {
    return value >= 0 && value < (float)(1 << GS_STEP_WORKERS) ? (uint32_t)value : 0;
}

/* Cut data into runs of equal values, and return the number of runs. parts may be NULL: then they are only counted. */
static int cut(const float *data, size_t first, size_t count, gs_step_part *parts) {
    int n = 0;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && data[i] == data[i - 1]) {
            if (parts) parts[n - 1].count++;
            continue;
        }
        if (parts) parts[n] = (gs_step_part){first + i, 1, workers_in(data[i])};
        n++;
    }
    return n;
}

/* Does nothing once recording an event has failed; w->status then holds the error. */
static void record(worker *w, int round, int from, int to, size_t first, size_t count, const float *data) {
    if (w->status != GS_OK) return;
    gs_step_event e = {.round = round, .from = from, .to = to, .place = w->sent};
    e.count = cut(data, first, count, NULL);
    if (!gs_grow(&w->events, (size_t)w->count, &w->room, sizeof *w->events))
        w->status = gs_fail(GS_E_MEMORY, "no memory to record the messages of one step");
    else
        w->status = GS_NEW(e.parts, e.count, "the parts of a message");
    if (w->status != GS_OK) return;
    cut(data, first, count, e.parts);
    w->events[w->count++] = e;
    w->sent += to >= 0;
}

static void see_message(void *context, const gs_sync_message *m) {
    record(context, m->round, m->from, m->to, m->first, m->count, m->data);
}

static void see_round(void *context, int rank, int round, const float *data, size_t count) {
    record(context, round, rank, -1, 0, count, data);
}

static gs_status work(void *workers, int me, gs_comm **comm) {
    worker *w = (worker *)workers + me;
    const gs_step_record *step = w->step;
    const gs_sync_observer observer = {w, see_message, see_round, NULL};
    GS_TRY(gs_sync_create_wire(step->asked, *comm, gs_step_array(step), &w->sync));
    for (size_t i = 0; i < step->size; i++) w->data[i] = (float)(1 << me);
    record(w, 0, me, -1, 0, step->size, w->data);
    w->sync->observer = &observer; /* cppcheck-suppress autoVariables ; reset below */
    gs_status status = gs_sync_run(w->sync, w->data, step->size);
    w->sync->observer = NULL;
    GS_TRY(status);
    if (w->sync->counted.rounds == 0) record(w, 1, me, -1, 0, step->size, w->data);
    return w->status;
}

/* ---- merging all events into one list ---- */

static int compare_events(const void *a, const void *b) {
    const gs_step_event *x = a, *y = b;
    if (x->round != y->round) return x->round < y->round ? -1 : 1;
    if ((x->to < 0) != (y->to < 0)) return x->to < 0 ? 1 : -1;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    if (x->to != y->to) return x->to < y->to ? -1 : 1;
    size_t i = x->parts[0].first, j = y->parts[0].first;
    return (i > j) - (i < j);
}

static gs_status gather(gs_step_record *step, worker *workers) {
    int count = 0;
    for (int i = 0; i < step->workers; i++) count += workers[i].count;
    GS_TRY(GS_NEW(step->events, count, "the messages of one step"));
    step->scheme = workers[0].sync->scheme;
    snprintf(step->why, sizeof step->why, "%s", workers[0].sync->why);
    step->rounds = (int)workers[0].sync->counted.rounds;
    step->watched = step->rounds > 0;
    step->correct = true;
    for (int i = 0; i < step->workers; i++) {
        worker *w = &workers[i];
        const gs_step_event *last = &w->events[w->count - 1];
        step->correct &= last->count == 1 && last->parts[0].workers == ((uint32_t)1 << step->workers) - 1;
        step->counted[i] = w->sync->counted;
        memcpy(step->events + step->count, w->events, (size_t)w->count * sizeof *w->events);
        step->count += w->count;
        w->count = 0; /* the step owns them now */
    }
    qsort(step->events, (size_t)step->count, sizeof *step->events, compare_events);
    return GS_OK;
}

static gs_status check_wire(const gs_step_record *step) {
    static const int bits[] = {[GS_WIRE_F32] = 24, [GS_WIRE_F16] = 11, [GS_WIRE_BF16] = 8};
    if (step->workers <= bits[step->wire]) return GS_OK;
    return gs_fail(
        GS_E_USAGE,
        "--wire %s keeps %d bits, so the sums of 2^r of %d workers would be rounded; wanted at most "
        "%d workers",
        gs_wire_name(step->wire), bits[step->wire], step->workers, bits[step->wire]);
}

gs_status gs_step_run(gs_step_record *step) {
    worker workers[GS_STEP_WORKERS] = {0};
    int n = step->workers;
    if (n < 1 || n > GS_STEP_WORKERS || step->size < 1)
        gs_bug("gs_step_run: %d workers, %zu floats", n, step->size);
    gs_status status = check_wire(step);
    for (int i = 0; i < n; i++) {
        workers[i].step = step;
        if (status == GS_OK) status = GS_NEW(workers[i].data, step->size, "the arrays of %d workers", n);
    }
    if (status == GS_OK) status = gs_ranks_run(n, GS_TIMEOUT, work, workers);
    if (status == GS_OK) status = gather(step, workers);
    if (status == GS_OK) status = find_chunks(step);
    for (int i = 0; i < n; i++) {
        worker *w = &workers[i];
        for (int k = 0; k < w->count; k++) free(w->events[k].parts);
        free(w->events);
        free(w->data);
        gs_sync_free(w->sync);
    }
    return status;
}

void gs_step_record_free(gs_step_record *step) {
    for (int i = 0; i < step->count; i++) free(step->events[i].parts);
    free(step->events);
    free(step->bounds);
    step->events = NULL;
    step->bounds = NULL;
    step->count = 0;
}

bool gs_step_counts_agree(const gs_step_record *step) {
    for (int r = 0; r < step->workers; r++) {
        gs_sync_cost formula;
        const gs_sync_cost *c = &step->counted[r];
        if (!gs_sync_cost_of(step->scheme, step->workers, r, gs_step_array(step), &formula)) return true;
        if (c->rounds != formula.rounds || c->messages != formula.messages || c->bytes != formula.bytes)
            return false;
    }
    return true;
}
