#include "model/offload.h"

#include <stdlib.h>
#include "layer/make.h"
#include "layer/memory/offload.h"
#include "layer/watch.h"

/* An offloaded output: its copies on the device and elsewhere. */
typedef struct piece {
    gs_mem here;
    float *there;
    size_t sample, whole; /* floats in a sample; floats in all samples, rounded up to whole pages */
} piece;

typedef struct unit {
    piece *y; /* its outputs, in the list of all pieces */
    int pieces;
    size_t first, params;  /* the range of its weights in the flat array */
    const gs_param *table; /* another unit's table, to which this unit is tied */
    int window;            /* the window for its weights */
    bool stays;            /* always in its window */
    uint64_t number;       /* identifies its last copy */
} unit;

typedef struct gs_model_offload {
    gs_model *model;
    gs_layer_hooks hooks;
    unit *unit; /* 1 .. units */
    int units;
    piece *piece; /* all pieces */
    int pieces;
    gs_mem *window; /* two, plus one for each unit that stays; GS_NONE if operators work in place */
    int *holds;     /* the unit whose weights a window holds; 0: none, or outdated ones */
    int windows;
    int now; /* the unit that is computing */
    bool backward;
    uint64_t last; /* the last copy */
} gs_model_offload;

static bool works_in_place(const gs_model_offload *o) {
    return o->model->device->ops->host_memory;
}

/* ---- copies ---- */

static gs_status move(gs_model_offload *o, unit *u, gs_mem here, float *there, size_t bytes, bool fetch) {
    gs_device *d = o->model->device;
    GS_TRY(fetch ? d->ops->fetch(d, here, there, bytes, &u->number)
                 : d->ops->offload(d, there, here, bytes, &u->number));
    o->last = u->number;
    return GS_OK;
}

static bool is_unit(const gs_model_offload *o, int i) {
    return i >= 1 && i <= o->units;
}

static gs_status move_weights(gs_model_offload *o, int i, bool fetch) {
    float *weights = o->model->offloaded_weights;
    if (!is_unit(o, i) || !weights) return GS_OK;
    unit *u = &o->unit[i];
    if (u->table && works_in_place(o)) /* otherwise the table is always in a window */
        GS_TRY(move(o, u, (gs_mem)GS_NONE, weights + u->table->at, u->table->count * sizeof(float), fetch));
    if (u->params == 0) return GS_OK;
    return move(o, u, o->window[u->window], weights + u->first, u->params * sizeof(float), fetch);
}

static gs_status move_y(gs_model_offload *o, int i, size_t samples, bool fetch) {
    unit *u = &o->unit[is_unit(o, i) ? i : 0]; /* unit 0 has no outputs */
    for (int k = 0; k < u->pieces; k++) {
        const piece *y = &u->y[k];
        const size_t floats = works_in_place(o) ? y->whole
                              : y->here.half    ? (samples * y->sample + 1) / 2
                                                : samples * y->sample;
        GS_TRY(move(o, u, y->here, y->there, floats * sizeof(float), fetch));
    }
    return GS_OK;
}

static gs_status await(gs_model_offload *o, int i) {
    gs_device *d = o->model->device;
    return is_unit(o, i) ? d->ops->await(d, o->unit[i].number) : GS_OK;
}

/* ---- operators that work in place ---- */

static gs_status hint(gs_model_offload *o, int i, bool fetch) {
    GS_TRY(move_weights(o, i, fetch));
    return move_y(o, i, 0, fetch);
}

/* A unit reads the previous unit's y. Units that an inference left in memory are offloaded when unit 1 begins. */
static gs_status begin_in_place(gs_model_offload *o, int i, bool backward) {
    const bool first = i == 1 && !backward;
    for (int k = o->units; first && k > 2 && k > o->units - 2; k--) GS_TRY(hint(o, k, false));
    GS_TRY(hint(o, backward ? i + 1 : i - 2, false));
    if (first) GS_TRY(hint(o, 1, true)); /* the other units are fetched ahead */
    GS_TRY(hint(o, backward ? i - 2 : i + 1, true));
    GS_TRY(await(o, i));
    return backward ? await(o, i - 1) : GS_OK;
}

/* ---- operators that need copies ---- */

static gs_status fetch_weights(gs_model_offload *o, int i) {
    if (!is_unit(o, i) || !o->model->weights_in_windows) return GS_OK;
    const unit *u = &o->unit[i];
    if (u->params == 0 || o->holds[u->window] == i) return GS_OK;
    o->holds[u->window] = i;
    return move_weights(o, i, true);
}

/* Weights may have changed since their fetch, and a backward that ended early may have left copies in progress. */
static gs_status first_begins(gs_model_offload *o) {
    gs_device *d = o->model->device;
    GS_TRY(d->ops->await(d, o->last));
    for (int w = 0; w < o->windows; w++) o->holds[w] = 0;
    for (int i = 1; i <= o->units; i++)
        if (i == 1 || o->unit[i].stays) GS_TRY(fetch_weights(o, i));
    for (int i = 1; i <= o->units; i++)
        if (o->unit[i].stays) GS_TRY(await(o, i));
    return GS_OK;
}

/* When unit i begins, the output of unit i - 1 is complete, and the output of unit i - 3 must have been moved out. */
static gs_status begin_forward(gs_model_offload *o, const gs_pass *pass, int i) {
    if (i == 1) GS_TRY(first_begins(o));
    if (pass->training) GS_TRY(move_y(o, i - 1, pass->n, false));
    GS_TRY(fetch_weights(o, i + 1));
    GS_TRY(await(o, i - 3));
    return await(o, i);
}

