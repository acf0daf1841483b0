/* ZeRO's stages 2 and 3: layers find gradients and weights in windows. While a layer computes, the weights of the next
 * one are gathered, and the gradients of the one before are summed and taken away. */
#include <stdlib.h>

#include "core/clock.h"
#include "core/shard.h"
#include "train/internal.h"
#include "train/timeline/timeline.h"
#include "train/zero/zero.h"

/* ---- the model's arrays become parts and windows ---- */

static gs_status allocate(gs_zero *z, gs_memory_kind kind, size_t floats, gs_mem *out) {
    return gs_alloc(z->worker->device, kind, floats * sizeof(float), out);
}

/* The last `tail` floats are of the layers' state. */
static gs_status allocate_parts(gs_zero *z, gs_memory_kind kind, size_t floats, size_t tail, gs_mem *out) {
    GS_TRY(allocate(z, kind, floats, out));
    gs_ledger_tail(&z->worker->device->memory, out->base, GS_MEMORY_STATE, tail * sizeof(float));
    return GS_OK;
}

static gs_status make_window(gs_zero *z, size_t floats) {
    gs_zero_window *window = &z->window[z->windows++];
    GS_TRY(allocate(z, GS_MEMORY_GRADIENTS, floats, &window->gradients));
    z->held_gradients += floats;
    if (z->stage < 3) return GS_OK;
    z->held_weights += floats;
    return allocate(z, GS_MEMORY_WEIGHTS, floats, &window->weights);
}

/* Units take turns in two windows, each as large as its largest unit; one that stays has its own. */
static gs_status make_windows(gs_zero *z) {
    size_t most[2] = {0, 0};
    int turns = 0;
    z->unit = calloc((size_t)z->own->count, sizeof *z->unit);
    z->window = calloc((size_t)z->own->count + 2, sizeof *z->window);
    if (!z->unit || !z->window) return gs_fail(GS_E_MEMORY, "--zero: no memory for %d units", z->own->count);
    for (int i = 0; i < z->own->count; i++) {
        const gs_held_unit *u = &z->own->unit[i];
        if (u->stays) continue;
        if (u->count > most[turns % 2]) most[turns % 2] = u->count;
        turns++;
    }
    for (int i = 0; i < 2; i++) GS_TRY(make_window(z, most[i]));
    turns = 0;
    for (int i = 0; i < z->own->count; i++) {
        const gs_held_unit *u = &z->own->unit[i];
        z->unit[i].window = &z->window[u->stays ? z->windows : turns++ % 2];
        if (u->stays) GS_TRY(make_window(z, u->count));
    }
    return GS_OK;
}

/* This worker's part of the whole weights, and the layers' state behind it. */
static gs_status copy_own(const gs_zero *z, gs_mem whole, gs_mem to) {
    const gs_model *m = z->worker->model;
    gs_device *d = m->device;
    for (int i = 0; i < z->own->count; i++) {
        const gs_held_unit *u = &z->own->unit[i];
        GS_TRY(d->ops->copy(d, gs_at(to, u->own_at), gs_held_own(z->own, whole, false, u), u->own));
        GS_TRY(d->ops->copy(d, gs_at(to, u->rest_at), gs_held_rest(whole, false, u), u->rest));
    }
    GS_TRY(d->ops->copy(d, gs_at(to, z->own->own + z->own->rest), gs_at(whole, m->params),
                        m->saved - m->params));
    return d->ops->finish(d);
}

static gs_status divide_weights(gs_zero *z) {
    gs_model *m = z->worker->model;
    gs_device *d = m->device;
    const size_t held = z->own->own + z->own->rest, state = m->saved - m->params;
    gs_mem parts;
    GS_TRY(allocate_parts(z, GS_MEMORY_WEIGHTS, held + state, state, &parts));
    const gs_status status = copy_own(z, m->weights, parts);
    d->ops->free(d, status == GS_OK ? m->weights : parts);
    GS_TRY(status);
    z->held_weights += held + state;
    z->own->weights = parts;
    z->own->weights_cut = true;
    m->weights = gs_at(parts, held - m->params); /* the model frees it; size_t counts around its end */
    return GS_OK;
}

static gs_status divide_gradients(gs_zero *z) {
    gs_model *m = z->worker->model;
    const size_t held = z->own->own + z->own->rest;
    z->held_gradients += held + gs_model_tail(m);
    m->device->ops->free(m->device, m->gradients);
    m->gradients = GS_NONE;
    z->own->gradients_cut = true;
    GS_TRY(allocate_parts(z, GS_MEMORY_GRADIENTS, held + gs_model_tail(m), m->saved - m->params,
                          &z->own->gradients));
    m->gradients = gs_at(z->own->gradients, held - m->params);
    return GS_OK;
}

