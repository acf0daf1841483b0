/* A step of --zero in virtual time: zero/zero.c, and for stages 2 and 3 zero/zero_windows.c, whose collectives are made
 * by a thread of their own while the worker computes, where training would have one (gs_zero_would_have_thread): with
 * tp or on OpenCL it has none, and each is made when it is asked for. */
#include <math.h>

#include "train/simulate/scripts.h"
#include "train/zero/zero.h"

/* The marks that the two threads leave for each other: the weights of window 0, of window 1 and of all units that stay
 * have come; and from READ on the same windows' gradients have been read. */
enum { ALONE = 2, READ = 4, UNITS = 1024 /* at most */ };

typedef struct zero {
    gs_scripts *scripts;
    const gs_sim_step *step;
    int stage;
    bool thread; /* beside each worker, for its collectives */
    gs_holding units;
    /* of the rank at hand */
    gs_sim_group beside;
    int rank, place;                    /* place: in beside */
    bool there[UNITS], read[ALONE + 1]; /* read: a sum has been asked for that reads this window */
} zero;

/* What the two threads tell each other. */
static gs_status add(const zero *z, gs_virtual_what what, int base) {
    if (!z->thread) return GS_OK;
    return gs_scripts_add(z->scripts, z->rank, (gs_virtual_item){.what = what, .base = base}, false);
}

/* As in zero_windows.c: units take turns in two windows. All that stay count as one more, ALONE. */
static int window_of(const zero *z, int unit) {
    int turns = 0;
    if (z->units.unit[unit].stays) return ALONE;
    for (int i = 0; i < unit; i++) turns += !z->units.unit[i].stays;
    return turns % 2;
}

static gs_status collective(const zero *z, gs_operation operation, size_t count) {
    return gs_scripts_add_call(z->scripts, &z->beside, z->place, operation, count);
}

static gs_status gather(const zero *z, int unit) {
    return collective(z, GS_ALL_GATHER, z->units.unit[unit].own);
}
static gs_status reduce(const zero *z, int unit) {
    return collective(z, GS_REDUCE_SCATTER, z->units.unit[unit].own * (size_t)z->beside.size);
}

/* ---- stages 2 and 3 ---- */

static gs_status ask_for(zero *z, int unit) {
    if (z->there[unit]) return GS_OK;
    z->there[unit] = true;
    GS_TRY(add(z, GS_VIRTUAL_ASK, 0));
    GS_TRY(gather(z, unit));
    return add(z, GS_VIRTUAL_NOTE, window_of(z, unit));
}

static gs_status need(zero *z, int unit) {
    GS_TRY(ask_for(z, unit));
    return add(z, GS_VIRTUAL_AWAIT, window_of(z, unit));
}

static gs_status make_room(const zero *z, int unit) {
    const int window = window_of(z, unit);
    return z->read[window] ? add(z, GS_VIRTUAL_AWAIT, READ + window) : GS_OK;
}

static gs_status take_gradients(zero *z, int unit) {
    const int window = window_of(z, unit);
    z->read[window] = true;
    GS_TRY(add(z, GS_VIRTUAL_ASK, 0));
    GS_TRY(reduce(z, unit));
    return add(z, GS_VIRTUAL_NOTE, READ + window);
}

static int unit_entered(const zero *z, int child, bool backward) {
    for (int i = 0; i < z->units.count; i++)
        if (child == (backward ? z->units.unit[i].end - 1 : z->units.unit[i].begin)) return i;
    return -1;
}

static gs_status begin_pass(zero *z, bool backward) {
    for (int i = 0; i < z->units.count; i++) z->there[i] = false;
    for (int i = 0; i < z->units.count && backward && z->stage > 2; i++)
        if (z->units.unit[i].stays) GS_TRY(need(z, i));
    return GS_OK;
}