static gs_status begin_backward(gs_model_offload *o, const gs_pass *pass, int i) {
    GS_TRY(fetch_weights(o, i - 1));
    GS_TRY(move_y(o, i - 2, pass->n, true));
    GS_TRY(await(o, i));
    return i > 1 && o->unit[i - 1].pieces ? await(o, i - 1) : GS_OK;
}

/* Hook: a layer begins. The stage's first layer begins a new pass. */
static gs_status begins(void *context, const gs_pass *pass, int child, bool backward) {
    gs_model_offload *o = context;
    gs_layer *const *l = o->model->net->child;
    const int i = l[child]->memory.unit;
    if (!backward && (child == 0 || l[child - 1]->other_stage)) o->now = 0;
    if (i == 0 || (i == o->now && backward == o->backward)) return GS_OK;
    o->now = i;
    o->backward = backward;
    if (works_in_place(o)) return begin_in_place(o, i, backward);
    return backward ? begin_backward(o, pass, i) : begin_forward(o, pass, i);
}

/* ---- units and their data ---- */

static gs_status add_y(gs_layer *l, void *context) {
    gs_model_offload *o = context;
    const gs_arena *a = l->root->arena;
    const int buffer = l->memory.y_buffer;
    if (l->fused || l->other_stage || !gs_arena_is_offloaded(a, buffer)) return GS_OK;
    o->piece[o->pieces++] = (piece){l->y, a->offloaded + a->offloaded_at[buffer],
                                    gs_shape_size(gs_layer_y_shape(l)), a->offloaded_floats[buffer]};
    return GS_OK;
}

static gs_status look_for_table(gs_layer *l, void *context) {
    unit *u = context;
    if (l->lent) u->stays = true;
    if (l->borrowed) u->table = l->borrowed;
    return GS_OK;
}

/* Find each unit's data. The flat array is in the order of the layers. Layers before the first unit have no weights. */
static gs_status look_at_children(gs_model_offload *o) {
    gs_layer *net = o->model->net;
    for (int c = 0; c < net->children; c++) {
        gs_layer *l = net->child[c];
        unit *u = &o->unit[l->memory.unit];
        const size_t end = c + 1 < net->children ? net->child[c + 1]->at : o->model->params;
        if (l->memory.unit == 0) continue;
        if (c == 0 || net->child[c - 1]->memory.unit != l->memory.unit)
            *u = (unit){.y = o->piece + o->pieces, .first = l->at};
        const int before = o->pieces;
        GS_TRY(gs_layer_walk(l, add_y, o));
        u->pieces += o->pieces - before;
        u->params = end - u->first;
        GS_TRY(gs_layer_walk(l, look_for_table, u));
    }
    return GS_OK;
}

/* ---- windows for weights ---- */

static gs_status make_window(gs_model_offload *o, size_t floats) {
    return gs_alloc(o->model->device, GS_MEMORY_WEIGHTS, floats * sizeof(float), &o->window[o->windows++]);
}

static gs_status make_windows(gs_model_offload *o) {
    size_t most[2] = {0, 0};
    int turns = 0;
    for (int i = 1; i <= o->units; i++) {
        unit *u = &o->unit[i];
        if (u->stays || u->params == 0) continue;
        u->window = turns++ % 2;
        if (u->params > most[u->window]) most[u->window] = u->params;
    }
    for (int w = 0; w < 2; w++) GS_TRY(make_window(o, most[w]));
    for (int i = 1; i <= o->units; i++) {
        unit *u = &o->unit[i];
        if (!u->stays) continue;
        u->window = o->windows;
        GS_TRY(make_window(o, u->params));
    }
    return GS_OK;
}

static gs_status bind_weights(gs_layer *l, void *context) {
    const gs_model_offload *o = context;
    const gs_layer *child = l;
    for (int c = 0; c < o->model->net->children; c++) /* the last child that begins at or before l */
        if (o->model->net->child[c]->number <= l->number) child = o->model->net->child[c];
    const unit *u = &o->unit[child->memory.unit];
    for (int i = 0; i < l->params; i++) {
        gs_param *p = &l->param[i];
        if (!p->state) p->w = gs_at(o->window[u->window], p->at - u->first);
    }
    return GS_OK;
}

/* ---- creating and freeing ---- */

gs_status gs_model_offload_create(gs_model *m) {
    gs_layer *net = m->net;
    if (!m->offloaded_weights && !net->arena->offloaded) return GS_OK;
    GS_TRY(GS_NEW(m->offload, 1, "a list of layers (--offload)"));
    gs_model_offload *o = m->offload;
    const size_t layers = gs_layer_count(net);
    *o = (gs_model_offload){
        .model = m, .hooks = {.begins = begins, .context = o}, .units = gs_offload_units(net)};
    GS_TRY(GS_NEW(o->unit, o->units, "a list of %d units (--offload)", o->units));
    GS_TRY(GS_NEW(o->piece, layers, "a list of %zu layers (--offload)", layers));
    GS_TRY(GS_NEW(o->window, o->units + 1, "a list of %d units (--offload)", o->units));
    GS_TRY(GS_NEW(o->holds, o->units + 1, "a list of %d units (--offload)", o->units));
    GS_TRY(look_at_children(o));
    if (m->weights_in_windows) {
        GS_TRY(make_windows(o));
        GS_TRY(gs_layer_walk(net, bind_weights, o));
    }
    gs_layer_add_hooks(net, &o->hooks);
    return GS_OK;
}

void gs_model_offload_free(gs_model *m) {
    gs_model_offload *o = m->offload;
    if (!o) return;
    for (int w = 0; w < o->windows; w++) m->device->ops->free(m->device, o->window[w]);
    free(o->unit);
    free(o->piece);
    free(o->window);
    free(o->holds);
    free(o);
}