/* ---- the layers find them there ---- */

typedef struct binding {
    const gs_zero *zero;
    const gs_held_unit *unit; /* of the layers that are walked through; NULL: all, for their state */
    const gs_zero_window *window;
} binding;

static gs_status bind_layer(gs_layer *l, void *context) {
    const binding *b = context;
    const gs_model *m = b->zero->worker->model;
    for (int i = 0; i < l->params; i++) {
        gs_param *p = &l->param[i];
        if (p->state != !b->unit) continue;
        p->dw = p->state ? gs_at(m->gradients, p->at) : gs_at(b->window->gradients, p->at - b->unit->first);
        if (b->zero->stage < 3) continue;
        p->w = p->state ? gs_at(m->weights, p->at) : gs_at(b->window->weights, p->at - b->unit->first);
    }
    return GS_OK;
}

static gs_status bind_layers(gs_zero *z) {
    gs_layer *net = z->worker->model->net;
    GS_TRY(gs_layer_walk(net, bind_layer, &(binding){.zero = z}));
    for (int i = 0; i < z->own->count; i++)
        for (int c = z->own->unit[i].begin; c < z->own->unit[i].end; c++)
            GS_TRY(
                gs_layer_walk(net->child[c], bind_layer, &(binding){z, &z->own->unit[i], z->unit[i].window}));
    return GS_OK;
}

static gs_status begins(void *zero, const gs_pass *, int child, bool backward);
static gs_status ended(void *zero, const gs_pass *, int child);

/* The whole arrays, with which a model is made, go one after the other as soon as their parts are kept. */
gs_status gs_zero_divide(gs_zero *z) {
    gs_model *m = z->worker->model;
    GS_TRY(divide_gradients(z));
    if (z->stage > 2) GS_TRY(divide_weights(z));
    GS_TRY(make_windows(z));
    m->gradients_apart = z->held_gradients;
    m->weights_apart = z->stage > 2 ? z->held_weights : 0;
    GS_TRY(bind_layers(z));
    z->turns = (gs_turns){begins, ended, z};
    m->net->turns = &z->turns;
    return GS_OK;
}

void gs_zero_free_windows(gs_zero *z) {
    gs_device *d = z->worker->device;
    for (int i = 0; i < z->windows; i++) {
        d->ops->free(d, z->window[i].gradients);
        d->ops->free(d, z->window[i].weights);
    }
    free(z->window);
    free(z->unit);
}

/* ---- weights come ---- */

static int number_of(const gs_zero *z, const gs_zero_window *window) {
    return (int)(window - z->window);
}

/* For the timeline: a window has held a unit since `since`. */
static void show_window(gs_zero *z, gs_span_kind kind, int first_row, int window, int unit, double since) {
    const gs_held_unit *u = &z->own->unit[unit];
    if (window >= GS_WINDOW_ROWS || since <= 0) return;
    gs_timeline_span(z->worker, &(gs_span){.start = since,
                                           .end = gs_seconds(),
                                           .bytes = u->count * sizeof(float),
                                           .first = u->first,
                                           .count = u->count,
                                           .row = first_row + window,
                                           .kind = (int32_t)kind,
                                           .index = unit});
}

/* The weights that a window had until now are let go. */
static void let_go(gs_zero *z, gs_zero_window *window) {
    show_window(z, GS_SPAN_UNIT_WEIGHTS, GS_ROW_WEIGHTS, number_of(z, window), window->holds,
                window->weights_since);
    window->weights_since = 0;
}

void gs_zero_show_summed(gs_zero *z, int unit) {
    const gs_zero_window *window = z->unit[unit].window;
    show_window(z, GS_SPAN_UNIT_GRADIENTS, GS_ROW_GRADIENTS, number_of(z, window), unit,
                window->gradients_since);
}

static gs_status ask_for(gs_zero *z, int unit, const gs_pass *pass) {
    gs_zero_unit *u = &z->unit[unit];
    if (u->there) return GS_OK;
    u->there = true;
    let_go(z, u->window);
    u->window->weights_since = gs_seconds();
    u->window->holds = unit;
    const gs_job job = {
        .run = gs_zero_run, .context = z, .what = GS_ZERO_GATHER, .unit = unit, .counted = pass->training};
    return gs_jobs_give(z->jobs, job, &u->gathering);
}

static gs_status need(gs_zero *z, int unit, const gs_pass *pass) {
    GS_TRY(ask_for(z, unit, pass));
    return gs_jobs_wait(z->jobs, z->unit[unit].gathering);
}

