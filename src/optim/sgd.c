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
    if (!(samples > 0)) gs_bug("sgd: an update from %g samples", samples);
    gs_model *m = s->model;
    return m->device->ops->sgd_update(m->device, m->weights, s->velocity, m->gradients, m->params,
                                      (float)(1.0 / samples), s->lr, s->momentum, s->weight_decay);
}
