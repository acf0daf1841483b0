/* Stochastic gradient descent with momentum and weight decay, as torch.optim.SGD defines it:
 *
 *     g = dw / samples + weight_decay w;    v = momentum v + g;    w = w - lr v
 *
 * Source: Sutskever, Martens, Dahl, Hinton, "On the importance of initialization and momentum in deep
 * learning" (ICML 2013), in PyTorch's form (the learning rate multiplies v).
 */
#include "optim/optimizer.h"

static gs_status update(gs_optimizer *o, size_t first, size_t count, float scale) {
    const gs_model *m = o->model;
    return m->device->ops->sgd_update(m->device, gs_at(m->weights, first), gs_optimizer_vector(o, 0, first),
                                      gs_at(m->gradients, first), count, scale, o->lr, o->momentum,
                                      o->weight_decay);
}

const gs_optimizer_ops gs_sgd = {
    .name = "sgd",
    .title = "SGD",
    .usual = {.lr = 0.05f, .momentum = 0.9f},
    .flops = 7,
    .bytes = 20, /* reads w, v and dw; writes w and v */
    .vector = {"velocity"},
    .momentum_alone = true,
    .update = update,
};
