/* A step of tensor groups in virtual time: each layer's part of the work, with the sums in its group (ways/tensor.c).
 * In stages of pipelines these are in scripts_pipeline.c's instructions. */
#include <math.h>

#include "layer/tensor.h"
#include "train/simulate/scripts.h"

typedef struct shared {
    double flops;
    double forward, backward; /* floats of a sample that a group sums */
} shared;

static gs_status add_shared(gs_layer *l, void *context) {
    shared *to = context;
    to->flops += l->flops * (1 + l->needs_dx + (gs_layer_weights(l) > 0));
    if (l->role == GS_TENSOR_ROWS) to->forward += (double)gs_shape_size(l->out);
    if (l->role == GS_TENSOR_COLUMNS && l->needs_dx) to->backward += (double)gs_shape_size(l->in);
    return GS_OK;
}

static shared shared_of(gs_layer *l) {
    shared x = {0};
    (void)gs_layer_walk(l, add_shared, &x);
    return x;
}

static gs_status add_group_sum(gs_scripts *s, int ranks, int rank, double floats) {
    const int part = rank % ranks;
    const gs_sim_group group = {rank - part, 1, ranks};
    if (!(floats > 0)) return GS_OK;
    const gs_lists_key key = {
        .scheme = &gs_sync_ring, .array = {(size_t)ceil(floats), GS_WIRE_F32, 0}, .ranks = ranks};
    return gs_scripts_add_sum(s, &group, part, &key);
}

gs_status gs_scripts_add_part(gs_scripts *s, const gs_simulated_work *w, const gs_model *part, int rank,
                              int layer, bool backward, double samples) {
    const shared whole = shared_of(w->plan->net->child[layer]), mine = shared_of(part->net->child[layer]);
    const double scale = samples / w->samples * (whole.flops > 0 ? mine.flops / whole.flops : 1),
                 takes = scale * (backward ? w->layer[layer].backward : w->layer[layer].forward);
    GS_TRY(gs_scripts_add(s, rank, gs_item_pass(takes, backward ? GS_SIM_BACKWARD : GS_SIM_FORWARD), true));
    return add_group_sum(s, part->tensor.size, rank, samples * (backward ? mine.backward : mine.forward));
}

static gs_status add_passes(gs_scripts *s, const gs_simulated_work *w, const gs_model *part, int rank,
                            double samples) {
    const int layers = part->net->children;
    for (int i = 0; i < layers; i++) GS_TRY(gs_scripts_add_part(s, w, part, rank, i, false, samples));
    for (int i = layers - 1; i >= 0; i--) GS_TRY(gs_scripts_add_part(s, w, part, rank, i, true, samples));
    return GS_OK;
}

static gs_status add_groups(gs_scripts *s, const gs_simulation *sim, const gs_simulated_work *w,
                            const gs_layout *l, const gs_model *part) {
    const double update = w->update * (double)part->params / (double)w->plan->params;
    gs_lists_key key = {.array = {part->saved + GS_STATS, sim->settings.wire, gs_model_tail(part)},
                        .ranks = l->dp};
    GS_TRY(gs_sync_find(sim->settings.sync, &key.scheme));
    s->formula = NAN;
    s->buckets = 1;
    for (int r = 0; r < sim->workers; r++) {
        const gs_sim_group beside = {r % l->tp, l->tp, l->dp};
        GS_TRY(add_passes(s, w, part, r, (double)sim->settings.batch / l->dp));
        if (l->zero > 0) {
            GS_TRY(gs_scripts_add_reduce(s, &beside, r / l->tp, part->params, gs_model_tail(part)));
            GS_TRY(gs_scripts_add_own_update(s, &beside, r / l->tp, part->params, update));
            continue;
        }
        GS_TRY(gs_scripts_add_sum(s, &beside, r / l->tp, &key));
        GS_TRY(gs_scripts_add(s, r, gs_item_pass(update, GS_SIM_UPDATE), true));
    }
    return GS_OK;
}

gs_status gs_scripts_plan_part(const gs_simulated_work *w, const gs_layout *l, gs_model **part) {
    const gs_tensor_group place = {.size = l->tp};
    return gs_model_plan_tensor(w->plan->text, w->plan->in, &place, part);
}

gs_status gs_scripts_add_tensor(gs_scripts *s, const gs_simulation *sim, const gs_simulated_work *w,
                                const gs_layout *l) {
    gs_model *part;
    GS_TRY(gs_scripts_plan_part(w, l, &part));
    const gs_status status = add_groups(s, sim, w, l, part);
    gs_model_free(part);
    return status;
}
