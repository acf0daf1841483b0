/* --offload activations and weights on a device whose operators work in its own memory alone (cl): copies go to the
 * host's memory, and come back before they are needed, while operators compute (alloc_away in backend.h). They go by
 * the units of layer/memory/away.h, which says when a y is there.
 *
 *     operators   forward 0 | forward 1          | forward 2          | ... | backward 2       | backward 1 | ...
 *     copies      w1        | y0 to the host, w2 | y1 to the host, w3 | ... | w1, y0 come back | w0         | ...
 *
 * Weights lie in two windows, which units take in turns; each is as large as its largest unit. A unit whose weights
 * another one reads too (tied) stays in a window of its own.
 */
#include "train/offload/offload.h"

#include <stdlib.h>

#include "layer/make.h"
#include "layer/memory/away.h"

/* A y that goes away: here, and there. */
typedef struct piece {
    gs_mem here;
    float *there;
    size_t sample; /* floats */
} piece;

typedef struct unit {
    piece *y; /* in the list of all */
    int pieces;
    size_t first, params; /* its weights in the flat array */
    int window;           /* of them */
    bool stays;           /* in that window */
    uint64_t number;      /* of its last copy */
} unit;

struct gs_offload_windows {
    gs_model *model;
    gs_turns turns;
    unit *unit; /* 1 .. units */
    int units;
    piece *piece; /* all */
    int pieces;
    gs_mem *window; /* two, and one for each unit that stays */
    int *holds;     /* which unit's weights: 0: none that are up to date */
    int windows;
    int now; /* the unit whose turn it is */
    bool backward;
    uint64_t last; /* copy */
};

/* ---- copies ---- */

static gs_status bring_weights(gs_offload_windows *o, int i) {
    gs_device *d = o->model->device;
    if (i < 1 || i > o->units || !o->model->weights_in_windows) return GS_OK;
    unit *u = &o->unit[i];
    if (u->params == 0 || o->holds[u->window] == i) return GS_OK;
    o->holds[u->window] = i;
    GS_TRY(d->ops->fetch(d, o->window[u->window], o->model->weights_away + u->first,
                         u->params * sizeof(float), &u->number));
    o->last = u->number;
    return GS_OK;
}

static gs_status move_y(gs_offload_windows *o, int i, size_t samples, bool bring) {
    gs_device *d = o->model->device;
    if (i < 1 || i > o->units) return GS_OK;
    unit *u = &o->unit[i];
    for (int k = 0; k < u->pieces; k++) {
        const piece *y = &u->y[k];
        const size_t numbers = samples * y->sample,
                     bytes = (y->here.half ? (numbers + 1) / 2 : numbers) * sizeof(float);
        if (bring)
            GS_TRY(d->ops->fetch(d, y->here, y->there, bytes, &u->number));
        else
            GS_TRY(d->ops->put_away(d, y->there, y->here, bytes, &u->number));
        o->last = u->number;
    }
    return GS_OK;
}

static gs_status await(gs_offload_windows *o, int i) {
    gs_device *d = o->model->device;
    return i < 1 || i > o->units ? GS_OK : d->ops->await(d, o->unit[i].number);
}

/* ---- turns ---- */

/* Weights may have changed since they were brought. A backward that ended early has left copies on their way. */
static gs_status first_begins(gs_offload_windows *o) {
    gs_device *d = o->model->device;
    GS_TRY(d->ops->await(d, o->last));
    for (int w = 0; w < o->windows; w++) o->holds[w] = 0;
    for (int i = 1; i <= o->units; i++)
        if (i == 1 || o->unit[i].stays) GS_TRY(bring_weights(o, i));
    for (int i = 1; i <= o->units; i++)
        if (o->unit[i].stays) GS_TRY(await(o, i));
    return GS_OK;
}

/* When unit i begins, that of unit i - 1 is made, and that of i - 3 makes room. */
static gs_status begin_forward(gs_offload_windows *o, const gs_pass *pass, int i) {
    if (pass->training) GS_TRY(move_y(o, i - 1, pass->n, false));
    GS_TRY(bring_weights(o, i + 1));
    GS_TRY(await(o, i - 3));
    return await(o, i);
}

