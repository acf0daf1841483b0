#include <stdlib.h>

#include "layer/memory/away.h"
#include "train/offload/offload.h"

/* Bytes of a file that is mapped. */
typedef struct span {
    char *begin;
    size_t bytes;
} span;

/* What layers of the outermost sequence put away, and when it was asked for last. */
typedef struct unit {
    span y, weights, table; /* the table is another layer's, which is tied to it */
    uint64_t number;
} unit;

typedef struct gs_offload_layers {
    gs_model *model;
    gs_turns turns;
    unit *unit;
    int units;
    int *unit_of; /* of each child; one that has nothing goes with the one before it; -1: there is none */
    int now;      /* the unit whose turn it is */
    bool backward;
    gs_offload_windows *windows; /* where operators cannot work in the file: all of the above is unused */
} gs_offload_layers;

/* ---- hints ---- */

static gs_status bring(gs_offload_layers *o, int i) {
    gs_device *d = o->model->device;
    const gs_mem none = GS_NONE;
    if (i < 0 || i >= o->units) return GS_OK;
    unit *u = &o->unit[i];
    if (u->table.bytes) GS_TRY(d->ops->fetch(d, none, u->table.begin, u->table.bytes, &u->number));
    if (u->weights.bytes) GS_TRY(d->ops->fetch(d, none, u->weights.begin, u->weights.bytes, &u->number));
    if (u->y.bytes) GS_TRY(d->ops->fetch(d, none, u->y.begin, u->y.bytes, &u->number));
    return GS_OK;
}

static gs_status put_away(gs_offload_layers *o, int i) {
    gs_device *d = o->model->device;
    const gs_mem none = GS_NONE;
    if (i < 0 || i >= o->units) return GS_OK;
    const unit *u = &o->unit[i];
    if (u->table.bytes) GS_TRY(d->ops->put_away(d, u->table.begin, none, u->table.bytes, NULL));
    if (u->weights.bytes) GS_TRY(d->ops->put_away(d, u->weights.begin, none, u->weights.bytes, NULL));
    return u->y.bytes ? d->ops->put_away(d, u->y.begin, none, u->y.bytes, NULL) : GS_OK;
}

static gs_status await(gs_offload_layers *o, int i) {
    gs_device *d = o->model->device;
    return i < 0 ? GS_OK : d->ops->await(d, o->unit[i].number);
}

/* A unit reads the y of the one before it. What an inference has left at the end goes when the first one begins. */
static gs_status begins(void *context, const gs_pass *pass, int child, bool backward) {
    gs_offload_layers *o = context;
    const int i = o->unit_of[child], step = backward ? -1 : 1;
    (void)pass;
    if (i < 0 || (i == o->now && backward == o->backward)) return GS_OK;
    if (i == 0 && !backward)
        for (int k = o->units - 1; k > 1 && k > o->units - 3; k--) GS_TRY(put_away(o, k));
    GS_TRY(put_away(o, backward ? i + 1 : i - 2));
    if (i == 0 && !backward) GS_TRY(bring(o, 0)); /* the others come ahead */
    GS_TRY(bring(o, backward ? i - 2 : i + 1));
    GS_TRY(await(o, i));
    if (backward) GS_TRY(await(o, i + step));
    o->now = i;
    o->backward = backward;
    return GS_OK;
}

static gs_status ended(void *context, const gs_pass *pass, int child) {
    (void)context, (void)pass, (void)child;
    return GS_OK;
}

/* ---- who has what ---- */

static gs_status add_y(gs_layer *l, void *context) {
    const gs_arena *a = l->arena ? l->arena : l->root->arena;
    span *y = context;
    if (l->joined || l->elsewhere || !gs_arena_is_away(a, l->memory.y_place)) return GS_OK;
    char *begin = (char *)(a->away + a->away_at[l->memory.y_place]);
    if (!y->begin) y->begin = begin; /* the layers of a child lie one after the other */
    y->bytes = (size_t)(begin - y->begin) + a->away_floats[l->memory.y_place] * sizeof(float);
    return GS_OK;
}

static gs_status add_table(gs_layer *l, void *context) {
    if (l->borrowed) *(const gs_param **)context = l->borrowed;
    return GS_OK;
}

/* Children child .. end - 1: one, or a segment, whose forward runs again before its backward (memory/recompute.h). */
static gs_status look_at(gs_offload_layers *o, int child, int end) {
    gs_model *m = o->model;
    gs_layer *const *l = m->net->child;
    unit u = {{NULL, 0}, {NULL, 0}, {NULL, 0}, 0};
    const gs_param *table = NULL;
    const size_t at = l[child]->at, behind = end < m->net->children ? l[end]->at : m->params;
    for (int i = child; i < end && m->net->arena->away; i++) GS_TRY(gs_layer_walk(l[i], add_y, &u.y));
    for (int i = child; i < end && m->weights_away; i++) GS_TRY(gs_layer_walk(l[i], add_table, &table));
    if (table) u.table = (span){(char *)(m->weights_away + table->at), table->count * sizeof(float)};
    if (m->weights_away) u.weights = (span){(char *)(m->weights_away + at), (behind - at) * sizeof(float)};
    if (u.y.bytes + u.weights.bytes + u.table.bytes > 0) o->unit[o->units++] = u;
    for (int i = child; i < end; i++) o->unit_of[i] = o->units - 1;
    return GS_OK;
}

static int end_of_unit(const gs_layer *net, int child) {
    int end = child + 1;
    while (net->child[child]->memory.segment && end < net->children &&
           net->child[end]->memory.segment == net->child[child]->memory.segment)
        end++;
    return end;
}

static gs_status create(gs_offload_layers *o) {
    const size_t children = (size_t)o->model->net->children;
    o->unit = calloc(children + 1, sizeof *o->unit);
    o->unit_of = calloc(children + 1, sizeof *o->unit_of);
    if (!o->unit || !o->unit_of)
        return gs_fail(GS_E_MEMORY, "--offload: no memory for a list of %zu layers", children);
    for (int i = 0, end; i < o->model->net->children; i = end) {
        end = end_of_unit(o->model->net, i);
        GS_TRY(look_at(o, i, end));
    }
    o->model->net->turns = &o->turns;
    return GS_OK;
}

gs_status gs_offload_layers_create(gs_model *m, gs_offload_layers **out) {
    *out = NULL;
    if (!(m->device->offload & (GS_OFFLOAD_ACTIVATIONS | GS_OFFLOAD_WEIGHTS))) return GS_OK;
    gs_offload_layers *o = *out = calloc(1, sizeof *o);
    if (!o) return gs_fail(GS_E_MEMORY, "--offload: no memory for a list of layers");
    o->model = m;
    if (!m->device->ops->host_memory) return gs_offload_windows_create(m, &o->windows);
    o->now = -1;
    o->turns = (gs_turns){begins, ended, o};
    return create(o);
}

void gs_offload_layers_free(gs_offload_layers *o) {
    if (!o) return;
    gs_offload_windows_free(o->windows);
    if (o->model->net->turns == &o->turns) o->model->net->turns = NULL;
    free(o->unit);
    free(o->unit_of);
    free(o);
}
