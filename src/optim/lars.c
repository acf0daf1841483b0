/* LARS, layer-wise adaptive rate scaling: SGD with momentum, and a rate for each weight tensor. With |x| = the norm of
 * all elements of the tensor:
 *
 *     g = dw / samples
 *     trust = |w| / (|g| + weight_decay |w|);  1 if |w| or |g| is 0
 *     v = momentum v + trust (g + weight_decay w);    w = w - lr v
 *
 * A tensor's first step moves it by the fraction lr of its norm, whether its gradients are large or small. With SGD one
 * rate must suit all layers, and that rate is limited by the layer whose gradient is largest relative to its weights.
 * Large batches, which use large rates, reach that limit first.
 *
 * The paper's rate is the product of a global rate and a "trust coefficient" (0.001 there); lr is that product.
 * One-dimensional parameters have trust 1 and no weight decay: tensors.h.
 *
 * Source: You, Gitman, Ginsburg, "Large batch training of convolutional networks" (arXiv:1708.03888, 2017), algorithm
 * 1; as in sgd.c, lr multiplies v, not the term added to v. */
#include "optim/tensors.h"

/* |g| = scale |dw| */
static double trust_of(const gs_optimizer *o, double weights, double gradients, float scale) {
    gradients *= (double)scale;
    if (!(weights > 0 && gradients > 0)) return 1;
    return weights / (gradients + (double)o->weight_decay * weights);
}

static gs_status update(gs_optimizer *o, size_t first, size_t count, float scale) {
    gs_device *d = o->model->device;
    double *weights = o->norms, *gradients = weights + o->model->param_count;
    (void)first, (void)count; /* all parameters: .whole */
    GS_TRY(gs_tensor_norms(o, false, weights));
    GS_TRY(gs_tensor_norms(o, true, gradients));
    for (gs_tensor_shard t = {0}; gs_next_tensor_shard(o, &t);) {
        const bool adapted = gs_is_adapted(t.param);
        const double trust = adapted ? trust_of(o, weights[t.number], gradients[t.number], scale) : 1,
                     decay = adapted ? (double)o->weight_decay : 0;
        GS_TRY(d->ops->sgd_update(d, t.weights, gs_optimizer_vector(o, 0, t.vector_at), t.gradients, t.count,
                                  (float)(trust * (double)scale), o->lr, o->momentum,
                                  (float)(trust * decay)));
    }
    return GS_OK;
}

const gs_optimizer_ops gs_lars = {
    .name = "lars",
    .title = "LARS",
    .usual = {.lr = 0.01f, .momentum = 0.9f},
    .flops = 11,
    .bytes = 36, /* sgd's, plus two more reads each of w and dw for their norms */
    .vector = {"velocity"},
    .momentum_alone = true,
    .whole = true,
    .update = update,
};