static gs_status begin_backward(gs_offload_windows *o, const gs_pass *pass, int i) {
    GS_TRY(bring_weights(o, i - 1));
    GS_TRY(move_y(o, i - 2, pass->n, true));
    GS_TRY(await(o, i));
    return i > 1 && o->unit[i - 1].pieces ? await(o, i - 1) : GS_OK;
}

static gs_status begins(void *context, const gs_pass *pass, int child, bool backward) {
    gs_offload_windows *o = context;
    const int i = o->model->net->child[child]->memory.unit;
    if (!backward && child == 0) o->now = 0;
    if (i == 0 || (i == o->now && backward == o->backward)) return GS_OK;
    if (i == 1 && !backward) GS_TRY(first_begins(o));
    GS_TRY(backward ? begin_backward(o, pass, i) : begin_forward(o, pass, i));
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
    gs_offload_windows *o = context;
    const gs_arena *a = l->root->arena;
    if (l->joined || l->elsewhere || !gs_arena_is_away(a, l->memory.y_place)) return GS_OK;
    o->piece[o->pieces++] =
        (piece){l->y, a->away + a->away_at[l->memory.y_place], gs_shape_size(gs_layer_y_shape(l))};
    return GS_OK;
}

static gs_status is_lent(gs_layer *l, void *found) {
    if (l->lent) *(bool *)found = true;
    return GS_OK;
}

/* Layers lie in the flat array in their order. Those before the first unit have no weights. */
static gs_status look_at_children(gs_offload_windows *o) {
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
        GS_TRY(gs_layer_walk(l, is_lent, &u->stays));
    }
    return GS_OK;
}

/* ---- the windows of weights ---- */

static gs_status make_window(gs_offload_windows *o, size_t floats) {
    return gs_alloc(o->model->device, GS_MEMORY_WEIGHTS, floats * sizeof(float), &o->window[o->windows++]);
}

static gs_status make_windows(gs_offload_windows *o) {
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
    const gs_offload_windows *o = context;
    const gs_layer *child = l;
    for (int c = 0; c < o->model->net->children; c++) /* the last one that begins at it or before it */
        if (o->model->net->child[c]->number <= l->number) child = o->model->net->child[c];
    const unit *u = &o->unit[child->memory.unit];
    for (int i = 0; i < l->params; i++) {
        gs_param *p = &l->param[i];
        if (!p->state) p->w = gs_at(o->window[u->window], p->at - u->first);
    }
    return GS_OK;
}

/* ---- making and freeing ---- */

static gs_status create(gs_offload_windows *o) {
    gs_layer *net = o->model->net;
    const size_t layers = gs_layer_count(net);
    o->units = gs_away_units(net);
    o->unit = calloc((size_t)o->units + 1, sizeof *o->unit);
    o->piece = calloc(layers + 1, sizeof *o->piece);
    o->window = calloc((size_t)o->units + 2, sizeof *o->window);
    o->holds = calloc((size_t)o->units + 2, sizeof *o->holds);
    if (!o->unit || !o->piece || !o->window || !o->holds)
        return gs_fail(GS_E_MEMORY, "--offload: no memory for a list of %zu layers", layers);
    GS_TRY(look_at_children(o));
    if (o->model->weights_in_windows) {
        GS_TRY(make_windows(o));
        GS_TRY(gs_layer_walk(net, bind_weights, o));
    }
    o->turns = (gs_turns){begins, ended, o};
    net->turns = &o->turns;
    return GS_OK;
}

gs_status gs_offload_windows_create(gs_model *m, gs_offload_windows **out) {
    gs_offload_windows *o = *out = calloc(1, sizeof *o);
    if (!o) return gs_fail(GS_E_MEMORY, "--offload: no memory for a list of layers");
    o->model = m;
    return create(o);
}

void gs_offload_windows_free(gs_offload_windows *o) {
    if (!o) return;
    gs_device *d = o->model->device;
    for (int w = 0; w < o->windows; w++) d->ops->free(d, o->window[w]);
    if (o->model->net->turns == &o->turns) o->model->net->turns = NULL;
    free(o->unit);
    free(o->piece);
    free(o->window);
    free(o->holds);
    free(o);
}
