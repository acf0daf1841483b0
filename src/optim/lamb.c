/* LAMB, layer-wise adaptive moments for batch training: AdamW's direction (adam.c), and a rate for each weight tensor.
 * In update t = 1, 2, ..., with |x| = the norm of all elements of the tensor:
 *
 *     g = dw / samples;    m = beta1 m + (1 - beta1) g;    v = beta2 v + (1 - beta2) g^2
 *     r = m' / (sqrt(v') + epsilon) + weight_decay w,      m' = m / (1 - beta1^t),  v' = v / (1 - beta2^t)
 *     trust = |w| / |r|;  1 if |w| or |r| is 0
 *     w = w - lr trust r
 *
 * So each step moves a tensor by the fraction lr of its norm, in Adam's direction. One-dimensional parameters have
 * trust 1 and no weight decay: tensors.h. r replaces dw in model->gradients.
 *
 * Source: You et al., "Large batch optimization for deep learning: training BERT in 76 minutes" (ICLR 2020), algorithm
 * 2, with phi(z) = z. */
#include "optim/adam.h"
#include "optim/tensors.h"

/* |w| / |r| */
static double trust_of(double weights, double direction) {
    return weights > 0 && direction > 0 ? weights / direction : 1;
}

/* The rate of tensor `number`, from this update's norms. */
static double rate(const gs_optimizer *o, int number) {
    const double *weights = o->norms, *direction = weights + o->model->param_count,
                 trust = gs_is_adapted(o->model->param[number]) ? trust_of(weights[number], direction[number])
                                                                : 1;
    return (double)o->lr * trust;
}

static gs_status find_directions(gs_optimizer *o, gs_adam_step s) {
    gs_device *d = o->model->device;
    for (gs_tensor_shard t = {0}; gs_next_tensor_shard(o, &t);) {
        s.l2 = gs_is_adapted(t.param) ? o->weight_decay : 0;
        GS_TRY(d->ops->lamb_direction(d, t.gradients, gs_optimizer_vector(o, 0, t.vector_at),
                                      gs_optimizer_vector(o, 1, t.vector_at), t.weights, t.count, s));
    }
    return GS_OK;
}

static gs_status update(gs_optimizer *o, size_t first, size_t count, float scale) {
    gs_device *d = o->model->device;
    gs_optimizer by_one = *o;
    const gs_mem none = GS_NONE;
    double *weights = o->norms, *direction = weights + o->model->param_count;
    by_one.lr = 1;            /* only the direction */
    (void)first, (void)count; /* all parameters: .whole */
    GS_TRY(find_directions(o, gs_adam_step_of(&by_one, scale)));
    GS_TRY(gs_tensor_norms(o, false, weights));
    GS_TRY(gs_tensor_norms(o, true, direction));
    for (gs_tensor_shard t = {0}; gs_next_tensor_shard(o, &t);)
        GS_TRY(
            d->ops->sgd_update(d, t.weights, none, t.gradients, t.count, 1, (float)rate(o, t.number), 0, 0));
    return GS_OK;
}

const gs_optimizer_ops gs_lamb = {
    .name = "lamb",
    .title = "LAMB",
    .usual = {.lr = 0.01f, .weight_decay = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-6f},
    .flops = 22,
    .bytes = 56, /* 28 as for adam, 12 for the step from r, two more reads each of w and r for norms */
    .vector = {"first_moment", "second_moment"},
    .decoupled = true,
    .whole = true,
    .overwrites_gradient = true,
    .update = update,
};
