/* Lion, "evolved sign momentum": every weight steps by lr, up or down. In each update:
 *
 *     g = dw / samples
 *     c = beta1 m + (1 - beta1) g                            m looks back beta2 / (1 - beta2) gradients, c fewer
 *     w = w - lr (sign(c) + weight_decay w)                  sign(0) = 0
 *     m = beta2 m + (1 - beta2) g                            0 at first
 *
 * Lion has one vector where Adam has two. All its steps are as long as Adam's longest, so lr is 3 to 10 times smaller
 * than AdamW's, and weight_decay is larger by the same factor. As in AdamW, the decay is a separate step.
 *
 * Source: Chen et al., "Symbolic discovery of optimization algorithms" (NeurIPS 2023), algorithm 2. */
#include "core/units.h"
#include "optim/optimizer.h"

static gs_status update(gs_optimizer *o, size_t first, size_t count, float scale) {
    const gs_model *m = o->model;
    const gs_adam_step s = {.scale = scale,
                            .rate = o->lr,
                            .beta1 = o->beta1,
                            .rest1 = (float)(1 - gs_decimal(o->beta1)),
                            .beta2 = o->beta2,
                            .rest2 = (float)(1 - gs_decimal(o->beta2)),
                            .keep = (float)(1 - (double)o->lr * (double)o->weight_decay)};
    return m->device->ops->lion_update(m->device, gs_at(m->weights, first), gs_optimizer_vector(o, 0, first),
                                       GS_NONE, gs_at(m->gradients, first), count, s);
}

const gs_optimizer_ops gs_lion = {
    .name = "lion",
    .title = "Lion",
    .usual = {.lr = 0.0001f, .beta1 = 0.9f, .beta2 = 0.99f},
    .flops = 10,
    .bytes = 20, /* reads w, m and dw; writes w and m */
    .vector = {"first_moment"},
    .decoupled = true,
    .update = update,
};
