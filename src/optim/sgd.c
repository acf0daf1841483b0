#include "optim/sgd.h"

#include <stdlib.h>

gs_status gs_sgd_create(gs_model *model, float lr, float momentum, float weight_decay, gs_sgd **out) {
    *out = NULL;
    gs_sgd *s = malloc(sizeof *s);
    if (!s) return gs_fail(GS_E_MEMORY, "out of memory for the optimiser");
    *s = (gs_sgd){lr, momentum, weight_decay, GS_NONE, model};
    if (momentum != 0) {
        gs_status st = model->device->ops->alloc(model->device, model->params * sizeof(float), &s->velocity);
        if (st != GS_OK) {
            gs_sgd_free(s);
            return st;
        }
    }
    *out = s;
    return GS_OK;
}

void gs_sgd_free(gs_sgd *s) {
    if (!s) return;
    s->model->device->ops->free(s->model->device, s->velocity);
    free(s);
}

gs_status gs_sgd_update(gs_sgd *s, double samples) {
    return gs_sgd_update_part(s, samples, 0, s->model->params);
}

gs_status gs_sgd_update_part(gs_sgd *s, double samples, size_t first, size_t count) {
    gs_model *m = s->model;
    if (!(samples > 0)) gs_bug("sgd: an update from %g samples", samples);
    if (first > m->params || count > m->params - first)
        gs_bug("sgd: an update of %zu parameters from %zu on, of %zu", count, first, m->params);
    gs_mem velocity = s->velocity.base ? gs_at(s->velocity, first) : GS_NONE;
    return m->device->ops->sgd_update(m->device, gs_at(m->weights, first), velocity,
                                      gs_at(m->gradients, first), count, (float)(1.0 / samples), s->lr,
                                      s->momentum, s->weight_decay);
}
