/* Memory on a timeline: what is allocated, by the ledger, and which activations are needed.
 *
 * y and dx lie in an arena, which is allocated before the first step (memory/arena.h). So the ledger's number stays the
 * same through a step, and what a picture should show is who lives there: y from its forward on, dx from its backward,
 * both until the last layer that reads them has done its backward (layer/memory/dx_places.h).
 */
#include <stdlib.h>
#include <string.h>

#include "layer/memory/dx_places.h"
#include "train/timeline/timeline_rows.h"

gs_status gs_timeline_memory_create(gs_timeline_memory *m, const gs_model *model) {
    const gs_arena *a = model->net->arena;
    *m = (gs_timeline_memory){0};
    if (!a) return GS_OK; /* its stage has the layers */
    m->there = calloc(a->lives.count + 1, sizeof *m->there);
    return m->there ? GS_OK : gs_fail(GS_E_MEMORY, "no memory for a list of %zu buffers", a->lives.count);
}

void gs_timeline_memory_free(gs_timeline_memory *m) {
    free(m->there);
    free(m->sample);
    *m = (gs_timeline_memory){0};
}

static bool overlap(const gs_arena *a, int i, int k) {
    const gs_life *x = &a->lives.life[i], *y = &a->lives.life[k];
    if (gs_arena_is_away(a, i) || gs_arena_is_away(a, k)) return false;
    return x->at < y->at + y->floats && y->at < x->at + x->floats;
}

/* What lay there is overwritten. */
static void now_holds(gs_timeline_memory *m, const gs_arena *a, int place) {
    if (place < 0) return;
    for (int i = 0; i < (int)a->lives.count; i++)
        if (i != place && m->there[i] && overlap(a, i, place)) m->there[i] = false;
    m->there[place] = true;
}

static double needed(const gs_timeline_memory *m, const gs_model *model, size_t n) {
    const gs_arena *a = model->net->arena;
    double floats = 0;
    for (size_t i = 0; a && i < a->lives.count; i++)
        if (m->there[i] && !gs_arena_is_away(a, (int)i)) floats += (double)a->lives.life[i].floats;
    if (model->max_batch == 0) return m->stages; /* a stage's layers are in models of their own */
    return m->stages + floats * sizeof(float) * (double)n / (double)model->max_batch;
}

void gs_timeline_memory_begins(gs_timeline_memory *m, const gs_layer *l, gs_direction direction) {
    if (l == l->root && direction == GS_FORWARD && m->there)
        memset(m->there, 0, l->arena->lives.count * sizeof *m->there);
}

/* After backward of a layer: what none of those before it reads. */
static void forget(gs_timeline_memory *m, const gs_arena *a, const gs_layer *l) {
    for (size_t i = 0; i < a->lives.count; i++)
        if (a->lives.life[i].dies <= l->memory.backward_step || l == l->root) m->there[i] = false;
}

void gs_timeline_memory_sample(gs_timeline_memory *m, const gs_worker *w, double at, uint64_t step, size_t n,
                               const gs_layer *l, gs_direction direction) {
    const gs_arena *a = w->model->net->arena;
    if (l && a) now_holds(m, a, direction == GS_FORWARD ? l->memory.y_place : l->memory.dx_place);
    if (!gs_grow(&m->sample, m->count, &m->room, sizeof *m->sample)) {
        m->lost++;
        return;
    }
    gs_memory_sample *s = &m->sample[m->count++];
    memset(s, 0, sizeof *s); /* padding too: the whole struct travels */
    s->at = at;
    s->step = step;
    gs_ledger_now(&w->device->memory, GS_ON_DEVICE, &s->use);
    gs_memory_use host;
    gs_ledger_now(&w->device->memory, GS_ON_HOST, &host);
    for (int k = 0; k < GS_MEMORY_KINDS; k++) s->use.bytes[k] += host.bytes[k];
    s->needed = needed(m, w->model, n ? n : w->piece.n);
    const double most = s->use.bytes[GS_MEMORY_ACTIVATIONS];
    if (s->needed > most) s->needed = most;
    if (l && a && direction == GS_BACKWARD) forget(m, a, l);
}