static gs_status enter(zero *z, int unit, bool backward) {
    const int next = backward ? unit - 1 : unit + 1;
    if (z->stage > 2) {
        GS_TRY(need(z, unit));
        if (next >= 0 && next < z->units.count) GS_TRY(ask_for(z, next));
    }
    return backward && !z->units.unit[unit].stays ? make_room(z, unit) : GS_OK;
}

static gs_status add_layer(const zero *z, int layer, bool backward) {
    const gs_simulated_layer *l = &z->step->work->layer[layer];
    const gs_sim_pass pass = gs_sim_pass_of(z->step, layer, backward);
    if (z->step->layout.tp > 1) return gs_scripts_add_part(z->scripts, z->step, z->rank, &pass);
    return gs_scripts_add(z->scripts, z->rank,
                          backward ? gs_item_work(l->backward, GS_SIM_BACKWARD)
                                   : gs_item_work(l->forward, GS_SIM_FORWARD),
                          true);
}

static gs_status compute(zero *z, bool backward) {
    const int layers = z->step->part->net->children;
    GS_TRY(begin_pass(z, backward));
    for (int k = 0; k < layers; k++) {
        const int i = backward ? layers - 1 - k : k, entered = unit_entered(z, i, backward),
                  left = backward ? unit_entered(z, i, false) : -1;
        if (entered >= 0) GS_TRY(enter(z, entered, backward));
        GS_TRY(add_layer(z, i, backward));
        if (left >= 0) GS_TRY(take_gradients(z, left));
    }
    return GS_OK;
}

/* ---- a step ---- */

static gs_status sum_gradients(zero *z) {
    if (z->stage == 1) {
        GS_TRY(z->step->layout.tp > 1 ? gs_scripts_add_parts(z->scripts, z->step, z->rank)
                                      : gs_scripts_add_compute(z->scripts, z->rank));
        return reduce(z, 0);
    }
    GS_TRY(compute(z, false));
    GS_TRY(compute(z, true));
    return add(z, GS_VIRTUAL_JOIN, 0);
}

static gs_status add_rank(zero *z, int rank) {
    const gs_sim_step *step = z->step;
    const gs_place at = gs_place_of(&step->layout, rank);
    const double share = (double)step->part->params / (double)step->work->plan->params;
    z->rank = rank;
    z->place = at.replica;
    z->beside = gs_sim_beside(&step->layout, 0, at.part);
    z->read[0] = z->read[1] = z->read[ALONE] = false;
    GS_TRY(sum_gradients(z));
    GS_TRY(gs_scripts_add_wishes(z->scripts, step, rank));
    GS_TRY(collective(z, GS_ALL_REDUCE, z->units.rest + gs_model_tail(step->part)));
    GS_TRY(gs_scripts_add(z->scripts, rank,
                          gs_item_pass(step->work->update * share / z->beside.size, GS_SIM_UPDATE), true));
    for (int i = 0; i < z->units.count && z->stage < 3; i++) GS_TRY(gather(z, i));
    return GS_OK;
}

gs_status gs_scripts_add_zero(gs_scripts *s, const gs_sim_step *step) {
    const int stage = step->layout.zero;
    const gs_settings *settings = &step->sim->settings;
    zero z = {.scripts = s, .step = step, .stage = stage};
    z.thread = gs_zero_would_have_thread(settings, settings->devices, step->part->net, step->layout.dp);
    gs_status status = gs_holding_cut(step->part, stage, step->layout.dp, 0, &z.units);
    if (status == GS_OK && z.units.count > UNITS)
        status =
            gs_fail(GS_E_USAGE, "simulate --zero %d: the model has %d units of layers; wanted %d at most",
                    stage, z.units.count, UNITS);
    s->formula = NAN;
    s->buckets = stage == 1 ? 1 : z.units.count;
    for (int r = 0; r < s->workers && status == GS_OK; r++) status = add_rank(&z, r);
    gs_holding_free(&z.units);
    return status;
}
