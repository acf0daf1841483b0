/* Adam and AdamW, as torch.optim.Adam and torch.optim.AdamW define them. In update t = 1, 2, ...:
 *
 *     g = dw / samples + weight_decay w                      Adam: the decay is part of the gradient (L2)
 *     g = dw / samples;  w = w - lr weight_decay w           AdamW: the decay is a separate step ("decoupled")
 *     m = beta1 m + (1 - beta1) g                            first moment: the mean of recent gradients
 *     v = beta2 v + (1 - beta2) g^2                          second moment: the mean of their squares
 *     w = w - lr m' / (sqrt(v') + epsilon),                  m' = m / (1 - beta1^t),  v' = v / (1 - beta2^t)
 *
 * Both moments start at 0 and are too small at first: the coefficients of the gradients in m add up to only 1 -
 * beta1^t. Dividing by that sum is the bias correction.
 *
 * Each weight has its own rate: a weight with small but consistent gradients steps as far as one with large gradients.
 * A weight moves by about lr per step, for a gradient of any size, so lr is smaller than SGD's. For the same
 * reason Adam's decay is weak exactly where gradients are large; AdamW therefore takes the decay out of the gradient.
 *
 * Sources: Kingma, Ba, "Adam: a method for stochastic optimization" (ICLR 2015); Loshchilov, Hutter, "Decoupled weight
 * decay regularization" (ICLR 2019), in PyTorch's form, where lr multiplies the decay. */
#include "optim/adam.h"

#include <math.h>

#include "core/units.h"

/* beta^t, without pow, whose last bit differs between C libraries: all workers must get the same bits. */
static double power(double beta, uint64_t t) {
    double result = 1;
    for (; t > 0; t /= 2, beta *= beta)
        if (t % 2) result *= beta;
    return result;
}

gs_adam_step gs_adam_step_of(const gs_optimizer *o, float scale) {
    /* Use the decimals as typed: 1 - 0.999f is 0.00100005. */
    const double beta1 = gs_decimal(o->beta1), beta2 = gs_decimal(o->beta2), lr = (double)o->lr;
    const uint64_t t = o->updates + 1;
    return (gs_adam_step){.scale = scale,
                          .rate = (float)(lr / (1 - power(beta1, t))),
                          .beta1 = o->beta1,
                          .beta2 = o->beta2,
                          .rest1 = (float)(1 - beta1),
                          .rest2 = (float)(1 - beta2),
                          .root = (float)(1 / sqrt(1 - power(beta2, t))),
                          .epsilon = o->epsilon,
                          .l2 = 0,
                          .keep = 1};
}

static gs_status step(gs_optimizer *o, size_t first, size_t count, gs_adam_step s) {
    const gs_model *m = o->model;
    return m->device->ops->adam_update(m->device, gs_at(m->weights, first), gs_optimizer_vector(o, 0, first),
                                       gs_optimizer_vector(o, 1, first), gs_at(m->gradients, first), count,
                                       s);
}

static gs_status adam(gs_optimizer *o, size_t first, size_t count, float scale) {
    gs_adam_step s = gs_adam_step_of(o, scale);
    s.l2 = o->weight_decay;
    return step(o, first, count, s);
}

static gs_status adamw(gs_optimizer *o, size_t first, size_t count, float scale) {
    gs_adam_step s = gs_adam_step_of(o, scale);
    s.keep = (float)(1 - (double)o->lr * (double)o->weight_decay);
    return step(o, first, count, s);
}

const gs_optimizer_ops gs_adam = {
    .name = "adam",
    .title = "Adam",
    .usual = {.lr = 0.001f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f},
    .flops = 16,
    .bytes = 28, /* reads w, m, v and dw; writes w, m and v */
    .vector = {"first_moment", "second_moment"},
    .update = adam,
};

const gs_optimizer_ops gs_adamw = {
    .name = "adamw",
    .title = "AdamW",
    .usual = {.lr = 0.001f, .weight_decay = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f},
    .flops = 16,
    .bytes = 28,
    .vector = {"first_moment", "second_moment"},
    .decoupled = true,
    .update = adamw,
};
