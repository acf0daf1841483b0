/* ZeRO's stages 2 and 3: layers find gradients and weights in windows. While a layer computes, the weights of the next
 * one are gathered, and the gradients of the one before are summed and taken away. */
#include <stdlib.h>

#include "core/clock.h"
#include "core/shard.h"
#include "train/internal.h"
#include "train/timeline/timeline.h"
#include "train/zero/zero.h"

/* ---- windows ---- */

static gs_status allocate(gs_zero *z, gs_memory_kind kind, size_t floats, gs_mem *out) {
    return gs_alloc(z->worker->device, kind, floats * sizeof(float), out);
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
        gs_held_unit *u = &z->own->unit[i];
        gs_zero_window *window = z->unit[i].window = &z->window[u->stays ? z->windows : turns++ % 2];
        if (u->stays) GS_TRY(make_window(z, u->count));
        u->gradients = window->gradients;
        if (z->stage > 2) u->weights = window->weights;
    }
    return GS_OK;
}

static gs_status begins(void *, const gs_pass *, int child, bool backward);
static gs_status ended(void *, const gs_pass *, int child);

gs_status gs_zero_make_windows(gs_zero *z) {
    gs_model *m = z->worker->model;
    GS_TRY(make_windows(z));
    m->gradients_apart = z->held_gradients;
    if (z->stage > 2) m->weights_apart = z->held_weights;
    z->turns = (gs_turns){.begins = begins, .ended = ended, .context = z};
    gs_layer_add_turns(m->net, &z->turns);
    return gs_has_stages(z->worker) ? GS_OK : gs_holding_bind(z->own, m->net);
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
    const gs_held_unit *u = z->own->unit;
    const int next = backward ? unit - 1 : unit + 1;
    if (z->stage < 3) return GS_OK;
    GS_TRY(need(z, unit, pass));
    return next >= 0 && next < z->own->count && u[next].run == u[unit].run ? ask_for(z, next, pass) : GS_OK;
}

/* ---- gradients go ---- */

/* Wait until the gradients that were in the window before are read. A pass that adds to gradients adds to 0: earlier
 * sums are kept apart. */
static gs_status make_room(gs_zero *z, int unit, const gs_pass *pass) {
    gs_zero_window *window = z->unit[unit].window;
    gs_device *d = z->worker->device;
    if (gs_zero_adds_up(z, unit) && (pass->fresh || z->unit[unit].passes > 0)) return GS_OK;
    GS_TRY(gs_jobs_wait(z->jobs, window->reading));
    window->gradients_since = gs_seconds();
    return pass->fresh ? GS_OK : d->ops->fill(d, window->gradients, 0, z->own->unit[unit].count);
}

static gs_status take_gradients(gs_zero *z, int unit) {
    const bool exact = z->worker->settings->exact; /* each pass is a leaf */
    const int pass = z->unit[unit].passes++;
    const gs_job job = {.run = gs_zero_run,
                        .context = z,
                        .what = GS_ZERO_REDUCE,
                        .unit = unit,
                        .part = exact ? pass : 0,
                        .first = exact || pass == 0,
                        .last = !exact || pass + 1 == gs_order_leaves(&z->worker->order)};
    if (gs_zero_adds_up(z, unit)) return GS_OK;
    return gs_jobs_give(z->jobs, job, &z->unit[unit].window->reading);
}

/* ---- the turns of layers ---- */

/* The unit that a pass enters with this layer; -1: none. Backward goes from its last layer to its first. */
static int unit_entered(const gs_zero *z, int child, bool backward) {
    for (int i = 0; i < z->own->count; i++)
        if (child == (backward ? z->own->unit[i].end - 1 : z->own->unit[i].begin)) return i;
    return -1;
}

/* Does a pass through one of this worker's runs of layers begin with this one? */
static bool begins_run(const gs_zero *z, int child, bool backward) {
    bool found = false;
    for (int i = 0; i < z->own->states; i++)
        found |= child == (backward ? z->own->state[i].end - 1 : z->own->state[i].begin);
    return found;
}

/* At the beginning of forward and of backward no weights are there; then those that stay come first in backward,
 * because the layer that borrows them is the first to use them. (In a pipeline that is in another stage.) */
static gs_status begin_pass(gs_zero *z, const gs_pass *pass, bool backward) {
    for (int i = 0; i < z->own->count; i++) z->unit[i].there = false;
    for (int i = 0; i < z->windows; i++) let_go(z, &z->window[i]);
    for (int i = 0; i < z->own->count && backward && !gs_has_stages(z->worker); i++) {
        if (!z->own->unit[i].stays) continue;
        if (z->stage > 2) GS_TRY(need(z, i, pass));
        GS_TRY(make_room(z, i, pass));
    }
    return GS_OK;
}

static gs_status begins(void *zero, const gs_pass *pass, int child, bool backward) {
    gs_zero *z = zero;
    const int unit = unit_entered(z, child, backward);
    const bool had_room = !backward || (unit >= 0 && z->own->unit[unit].stays && !gs_has_stages(z->worker));
    if (begins_run(z, child, backward)) GS_TRY(begin_pass(z, pass, backward));
    if (unit < 0) return GS_OK;
    GS_TRY(bring_weights(z, unit, pass, backward));
    return had_room ? GS_OK : make_room(z, unit, pass);
}

static gs_status ended(void *zero, const gs_pass *pass, int child) {
    gs_zero *z = zero;
    const int unit = unit_entered(z, child, false);
    (void)pass;
    return unit < 0 ? GS_OK : take_gradients(z, unit);
}

/* ---- passes ---- */

gs_status gs_zero_attend(gs_zero *z, int run, const gs_pass *pass, bool backward) {
    const gs_held_state *r = &z->own->state[run];
    for (int i = r->begin; i < r->end && !backward; i++) GS_TRY(begins(z, pass, i, false));
    for (int i = r->end - 1; i >= r->begin && backward; i--) {
        GS_TRY(begins(z, pass, i, true));
        GS_TRY(ended(z, pass, i));
    }
    return GS_OK;
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
gs_status gs_zero_attend_leaf(gs_zero *z) {
    const gs_pass pass = {.training = true};
    z->most += most_passes(z->worker);
    while (z->own->count > 0 && z->unit[0].passes < z->most) {
        GS_TRY(gs_zero_attend(z, 0, &pass, false));
        GS_TRY(gs_zero_attend(z, 0, &pass, true));
    }
    for (int i = 0; i < z->windows; i++) let_go(z, &z->window[i]);
    return GS_OK;
}
