/* Stochastic gradient descent with momentum and weight decay, as torch.optim.SGD defines it:
 *
 *     g = dw / samples + weight_decay w;    v = momentum v + g;    w = w - lr v
 *
 * Source: Sutskever, Martens, Dahl, Hinton, "On the importance of initialization and momentum in deep
 * learning" (ICML 2013), in PyTorch's form (the learning rate multiplies v).
 */
#ifndef GS_OPTIM_SGD_H
#define GS_OPTIM_SGD_H

#include "model/model.h"

typedef struct gs_sgd {
    float lr, momentum, weight_decay; /* lr: of the next update (lr_rule.h) */
    gs_mem velocity;                  /* model->params floats; GS_NONE when momentum is 0 */
    gs_model *model;                  /* not owned */
} gs_sgd;

/* GS_E_MEMORY or GS_E_OPENCL. */
gs_status gs_sgd_create(gs_model *model, float lr, float momentum, float weight_decay, gs_sgd **out);
void gs_sgd_free(gs_sgd *);

/* One update from model->gradients, which hold the sum over `samples` samples. */
gs_status gs_sgd_update(gs_sgd *, double samples);

/* The same for parameters first .. first + count - 1 alone, in the order in which model->weights holds them. */
gs_status gs_sgd_update_part(gs_sgd *, double samples, size_t first, size_t count);

#endif
