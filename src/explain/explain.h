/* Where two runs that should agree first differ, and why: `gradsum explain A B`.
 *
 * A step is a chain: samples, weights, y of each layer, loss, dx and dw of each layer, the sum of dw over ranks, the
 * update. The mistake is in the first link that differs; every later link then differs, too. Therefore the two records
 * are compared in the order of the chain, up to the first difference. Runs with --exact are compared bit for bit,
 * others with one tolerance per quantity (a table in explain.c). The runs may divide a batch among ranks and passes in
 * different ways: parts add up to the whole (train/digest/sketch.h).
 *
 * Questions about the difference then find its cause (causes.c): is it twice the sum, one rank's gradient, the weights
 * times a constant? Most arrays are linear in others, so least squares answers such questions (sums.h). */
#pragma once

#include "explain/digests.h"

/* In addition to the arrays of gs_digest_kind: the numbers of gs_digest_score. */
#define GS_DIFFERS_NUMBERS(X)                                                                                \
    X(lr, "learning rate")                                                                                   \
    X(loss, "loss")                                                                                          \
    X(samples, "number of samples")                                                                          \
    X(norm, "norm of the gradient")                                                                          \
    X(scale, "factor of the gradient")                                                                       \
    X(loss_scale, "loss scale")                                                                              \
    X(updates, "number of updates")

enum {
    GS_DIFFERS_before_numbers = GS_DIGEST_KINDS_COUNT - 1,
#define GS_DIFFERS(name, title) GS_DIFFERS_##name,
    GS_DIFFERS_NUMBERS(GS_DIFFERS)
#undef GS_DIFFERS
        GS_DIFFERS_KINDS
};

typedef struct gs_difference {
    uint64_t first, end; /* steps first .. end - 1 were compared and do not differ */
    bool found;
    bool rounded;   /* the bits of an array differ, perhaps only because of rounding */
    uint64_t grown; /* the first step compared only in part, because rounding had grown; 0: none */
    /* The steps in which A and B diverged (had a first non-finite number); 0 unless both diverged and no difference was
     * found. The comparison ends with the earlier of these steps, in which it skips non-finite numbers. */
    uint64_t diverged[2];
    uint64_t step;
    int kind;                      /* a gs_digest_kind, or one of the above */
    int number;                    /* the layer or parameter, depending on the kind */
    int part;                      /* for weights: 1 is a borrowed copy */
    bool rank[GS_DIGEST_RANKS];    /* A's ranks that show the difference; all false: only the sum does */
    double relative;               /* |difference| / |B's array or number| */
    double allowed;                /* the tolerance for `relative`; 0: both runs are exact */
    const char *cause;             /* the cause's name: "summed twice" */
    char quantity[64], where[160]; /* "summed dw", "5.weight (linear)"; `where` may be "" */
    char sentence[512];            /* explains the cause */
} gs_difference;

/* a: the run in question; b: the correct run. GS_E_USAGE: they are not comparable, because their models, data, batches
 * or optimisers differ, or because they have no step in common. The message names the option. */
gs_status gs_explain_check(const gs_digests *a, const gs_digests *b);

/* Find the first difference. Call it after gs_explain_check succeeds. */
void gs_explain(const gs_digests *a, const gs_digests *b, gs_difference *);

/* Called by gs_explain: sets cause, quantity, where and sentence of the difference found (causes.c). */
void gs_name_difference(const gs_digests *a, const gs_digests *b, gs_difference *);