/* The weights of a unit; and those of the next one are asked for, into the other window, whose unit is done. */
static gs_status bring_weights(gs_zero *z, int unit, const gs_pass *pass, bool backward) {
    const int next = backward ? unit - 1 : unit + 1;
    if (z->stage < 3) return GS_OK;
    GS_TRY(need(z, unit, pass));
    return next >= 0 && next < z->own->count ? ask_for(z, next, pass) : GS_OK;
}

/* ---- gradients go ---- */

/* Wait until the gradients that were in the window before are read. A pass that adds to gradients adds to 0: earlier
 * sums are kept apart. */
static gs_status make_room(gs_zero *z, int unit, const gs_pass *pass) {
    gs_zero_window *window = z->unit[unit].window;
    gs_device *d = z->worker->device;
    GS_TRY(gs_jobs_wait(z->jobs, window->reading));
    window->gradients_since = gs_seconds();
    return pass->fresh ? GS_OK : d->ops->fill(d, window->gradients, 0, z->own->unit[unit].count);
}

static gs_status take_gradients(gs_zero *z, int unit) {
    const bool exact = z->worker->settings->exact;
    const gs_job job = {.run = gs_zero_run,
                        .context = z,
                        .what = GS_ZERO_REDUCE,
                        .unit = unit,
                        .part = z->leaf,
                        .first = exact || z->passes == 0,
                        .last = z->leaf + 1 == gs_order_leaves(&z->worker->order)};
    if (unit == 0) z->passes++;
    return gs_jobs_give(z->jobs, job, &z->unit[unit].window->reading);
}

/* ---- the turns of layers ---- */

/* The unit that a pass enters with this layer; -1: none. Backward goes from its last layer to its first. */
static int unit_entered(const gs_zero *z, int child, bool backward) {
    for (int i = 0; i < z->own->count; i++)
        if (child == (backward ? z->own->unit[i].end - 1 : z->own->unit[i].begin)) return i;
    return -1;
}

/* At the beginning of forward and of backward no weights are there; then those that stay come first in backward,
 * because the layer that borrows them is the first to use them. */
static gs_status begin_pass(gs_zero *z, const gs_pass *pass, bool backward) {
    for (int i = 0; i < z->own->count; i++) z->unit[i].there = false;
    for (int i = 0; i < z->windows; i++) let_go(z, &z->window[i]);
    for (int i = 0; i < z->own->count && backward; i++) {
        if (!z->own->unit[i].stays) continue;
        if (z->stage > 2) GS_TRY(need(z, i, pass));
        GS_TRY(make_room(z, i, pass));
    }
    return GS_OK;
}

static gs_status begins(void *zero, const gs_pass *pass, int child, bool backward) {
    gs_zero *z = zero;
    const int unit = unit_entered(z, child, backward);
    if (child == (backward ? z->worker->model->net->children - 1 : 0)) GS_TRY(begin_pass(z, pass, backward));
    if (unit < 0) return GS_OK;
    GS_TRY(bring_weights(z, unit, pass, backward));
    return backward && !z->own->unit[unit].stays ? make_room(z, unit, pass) : GS_OK;
}

static gs_status ended(void *zero, const gs_pass *pass, int child) {
    gs_zero *z = zero;
    const int unit = unit_entered(z, child, false);
    (void)pass;
    return unit < 0 ? GS_OK : take_gradients(z, unit);
}

/* ---- passes ---- */

static gs_status attend_pass(gs_zero *z, const gs_pass *pass) {
    const int children = z->worker->model->net->children;
    for (int i = 0; i < children; i++) GS_TRY(begins(z, pass, i, false));
    for (int i = children - 1; i >= 0 && pass->training; i--) {
        GS_TRY(begins(z, pass, i, true));
        GS_TRY(ended(z, pass, i));
    }
    return GS_OK;
}

gs_status gs_zero_attend_forward(gs_zero *z) {
    return attend_pass(z, &(gs_pass){.training = false});
}

/* Passes of the worker with the largest part of this batch, which is the first one. */
static int most_passes(const gs_worker *w) {
    const gs_schedule *s = &w->schedule;
    const size_t part = gs_schedule_cut(w->piece.batch, 0, s->parts, s->together).count;
    size_t passes = 0;
    for (int i = 0; i < s->passes; i++)
        passes += (gs_schedule_cut(part, i, s->passes, s->together).count + s->most - 1) / s->most;
    return (int)passes;
}

/* A model without weights has no units, so nothing is summed and nobody waits. */
gs_status gs_zero_attend(gs_zero *z) {
    z->most += most_passes(z->worker);
    while (z->own->count > 0 && z->passes < z->most) GS_TRY(attend_pass(z, &(gs_pass){.training = true}));
    for (int i = 0; i < z->windows; i++) let_go(z, &z->window[i]);
    return GS_OK;
}
