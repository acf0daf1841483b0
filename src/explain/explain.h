/* What differs first between two runs that should be the same, and why: `gradsum explain A B`.
 *
 * A step is a chain: samples, weights, y of each layer, loss, dx and dw of each layer, their sum, the update. What
 * differs first in it is where the mistake is; all that follows differs too. So the two records are compared in the
 * order of the chain, and the comparison ends at the first difference. How a batch is divided among ranks and passes is
 * no difference: parts add up to the whole (train/digest/numbers.h).
 *
 * Then the table of causes (causes.c) asks what the difference is like: twice the sum, one rank's gradient, the weights
 * times a constant. Most questions are about arrays that are linear in others, and least squares answers them (fit.h).
 */
#pragma once

#include "explain/digests.h"

/* A share of a norm: where differences of that size count as rounding, a comparison says nothing (gs_difference). */
#define GS_EXPLAIN_BLIND 0.5

/* Besides the arrays of gs_digest_kind, the numbers of gs_digest_score. */
enum {
    GS_DIFFERS_lr = GS_DIGEST_KINDS_COUNT,
    GS_DIFFERS_loss,
    GS_DIFFERS_count,
    GS_DIFFERS_norm,
    GS_DIFFERS_scale,
    GS_DIFFERS_loss_scale,
    GS_DIFFERS_updates,
    GS_DIFFERS_KINDS
};

typedef struct gs_difference {
    bool found;
    uint64_t step;
    int kind;   /* gs_digest_kind, or one of the above */
    int number; /* layer or parameter, as that says */
    int part;   /* of weights: 1 is a borrowed copy */
    /* [rank of A]: the difference is seen there; all false: it is in their sum, and nobody knows on which. */
    bool rank[GS_DIGEST_RANKS];
    double relative; /* |difference| / |B's| */
    /* Of all steps that were compared: the first in which rounding decided a branch (kinks.h), the largest limit that
     * it led to, and the first step where that is above GS_EXPLAIN_BLIND: what layers and the optimiser compute may be
     * anything from there on. 0: none. */
    uint64_t switched, blind;
    double loosest;
    const char *cause;             /* its name in the table: "summed twice" */
    char quantity[64], where[160]; /* "summed dw", "5.weight (linear)"; where is "" for what has no layer */
    char sentence[512];            /* the likely cause */
} gs_difference;

/* The tolerance for these two runs. 1e-4: in f32 the rounding of a few steps is a hundredth of it. With 16 bits on the
 * wire or in products it is more, and with products the more of them follow each other. */
double gs_explain_tolerance(const gs_digests *a, const gs_digests *b);

/* GS_E_USAGE: the two cannot be the same, as they have other models, data, batches or optimisers, or no step in common;
 * the message names the option. a: the run that is asked about; b: the one that is right. */
gs_status gs_explain_check(const gs_digests *a, const gs_digests *b);

/* After the check. tolerance: a share of a tensor's norm; differences below it are rounding. */
void gs_explain(const gs_digests *a, const gs_digests *b, double tolerance, gs_difference *);
