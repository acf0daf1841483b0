/* How the learning rate changes during a run: a warm-up, then a schedule. Both are based on the rates that the batch
 * rule gives (optim/lr_rule.h) or, without a rule, on --lr.
 *
 *     base      gs_lr_at: the rule's `scaled`; without a rule, lr
 *     t         steps done, from 0, so that step t + 1 uses rate(t)
 *     N         steps in the run: its epochs times the steps per epoch, but no more than --steps
 *     T         steps in the warm-up, may be fractional: --warmup-steps, or --warmup times the steps per epoch
 *     p         (t - T) / (N - T): the completed share of the steps after the warm-up
 *
 *     t < T     with a rule:     from lr to the scaled rate (lr_rule.h)
 *               without a rule:  base (t + 1) / (T + 1), so that no step has rate 0, and base follows at t = T
 *     t >= T    constant         base
 *               step:A,B,...@F   base F^k, where k of the epochs A, B, ... are over at t; epochs are counted from
 *                                the run's beginning, warm-up included
 *               linear           base + (final - base) p
 *               cosine           final + (base - final) (1 + cos(pi p)) / 2
 *
 * final: --final-lr. The rate would reach it at t = N, in the step after the last one. It may be higher than base:
 * `linear` then tries all rates from base to final in one run (Smith's range test).
 *
 * All strategies use this schedule; t is the step to which a gradient belongs. With --sync async, each worker counts
 * its own steps.
 *
 * Every worker computes the rates and must get the same bits. Therefore the cosine is computed only with additions and
 * multiplications: the last bit of cos() differs between C libraries.
 *
 * Sources. cosine: Loshchilov, Hutter, "SGDR: stochastic gradient descent with warm restarts" (ICLR 2017), equation 5
 * without restarts. Warm-up, and steps by 0.1 after 30, 60 and 80 epochs: Goyal et al., "Accurate, large minibatch SGD:
 * training ImageNet in 1 hour" (arXiv:1706.02677, 2017). linear: Smith, "Cyclical learning rates for training neural
 * networks" (WACV 2017), section 3.3, for the range test. */
#pragma once

#include <stddef.h>
#include "optim/lr_rule.h"

typedef enum gs_lr_schedule_kind {
    GS_SCHEDULE_CONSTANT,
    GS_SCHEDULE_STEP,
    GS_SCHEDULE_LINEAR,
    GS_SCHEDULE_COSINE
} gs_lr_schedule_kind;

enum { GS_LR_DROPS = 8, GS_LR_SCHEDULE_TEXT = 256 /* bytes for any schedule as text */ };

/* The value of --schedule. All zero: constant. */
typedef struct gs_lr_schedule {
    gs_lr_schedule_kind kind;
    double factor;            /* for step: F, above 0, at most 1; otherwise 0, like all the fields below */
    int drops;                /* for step: the number of epochs given, at least 1 */
    double drop[GS_LR_DROPS]; /* these epochs: above 0, increasing, may be fractional */
} gs_lr_schedule;

/* "constant", "linear", "cosine", "step:30,60@0.1". False: none of these. */
bool gs_lr_schedule_read(const char *text, gs_lr_schedule *);

/* The schedule as text. Returns `text`, or a string constant. */
const char *gs_lr_schedule_text(const gs_lr_schedule *, char *text, size_t size);

/* Does the schedule end at --final-lr? */
static inline bool gs_lr_schedule_falls(const gs_lr_schedule *s) {
    return s->kind == GS_SCHEDULE_LINEAR || s->kind == GS_SCHEDULE_COSINE;
}

/* All rates of a run. */
typedef struct gs_lr_rates {
    gs_lr_plan plan; /* by the rule; without a rule, lr and no warm-up */
    gs_lr_schedule schedule;
    double final_lr;
    double warmup;       /* T of the warm-up without a rule, if plan.warmup is 0 */
    double epoch, steps; /* steps per epoch, and N */
} gs_lr_rates;

/* rate(step). For a constant schedule without a warm-up it is exactly gs_lr_at. */
float gs_lr_of_step(const gs_lr_rates *, uint64_t step);
