/* Mistakes in the rate, the norm, the division and the update. */
#include <math.h>
#include <stdlib.h>

#include "tests/faults/wraps.h"

static const gs_backend *real;

/* ---- the rate ---- */

float __wrap_gs_lr_of_step(const gs_lr_rates *c, uint64_t step) {
    const gs_worker *w = fault_worker;
    if (is_on(RATE_EACH_PASS)) step *= (uint64_t)(fault_passes() > 1 ? fault_passes() : fault_workers());
    if (is_on(RATE_LATE) && step > 0) step--;
    if (is_on(RATE_RESUMED)) step -= w->begun_at;
    const float lr = __real_gs_lr_of_step(c, step);
    return is_on(RATE_TIMES_WORKERS) ? lr * (float)fault_workers() : lr;
}

/* ---- the norm ---- */

gs_status __wrap_gs_norm(gs_device *d, gs_mem x, size_t count, double *out) {
    const gs_worker *w = fault_worker;
    const gs_model *m = w->model;
    const bool whole = count == m->params;
    if (is_on(NORM_WITHOUT) && whole)
        return __real_gs_norm(d, gs_at(x, m->param[1]->at), count - m->param[1]->at, out);
    GS_TRY(__real_gs_norm(d, x, count, out));
    if (is_on(NORM_SCALED)) *out *= (double)w->optimizer->loss_scale.used;
    if (is_on(NORM_OF_SUM)) *out *= (double)w->micro_batch.batch;
    return GS_OK;
}

gs_status __wrap_gs_optimizer_clip_held(gs_optimizer *o, double samples, const gs_held *h, bool *may_update) {
    GS_TRY(__real_gs_optimizer_clip_held(o, samples, h, may_update));
    if (is_on(NORM_BY_RANK)) gs_optimizer_clip(o, o->norm * samples * sqrt((double)fault_workers()), samples);
    if (is_on(NOT_CLIPPED)) o->clip_factor = 1;
    return GS_OK;
}

/* ---- an update ---- */

static double divided_by(const gs_optimizer *o, double samples) {
    const gs_worker *w = fault_worker;
    if (is_on(SCALE_LEFT)) return samples / (double)o->loss_scale.scale;
    if (is_on(RAGGED)) return (double)w->batch;
    if (is_on(BY_OWN_SAMPLES)) return samples / fault_workers();
    if (is_on(BY_MICRO_BATCH)) return samples / fault_passes();
    return samples;
}

gs_status __wrap_gs_optimizer_update(gs_optimizer *o, double samples) {
    const gs_worker *w = fault_worker;
    const size_t bytes = o->model->params * sizeof(float);
    if (is_on_rank_1(UPDATE_MISSING) && w->step == 1) return GS_OK;
    if (is_on_rank_1(STALE_WEIGHT) && w->step == 1)
        return fault_stale(o, samples, __real_gs_optimizer_update);
    if (is_on_rank_1(VECTORS_CLEARED) && w->step == 2) memset(fault_floats(o->vector[0]), 0, bytes);
    GS_TRY(__real_gs_optimizer_update(o, divided_by(o, samples)));
    return is_on(UPDATED_TWICE) ? __real_gs_optimizer_update(o, samples) : GS_OK;
}

gs_status __wrap_gs_state_restore(gs_worker *w) {
    GS_TRY(__real_gs_state_restore(w));
    if (is_on(UPDATES_RESUMED)) w->optimizer->updates = 0;
    if (is_on(VECTORS_RESUMED))
        memset(fault_floats(w->optimizer->vector[0]), 0, w->model->params * sizeof(float));
    return GS_OK;
}

/* ---- the optimisers ---- */

static float decay_of(float decay, float scale) {
    if (is_on(DECAY_TWICE)) return 2 * decay;
    if (is_on(DECAY_MISSING)) return 0;
    if (is_on(DECAY_DIVIDED)) return decay * scale;
    return is_on(DECAY_BY_RANK) ? decay * (float)fault_workers() : decay;
}

static gs_status sgd(gs_device *d, gs_mem w, gs_mem v, gs_mem dw, size_t count, float scale, float lr,
                     float momentum, float decay) {
    const gs_param *last = fault_worker->model->param[fault_worker->model->param_count - 1];
    float kept[64];
    const bool keeps = is_on(TENSOR_NOT_UPDATED) && count == fault_worker->model->params && last->count <= 64;
    if (keeps) memcpy(kept, fault_floats(gs_at(w, last->at)), last->count * sizeof *kept);
    decay = decay_of(decay, scale);
    if (is_on(MOMENTUM)) momentum = 0.5f;
    if (is_on(DAMPENED)) scale *= 1 - momentum, decay *= 1 - momentum;
    if (is_on(RATE_IN_MOMENTUM)) scale *= lr, decay *= lr, lr = 1;
    if (is_on(UPDATE_SCALED)) lr *= 2;
    GS_TRY(real->sgd_update(d, w, v, dw, count, scale, lr, momentum, decay));
    if (keeps) memcpy(fault_floats(gs_at(w, last->at)), kept, last->count * sizeof *kept);
    return GS_OK;
}

static gs_status adam(gs_device *d, gs_mem w, gs_mem m, gs_mem v, gs_mem dw, size_t count, gs_adam_step s) {
    const gs_optimizer *o = fault_worker->optimizer;
    const double b1 = (double)o->beta1, b2 = (double)o->beta2, t = (double)o->updates + 2;
    if (is_on(DECAY_IN_MOMENTS)) s.l2 = o->weight_decay, s.keep = 1;
    if (is_on(DECOUPLED_TWICE)) s.keep = 1 - 2 * o->lr * o->weight_decay;
    if (is_on(SECOND_MOMENT)) s.beta2 = 0.9f, s.rest2 = 0.1f;
    if (is_on(BIAS_OFF))
        s.rate = (float)((double)o->lr / (1 - pow(b1, t))), s.root = (float)(1 / sqrt(1 - pow(b2, t)));
    if (is_on(NO_BIAS_CORRECTION)) s.rate = o->lr, s.root = 1;
    return real->adam_update(d, w, m, v, dw, count, s);
}

void fault_update(gs_backend *ops, const gs_backend *of) {
    real = of;
    ops->sgd_update = sgd;
    ops->adam_update = adam;
}
