/* How the learning rate depends on the global batch, and the warm-up that a large rate needs.
 *
 *     k       = batch / base batch                    the base batch is the one for which `lr` was found
 *     scaled  = lr            none
 *               lr k          linear
 *               lr sqrt(k)    sqrt
 *     rate(t) = first + (scaled - first) min(1, t / T),    first = lr
 *
 * t: steps done, from 0. T: steps in the warm-up, which are its epochs times the steps per epoch; may be fractional.
 * The first step uses `first`, and the first step after the warm-up uses `scaled`. There is no warm-up if none is
 * requested, or if the scaled rate is not above lr, as for a batch smaller than the base batch. In these cases T = 0,
 * first = scaled, and every step uses the scaled rate. (Without a rule, lr_schedule.h defines the warm-up.)
 *
 * linear: a step over k batches, with k times the rate, moves the weights about as far as k steps over one batch each,
 * as long as the gradient changes little in between. In the first epochs it changes a lot, hence the warm-up. linear
 * keeps the mean of a run's updates the same. sqrt: the mean gradient over a batch k times as large has sqrt(k) times
 * less noise, and the factor sqrt(k) keeps the variance of the updates the same.
 *
 * "Learning rate times the number of workers" is the linear rule with one worker's batch as the base batch: N workers
 * with batch b have the global batch N b, so k = N.
 *
 * The velocity needs no correction when the rate changes: it holds gradients not yet multiplied by a rate (optim/sgd.c;
 * Goyal et al., remark 2).
 *
 * Sources. linear, warm-up by a constant amount per step: Goyal et al., "Accurate, large minibatch SGD: training
 * ImageNet in 1 hour" (arXiv:1706.02677, 2017), sections 2.1 and 2.2. sqrt: Krizhevsky, "One weird trick for
 * parallelizing convolutional neural networks" (arXiv:1404.5997, 2014); Hoffer, Hubara, Soudry, "Train longer,
 * generalize better: closing the generalization gap in large batch training of neural networks" (NIPS 2017). */
#pragma once

#include <stdint.h>
#include "core/error.h"

typedef enum gs_lr_rule { GS_LR_NONE, GS_LR_LINEAR, GS_LR_SQRT } gs_lr_rule;

enum { GS_BASE_BATCH = 128 /* the default base batch */ };

const char *gs_lr_rule_name(gs_lr_rule); /* "none", "linear", "sqrt" */

/* `scaled` in the formula. batch, base_batch: in samples, both > 0. */
double gs_lr_scaled(gs_lr_rule, double lr, double batch, double base_batch);

/* A run's rates. */
typedef struct gs_lr_plan {
    double first, scaled;
    double warmup; /* T, in steps; 0: no warm-up, and first = scaled */
} gs_lr_plan;

/* warmup_epochs >= 0; steps: per epoch, > 0. */
gs_lr_plan gs_lr_plan_of(gs_lr_rule, double lr, double batch, double base_batch, double warmup_epochs,
                         double steps);

/* rate(step). Without a rule it is exactly lr. */
float gs_lr_at(const gs_lr_plan *, uint64_t step);
