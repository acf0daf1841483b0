#include "optim/optimizer.h"

#include <stdlib.h>
#include "optim/offload.h"
#include "optim/norm.h"

int gs_optimizer_vector_count(const gs_optimizer_ops *ops, float momentum) {
    int count = 0;
    while (ops->vector[count]) count++;
    return ops->momentum_alone && momentum == 0 ? 0 : count;
}

gs_status gs_optimizer_create(const gs_optimizer_ops *ops, gs_model *model, float lr, float momentum,
                              float weight_decay, gs_optimizer **out) {
    return gs_optimizer_create_held(ops, model, model->params, lr, momentum, weight_decay, out);
}

static gs_status make_room_for_norms(gs_optimizer *o) {
    const size_t count = (size_t)o->model->param_count;
    GS_TRY(GS_NEW(o->norms, 2 * count, "the norms of %zu tensors (%s)", count, o->ops->name));
    return GS_NEW(o->squares, 3 * count, "the norms of %zu tensors (%s)", count, o->ops->name);
}

gs_status gs_optimizer_create_held(const gs_optimizer_ops *ops, gs_model *model, size_t held, float lr,
                                   float momentum, float weight_decay, gs_optimizer **out) {
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
                        .clip_factor = 1,
                        .held = held,
                        .model = model};
    const int keeps = gs_optimizer_vector_count(ops, momentum);
    gs_status st = ops->whole ? make_room_for_norms(o) : GS_OK;
    if (st == GS_OK && gs_optimizer_offloads(ops, model->device)) {
        o->vectors = keeps;
        st = gs_optimizer_offload_create(o);
    }
    while (st == GS_OK && o->vectors < keeps)
        st = gs_alloc(model->device, GS_MEMORY_OPTIMIZER, held * sizeof(float), &o->vector[o->vectors++]);
    if (st == GS_OK)
        *out = o;
    else
        gs_optimizer_free(o);
    return st;
}

void gs_optimizer_free(gs_optimizer *o) {
    if (!o) return;
    for (int i = 0; i < o->vectors && !o->offload; i++)
        o->model->device->ops->free(o->model->device, o->vector[i]);
    if (o->offload) gs_optimizer_offload_free(o);
    free(o->norms);
    free(o->squares);
    free(o);
}

/* The divisor of the gradients. */
static double divisor(const gs_optimizer *o, double samples) {
    return o->loss_scale.scale > 0 ? samples * (double)o->loss_scale.used : samples;
}

void gs_optimizer_clip(gs_optimizer *o, double sum_norm, double samples) {
    o->norm = sum_norm / divisor(o, samples);
    const double factor = (double)o->clip / (o->norm + 1e-6);
    o->clip_factor = factor > 1 ? 1 : factor; /* NaN is kept */
}

bool gs_optimizer_may_update(gs_optimizer *o, uint32_t largest) {
    const uint32_t infinity = 0x7f800000;
    gs_loss_scale_step(&o->loss_scale, largest < infinity);
    return !o->loss_scale.skipped;
}

gs_status gs_optimizer_update(gs_optimizer *o, double samples) {
    double norm;
    if (o->loss_scale.scale > 0) {
        gs_squares all;
        GS_TRY(
            o->model->device->ops->squares(o->model->device, o->model->gradients, o->model->params, 0, &all));
        if (!gs_optimizer_may_update(o, all.largest)) return GS_OK;
    }
    if (o->clip > 0) {
        GS_TRY(gs_norm(o->model->device, o->model->gradients, o->model->params, &norm));
        gs_optimizer_clip(o, norm, samples);
    }
    GS_TRY(gs_optimizer_update_part(o, samples, 0, o->model->params));
    return gs_optimizer_end_update(o, samples);
}

