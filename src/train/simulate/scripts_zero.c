/* A step of --zero in virtual time: ways/zero.c, and for stages 2 and 3 ways/zero_windows.c, whose collectives are made
 * by a thread of their own while the worker computes. */
#include <math.h>

#include "train/simulate/scripts.h"
#include "train/ways/zero_units.h"

enum {
    UNITS = 1024,
    ALONE = 2 /* units that stay come behind the two windows, */,
    READ = 4 /* and errands that read them behind it */
};

typedef struct zero {
    gs_scripts *scripts;
    const gs_simulated_work *work;
    gs_sim_group all;
    int stage;
    gs_units units;
    /* of the rank at hand */
    int rank;
    bool there[UNITS], read[ALONE + 1]; /* read: a sum has been asked for that reads this window */
} zero;

static gs_lists_key call_of(gs_operation operation, size_t count, int ranks) {
    return (gs_lists_key){.call = {operation, count, GS_F32, GS_SUM, 0}, .ranks = ranks};
}

static gs_status add(const zero *z, gs_virtual_what what, int base) {
    return gs_scripts_add(z->scripts, z->rank, (gs_virtual_item){.what = what, .base = base}, false);
}

/* As in zero_windows.c: units take turns in two windows. All that stay count as one more. */
static int window_of(const zero *z, int unit) {
    int turns = 0;
    if (z->units.unit[unit].stays) return ALONE;
    for (int i = 0; i < unit; i++) turns += !z->units.unit[i].stays;
    return turns % 2;
}

static gs_status collective(const zero *z, gs_operation operation, size_t count) {
    const gs_lists_key key = call_of(operation, count, z->all.size);
    return count > 0 ? gs_scripts_add_sum(z->scripts, &z->all, z->rank, &key) : GS_OK;
}

static gs_status gather(const zero *z, int unit) {
    return collective(z, GS_ALL_GATHER, z->units.unit[unit].own);
}
static gs_status reduce(const zero *z, int unit) {
    return collective(z, GS_REDUCE_SCATTER, z->units.unit[unit].own * (size_t)z->all.size);
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

static gs_status compute(zero *z, bool backward) {
    const int layers = z->work->plan->net->children;
    GS_TRY(begin_pass(z, backward));
    for (int k = 0; k < layers; k++) {
        const int i = backward ? layers - 1 - k : k, entered = unit_entered(z, i, backward),
                  left = backward ? unit_entered(z, i, false) : -1;
        const gs_simulated_layer *l = &z->work->layer[i];
        const gs_virtual_item pass =
            gs_item_work(backward ? l->backward : l->forward, backward ? GS_SIM_BACKWARD : GS_SIM_FORWARD);
        if (entered >= 0) GS_TRY(enter(z, entered, backward));
        GS_TRY(gs_scripts_add(z->scripts, z->rank, pass, true));
        if (left >= 0) GS_TRY(take_gradients(z, left));
    }
    return GS_OK;
}

/* ---- a step ---- */

static gs_status add_rank(zero *z) {
    const gs_simulated_work *w = z->work;
    z->read[0] = z->read[1] = z->read[ALONE] = false;
    if (z->stage == 1) {
        GS_TRY(gs_scripts_add_compute(z->scripts, z->rank));
        GS_TRY(reduce(z, 0));
    } else {
        GS_TRY(compute(z, false));
        GS_TRY(compute(z, true));
        GS_TRY(add(z, GS_VIRTUAL_JOIN, 0));
    }
    GS_TRY(collective(z, GS_ALL_REDUCE, z->units.rest + gs_model_tail(w->plan)));
    GS_TRY(gs_scripts_add(z->scripts, z->rank, gs_item_pass(w->update / z->all.size, GS_SIM_UPDATE), true));
    for (int i = 0; i < z->units.count && z->stage < 3; i++) GS_TRY(gather(z, i));
    return GS_OK;
}

gs_status gs_scripts_add_zero(gs_scripts *s, const gs_simulation *sim, const gs_simulated_work *w,
                              int stage) {
    zero z = {.scripts = s, .work = w, .all = {0, 1, sim->workers}, .stage = stage};
    gs_status status = gs_units_cut(w->plan, sim->workers, stage == 1, &z.units);
    if (status == GS_OK && z.units.count > UNITS)
        status =
            gs_fail(GS_E_USAGE, "simulate --zero %d: the model has %d units of layers; wanted %d at most",
                    stage, z.units.count, UNITS);
    s->formula = NAN;
    s->buckets = stage == 1 ? 1 : z.units.count;
    for (z.rank = 0; z.rank < sim->workers && status == GS_OK; z.rank++) status = add_rank(&z);
    gs_units_free(&z.units);
    return status;
}
