/* A step of tensor groups in virtual time: each part of a layer, with the sums in its group: tensor/tensor.c. */
#include "layer/tensor.h"

#include <math.h>

#include "train/simulate/scripts.h"

/* ---- a layer ---- */

static double flops_of(const gs_layer *l) {
    const gs_layer_flops flops = gs_layer_flops_of(l);
    return flops.forward + flops.backward;
}

static gs_sim_group group_of(const gs_layout *l, int rank) {
    return (gs_sim_group){rank - rank % l->tp, 1, l->tp};
}

typedef struct sender {
    gs_scripts *scripts;
    const gs_sim_step *step;
    int rank;
    const gs_sim_pass *pass;
} sender;

/* The lists of one member are those of all, so parts are taken to be equal. */
static gs_status add_call(const sender *to, const gs_tensor_call *call) {
    const gs_layout *l = &to->step->layout;
    const gs_sim_group group = group_of(l, to->rank);
    const double samples = call->once ? 1 : to->pass->samples;
    const size_t each = (size_t)ceil(samples * (double)call->floats / l->tp), all = each * (size_t)l->tp;
    const int place = to->rank - group.base;
    if (call->act == GS_TENSOR_GATHERS)
        return gs_scripts_add_call(to->scripts, &group, place, GS_ALL_GATHER, each);
    if (call->act == GS_TENSOR_SCATTERS)
        return gs_scripts_add_call(to->scripts, &group, place, GS_REDUCE_SCATTER, all);
    const gs_lists_key key = {.scheme = &gs_sync_ring,
                              .array = {(size_t)ceil(samples * (double)call->floats), GS_WIRE_F32, 0},
                              .ranks = l->tp};
    return gs_scripts_add_sum(to->scripts, &group, place, &key);
}

static gs_status add_calls(gs_layer *l, void *context) {
    const sender *to = context;
    gs_tensor_call call[GS_TENSOR_CALLS];
    const int calls = gs_tensor_calls(l, call);
    for (int i = 0; i < calls; i++)
        if (call[i].backward == to->pass->backward) GS_TRY(add_call(to, &call[i]));
    return GS_OK;
}

gs_status gs_scripts_add_part(gs_scripts *s, const gs_sim_step *step, int rank, const gs_sim_pass *p) {
    const gs_simulated_layer *l = &step->work->layer[p->layer];
    gs_layer *part = step->part->net->child[p->layer];
    const double whole = flops_of(step->work->plan->net->child[p->layer]), mine = flops_of(part),
                 scale = p->times * (whole > 0 ? mine / whole : 1),
                 takes = scale * (p->backward ? l->backward : l->forward);
    sender to = {s, step, rank, p};
    GS_TRY(
        gs_scripts_add(s, rank, gs_item_pass(takes, p->backward ? GS_SIM_BACKWARD : GS_SIM_FORWARD), true));
    return gs_layer_walk(part, add_calls, &to);
}

/* ---- all layers ---- */

/* A group has the samples of tp workers. */
gs_sim_pass gs_sim_pass_of(const gs_sim_step *step, int layer, bool backward) {
    return (gs_sim_pass){layer, backward, (double)step->sim->settings.batch / step->layout.dp,
                         step->layout.tp};
}

gs_status gs_scripts_add_parts(gs_scripts *s, const gs_sim_step *step, int rank) {
    const int layers = step->part->net->children;
    for (int k = 0; k < 2 * layers; k++) {
        const bool backward = k >= layers;
        const gs_sim_pass pass = gs_sim_pass_of(step, backward ? 2 * layers - 1 - k : k, backward);
        GS_TRY(gs_scripts_add_part(s, step, rank, &pass));
    }
    return GS_OK;
}

/* ---- a step ---- */

gs_status gs_scripts_add_wishes(gs_scripts *s, const gs_sim_step *step, int rank) {
    const gs_sim_group group = group_of(&step->layout, rank);
    return gs_scripts_add_call(s, &group, rank - group.base, GS_ALL_GATHER, 1);
}

gs_status gs_scripts_add_tensor(gs_scripts *s, const gs_sim_step *step) {
    const gs_model *part = step->part;
    const double share = (double)part->params / (double)step->work->plan->params;
    const gs_sync_array array = {part->saved + GS_STATS, step->sim->settings.wire, gs_model_tail(part)};
    gs_lists_key key;
    GS_TRY(gs_scripts_sum_key(step->sim, array, step->layout.dp, &key));
    s->formula = NAN;
    s->buckets = 1;
    for (int r = 0; r < s->workers; r++) {
        const gs_place at = gs_place_of(&step->layout, r);
        const gs_sim_group beside = gs_sim_beside(&step->layout, 0, at.part);
        GS_TRY(gs_scripts_add_parts(s, step, r));
        GS_TRY(gs_scripts_add_wishes(s, step, r));
        GS_TRY(gs_scripts_add_sum(s, &beside, at.replica, &key));
        GS_TRY(gs_scripts_add(s, r, gs_item_pass(step->work->update * share, GS_SIM_UPDATE), true));
    }
    return GS_OK;
}