gs_status gs_optimizer_update_watched(gs_optimizer *o, size_t first, size_t count, float scale) {
    if (!o->watcher) return o->ops->update(o, first, count, scale); /* --optimizer sgd: gs_cpu_sgd_update */
    if (o->watcher->before) GS_TRY(o->watcher->before(o->watcher->context, o, first, count, scale));
    GS_TRY(o->ops->update(o, first, count, scale));
    return o->watcher->after ? o->watcher->after(o->watcher->context, o, first, count) : GS_OK;
}

gs_status gs_optimizer_update_part(gs_optimizer *o, double samples, size_t first, size_t count) {
    size_t params = o->model->params;
    if (!(samples > 0)) gs_bug("%s: an update from %g samples", o->ops->name, samples);
    if (first > params || count > params - first)
        gs_bug("%s: an update of %zu parameters from %zu on, of %zu", o->ops->name, count, first, params);
    if (o->ops->whole && count < params)
        gs_bug("%s: an update of %zu parameters, of %zu; it needs all", o->ops->name, count, params);
    const float scale = (float)(o->clip_factor / divisor(o, samples));
    return o->offload ? gs_optimizer_offload_update(o, first, count, scale)
                      : gs_optimizer_update_watched(o, first, count, scale);
}

/* An array whose element `first` is at `place`; its offset may wrap around. */
static gs_mem array_of(gs_mem place, size_t first) {
    place.at -= first;
    return place;
}

static gs_status update_one(gs_optimizer *o, double samples, const gs_held_shard *p) {
    gs_model *m = o->model;
    const gs_mem weights = m->weights, gradients = m->gradients;
    const gs_optimizer kept = *o;
    /* The watcher needs the scale even for an empty part. */
    if (p->count == 0 && o->watcher && o->watcher->before)
        return o->watcher->before(o->watcher->context, o, p->first, 0,
                                  (float)(o->clip_factor / divisor(o, samples)));
    if (p->count == 0) return GS_OK;
    m->weights = array_of(p->weights, p->first);
    m->gradients = array_of(p->gradients, p->first);
    for (int i = 0; i < o->vectors; i++)
        o->vector[i] = array_of(gs_at(kept.vector[i], p->vector_at), p->first);
    o->part = p;
    gs_status status = gs_optimizer_update_part(o, samples, p->first, p->count);
    o->part = NULL;
    memcpy(o->vector, kept.vector, sizeof o->vector);
    m->weights = weights;
    m->gradients = gradients;
    return status;
}

gs_status gs_optimizer_update_held(gs_optimizer *o, double samples, const gs_held *held) {
    gs_status status = GS_OK;
    for (int i = 0; i < held->parts && status == GS_OK && !o->ops->whole; i++)
        status = update_one(o, samples, &held->part[i]);
    if (!o->ops->whole) return status;
    o->divided = held;
    status = gs_optimizer_update_part(o, samples, 0, o->model->params);
    o->divided = NULL;
    return status;
}

gs_status gs_optimizer_end_update(gs_optimizer *o, double samples) {
    o->updates++;
    if (o->offload) GS_TRY(gs_optimizer_offload_fetch_first(o));
    return gs_model_update_state(o->model, samples);
}

gs_status gs_optimizer_warm_up(gs_optimizer *o) {
    const gs_optimizer kept = *o;
    double norm;
    if (o->clip > 0) GS_TRY(gs_norm(o->model->device, o->model->gradients, o->model->params, &norm));
    o->lr = o->weight_decay = 0;
    gs_status st =
        o->offload ? gs_optimizer_offload_update(o, 0, o->held, 0) : o->ops->update(o, 0, o->held, 0);
    *o = kept;
    return st;
}

#define GS_TABLE(name) &gs_##name,
const gs_optimizer_ops *const gs_optimizers[] = {GS_OPTIMIZERS(GS_TABLE) NULL};

const gs_optimizer_ops *gs_optimizer_named(const char *name) {
    const gs_optimizer_ops *const *o = gs_optimizers;
    while (*o && strcmp((*o)->name, name) != 0) o++;
    return *o;
}
