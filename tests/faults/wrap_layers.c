/* Mistakes in layers, in the loss and in backward. */
#include <math.h>

#include "tests/faults/wraps.h"

static const gs_backend *real;
static _Thread_local bool in_backward;

/* ---- dropout ---- */

static gs_status dropout(gs_device *d, gs_mem y, gs_mem x, size_t count, gs_dropout_draw draw) {
    if (is_on(DROPOUT_RANKS)) draw.first = 0;
    if (is_on(DROPOUT_STEPS)) draw.hi &= ~(((uint64_t)1 << 40) - 1);
    if (is_on(DROPOUT_BACKWARD) && in_backward) draw.hi ^= 1;
    if (is_on_rank_1(DROPOUT_OFF)) draw.p = 0;
    GS_TRY(real->dropout(d, y, x, count, draw));
    for (size_t i = 0; i < count && is_on(DROPOUT_SCALE); i++) fault_floats(y)[i] *= 1 - draw.p;
    return GS_OK;
}

/* ---- batch_norm, attention ---- */

void __wrap_gs_batch_norm_begin(gs_worker *w, gs_pass *pass) {
    if (is_on(LOCAL_STATISTICS)) return;
    __real_gs_batch_norm_begin(w, pass);
}

static gs_status running(gs_device *d, gs_mem dmean, gs_mem dvar, gs_mem mean, gs_mem var, gs_mem m, gs_mem v,
                         float of, float samples, const gs_batch_norm_sizes *s, bool add) {
    gs_batch_norm_sizes other = *s;
    if (is_on(STATE_TWICE)) other.momentum = 1 - (1 - s->momentum) * (1 - s->momentum);
    return real->batch_norm_running(d, dmean, dvar, mean, var, m, v, of, samples, &other, add);
}

static gs_status attention(gs_device *d, gs_mem y, gs_mem softmax, gs_mem x, size_t n,
                           const gs_attention_sizes *s) {
    gs_attention_sizes other = *s;
    if (is_on_rank_1(NOT_CAUSAL)) other.causal = 0;
    return real->attention_forward(d, y, softmax, x, n, &other);
}

/* ---- the loss ---- */

/* The wrong factor for the gradient of n samples. */
static float factor_of_loss(size_t n) {
    const gs_worker *w = fault_worker;
    if (fault_on == NO_FAULT) return 1; /* checked first: some threads have no worker */
    const int groups = w->comm->size > 1
                           ? w->comm->size
                           : (int)((w->micro_batch.part + w->schedule.most - 1) / w->schedule.most);
    if (is_on(LOSS_TIMES_PASSES)) return (float)fault_passes();
    if (is_on(LOSS_BY_PASSES)) return 1 / (float)fault_passes();
    if (is_on(LOSS_BY_WORKERS)) return 1 / (float)fault_workers();
    if (is_on(LOSS_TIMES_WORKERS)) return (float)fault_workers();
    if (is_on(MEAN_OF_MEANS)) return (float)w->micro_batch.batch / (float)((size_t)groups * n);
    if (is_on_rank_1(LOSS_MASKED)) return 0;
    return 1;
}

static gs_status cross_entropy(gs_device *d, gs_mem dx, gs_mem p, gs_mem labels, size_t n, int classes,
                               float smoothing) {
    if (is_on_rank_1(OTHER_LOSS)) smoothing = 0;
    GS_TRY(real->softmax_cross_entropy_backward(d, dx, p, labels, n, classes, smoothing));
    const float factor = n > 0 ? factor_of_loss(n) : 1;
    for (size_t i = 0; i < n * (size_t)classes && (factor > 1 || factor < 1); i++)
        fault_floats(dx)[i] *= factor;
    return GS_OK;
}

/* ---- backward ---- */

static gs_status linear(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x, gs_mem w,
                        size_t n, int in, int out, bool add, const gs_epilogue *then) {
    GS_TRY(real->linear_backward(d, dx, dw, db, dy, x, w, n, in, out, add, then));
    if (is_on_rank_1(FROZEN) && out == 10)
        memset(fault_floats(dw), 0, (size_t)in * (size_t)out * sizeof(float));
    for (int i = 0; i < out && is_on(BIAS_TWICE) && db.base; i++) fault_floats(db)[i] *= 2;
    return GS_OK;
}

static gs_status embedding(gs_device *d, gs_mem dw, gs_mem dy, gs_mem x, size_t n, int rows, int c, int first,
                           bool add) {
    return real->embedding_backward(d, dw, dy, x, n, rows, c, first, add && !is_on(TIED_ONCE));
}

/* y was overwritten by dy, as in a layer that wrongly works in place. */
static gs_status tanh_of(gs_device *d, gs_mem dx, gs_mem dy, gs_mem y, size_t count) {
    return real->tanh_backward(d, dx, dy, is_on(WRONG_BACKWARD) ? dy : y, count);
}

gs_status __wrap_gs_model_backward(gs_model *m, const gs_pass *pass, gs_mem logits, gs_mem targets) {
    gs_pass other = *pass;
    if (is_on(LOCAL_BACKWARD)) other.sum_over_workers = NULL;
    if (is_on(OVERWRITTEN)) other.fresh = true;
    in_backward = true;
    gs_status status = fault_after_backward(m, &other, __real_gs_model_backward, logits, targets);
    in_backward = false;
    return status;
}

void fault_layers(gs_backend *ops, const gs_backend *of) {
    real = of;
    ops->dropout = dropout;
    ops->batch_norm_running = running;
    ops->attention_forward = attention;
    ops->softmax_cross_entropy_backward = cross_entropy;
    ops->linear_backward = linear;
    ops->embedding_backward = embedding;
    ops->tanh_backward = tanh_of;
}
