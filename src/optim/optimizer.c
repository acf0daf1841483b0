#include "optim/optimizer.h"

#include <stdlib.h>

#include "optim/norm.h"

gs_status gs_optimizer_create(const gs_optimizer_ops *ops, gs_model *model, float lr, float momentum,
                              float weight_decay, gs_optimizer **out) {
    *out = NULL;
    gs_optimizer *o = malloc(sizeof *o);
    if (!o) return gs_fail(GS_E_MEMORY, "out of memory for the optimiser");
    *o = (gs_optimizer){.ops = ops,
                        .lr = lr,
                        .momentum = momentum,
                        .weight_decay = weight_decay,
                        .beta1 = ops->usual.beta1,
                        .beta2 = ops->usual.beta2,
                        .epsilon = ops->usual.epsilon,
                        .shrink = 1,
                        .model = model};
    bool needed = !ops->needs_vectors || ops->needs_vectors(o);
    gs_status st = GS_OK;
    while (needed && st == GS_OK && ops->vector[o->vectors])
        st =
            model->device->ops->alloc(model->device, model->params * sizeof(float), &o->vector[o->vectors++]);
    if (st == GS_OK)
        *out = o;
    else
        gs_optimizer_free(o);
    return st;
}

void gs_optimizer_free(gs_optimizer *o) {
    if (!o) return;
    for (int i = 0; i < o->vectors; i++) o->model->device->ops->free(o->model->device, o->vector[i]);
    free(o);
}

void gs_optimizer_clip(gs_optimizer *o, double sum_norm, double samples) {
    o->norm = sum_norm / samples;
    const double factor = (double)o->clip / (o->norm + 1e-6);
    o->shrink = factor > 1 ? 1 : factor; /* NaN stays */
}

gs_status gs_optimizer_update(gs_optimizer *o, double samples) {
    double norm;
    if (o->clip > 0) {
        GS_TRY(gs_norm(o->model->device, o->model->gradients, o->model->params, &norm));
        gs_optimizer_clip(o, norm, samples);
    }
    GS_TRY(gs_optimizer_update_part(o, samples, 0, o->model->params));
    return gs_optimizer_end_update(o, samples);
}

gs_status gs_optimizer_update_part(gs_optimizer *o, double samples, size_t first, size_t count) {
    size_t params = o->model->params;
    if (!(samples > 0)) gs_bug("%s: an update from %g samples", o->ops->name, samples);
    if (first > params || count > params - first)
        gs_bug("%s: an update of %zu parameters from %zu on, of %zu", o->ops->name, count, first, params);
    if (o->ops->whole && count < params)
        gs_bug("%s: an update of %zu parameters, of %zu; it needs all", o->ops->name, count, params);
    return o->ops->update(o, first, count, (float)(o->shrink / samples));
}

gs_status gs_optimizer_end_update(gs_optimizer *o, double samples) {
    o->updates++;
    return gs_model_update_state(o->model, samples);
}

gs_status gs_optimizer_warm_up(gs_optimizer *o) {
    const gs_optimizer kept = *o;
    double norm;
    if (o->clip > 0) GS_TRY(gs_norm(o->model->device, o->model->gradients, o->model->params, &norm));
    o->lr = o->weight_decay = 0;
    gs_status st = o->ops->update(o, 0, o->model->params, 0);
    *o = kept;
    return st;
}
