/* LAMB, layer-wise adaptive moments for batch training: AdamW's direction (adam.c), and a rate for each weight tensor.
 * In update t = 1, 2, ..., with |x| = the norm of all elements of the tensor:
 *
 *     g = dw / samples;    m = beta1 m + (1 - beta1) g;    v = beta2 v + (1 - beta2) g^2
 *     r = m' / (sqrt(v') + epsilon) + weight_decay w,      m' = m / (1 - beta1^t),  v' = v / (1 - beta2^t)
 *     trust = |w| / |r|;  1 where |w| or |r| is 0
 *     w = w - lr trust r
 *
 * So each step moves a tensor by the share lr of its norm, in Adam's direction. Parameters of one dimension have trust
 * 1 and no weight decay: trust.h. r takes the place of dw in model->gradients.
 *
 * Source: You et al., "Large batch optimization for deep learning: training BERT in 76 minutes" (ICLR 2020), algorithm
 * 2, with phi(z) = z.
 */
#include "optim/adam.h"
#include "optim/norm.h"
#include "optim/trust.h"

/* |w| / |r| */
static gs_status find_trust(const gs_optimizer *o, const gs_param *p, double *trust) {
    gs_device *d = o->model->device;
    double weights, direction;
    *trust = 1;
    if (!gs_is_adapted(p)) return GS_OK;
    GS_TRY(gs_norm(d, gs_at(o->model->weights, p->at), p->count, &weights));
    GS_TRY(gs_norm(d, gs_at(o->model->gradients, p->at), p->count, &direction));
    if (weights > 0 && direction > 0) *trust = weights / direction;
    return GS_OK;
}

static gs_status update_tensor(gs_optimizer *o, const gs_param *p, gs_adam_step s) {
    const gs_model *m = o->model;
    const gs_mem w = gs_at(m->weights, p->at), r = gs_at(m->gradients, p->at), none = GS_NONE;
    double trust;
    s.l2 = gs_is_adapted(p) ? o->weight_decay : 0;
    GS_TRY(m->device->ops->lamb_direction(m->device, r, gs_optimizer_vector(o, 0, p->at),
                                          gs_optimizer_vector(o, 1, p->at), w, p->count, s));
    GS_TRY(find_trust(o, p, &trust));
    return m->device->ops->sgd_update(m->device, w, none, r, p->count, 1, (float)((double)o->lr * trust), 0,
                                      0);
}

static gs_status update(gs_optimizer *o, size_t first, size_t count, float scale) {
    gs_optimizer by_one = *o;
    by_one.lr = 1;            /* the direction alone */
    (void)first, (void)count; /* all of them: .whole */
    const gs_adam_step s = gs_adam_step_of(&by_one, scale);
    for (int i = 0; i < o->model->param_count; i++) GS_TRY(update_tensor(o, o->model->param[i], s));
    return GS_OK;
}

const gs_optimizer_ops gs_lamb = {
    .name = "lamb",
    .title = "LAMB",
    .usual = {.lr = 0.01f, .weight_decay = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-6f},
    .flops = 22,
    .bytes = 56, /* 28 as adam, 12 for the step from r, two readings of w and of r for their norms */
    .vector = {"first_moment", "second_moment"},
    .whole = true,
    .spends_gradient = true,
    .update = update,
};
