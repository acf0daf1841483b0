/* SGD with Nesterov's momentum, as torch.optim.SGD(nesterov=True) defines it:
 *
 *     g = dw / samples + weight_decay w;    v = momentum v + g;    w = w - lr (g + momentum v)
 *
 * SGD with momentum (sgd.c) steps by v. Here the step looks one velocity ahead: it is what the next v would be if the
 * next gradient were the same. An overshooting velocity is therefore corrected one step earlier.
 *
 * Source: Nesterov, "A method of solving a convex programming problem with convergence rate O(1/k^2)" (Soviet
 * Mathematics Doklady 27, 1983); for networks Sutskever, Martens, Dahl, Hinton, "On the importance of initialization
 * and momentum in deep learning" (ICML 2013), in PyTorch's form, whose w is their look-ahead point. */
#include "optim/optimizer.h"

static gs_status update(gs_optimizer *o, size_t first, size_t count, float scale) {
    const gs_model *m = o->model;
    return m->device->ops->nesterov_update(m->device, gs_at(m->weights, first),
                                           gs_optimizer_vector(o, 0, first), gs_at(m->gradients, first),
                                           count, scale, o->lr, o->momentum, o->weight_decay);
}

const gs_optimizer_ops gs_nesterov = {
    .name = "nesterov",
    .title = "Nesterov",
    .usual = {.lr = 0.05f, .momentum = 0.9f},
    .flops = 9,
    .bytes = 20,
    .vector = {"velocity"},
    .update = update,
};
