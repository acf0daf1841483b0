/* The gradient of the loss, where the model's outputs are right. Our losses are sums over samples, so what is divided
 * too early or too late is a factor of some samples' dy. */
#include <math.h>
#include <string.h>

#include "explain/causes.h"
#include "explain/sums.h"

/* Of each group of samples: dy is so many times what it should be. Groups are the ranks' parts where both runs have the
 * same, else the eighths of the batch. */
enum { GROUPS = GS_DIGEST_RANKS };
typedef struct factors {
    double of[GROUPS], samples[GROUPS]; /* samples 0: there are none in it */
    bool equal;
    double first; /* of the first group that has samples */
    double all;   /* samples of the batch */
} factors;

static bool has_ranks(const gs_case *c) {
    return c->a->workers > 1 && c->a->workers == c->b->workers;
}

static bool group_of(const gs_case *c, const gs_digests *d, int group, gs_numbers *out) {
    if (has_ranks(c))
        return group < d->workers && gs_total(d, group, c->d->step, GS_DIGEST_dy, 0, GS_ALL_PARTS, out);
    return group < GS_DIGEST_EIGHTHS && gs_total(d, GS_ALL_RANKS, c->d->step, GS_DIGEST_dy, 0, group, out);
}

static bool find_factors(const gs_case *c, factors *f) {
    *f = (factors){.equal = true};
    bool any = false;
    gs_numbers whole;
    if (!gs_total(c->b, GS_ALL_RANKS, c->d->step, GS_DIGEST_dy, 0, GS_ALL_PARTS, &whole)) return false;
    for (int g = 0; g < GROUPS; g++) {
        gs_numbers a, b;
        if (!group_of(c, c->b, g, &b)) continue;
        if (!group_of(c, c->a, g, &a) || fabs(a.n - b.n) > 0.5 || !gs_ratio(&a, &b, &f->of[g])) return false;
        f->samples[g] = b.n / whole.n * gs_batch_of(c);
        f->all += f->samples[g];
        if (!any) f->first = f->of[g];
        any = true;
        f->equal &= gs_is_near(f->of[g], f->first);
    }
    return any;
}

static bool equal_factor(const gs_case *c, double *factor) {
    factors f;
    *factor = 0;
    if (!find_factors(c, &f) || !f.equal) return false;
    *factor = f.first;
    return true;
}

static bool not_divided(const gs_case *c) {
    double f;
    const double passes = gs_passes_of(c->a);
    return passes > 1 && equal_factor(c, &f) && gs_is_near(f, passes) &&
           gs_say(c,
                  "each gradient is %.0f times too large, as many as there are micro-batches: the loss of a "
                  "micro-batch counts as that of a whole batch",
                  passes);
}

static bool divided_by_passes(const gs_case *c) {
    double f;
    const double passes = gs_passes_of(c->a);
    return passes > 1 && equal_factor(c, &f) && gs_is_near(f, 1 / passes) &&
           gs_say(c, "each gradient is divided once too often by the number of micro-batches, %.0f", passes);
}

static bool divided_by_workers(const gs_case *c) {
    double f;
    const double parts = gs_parts_of_batch(c->a);
    return parts > 1 && equal_factor(c, &f) && gs_is_near(f, 1 / parts) &&
           gs_say(c,
                  "each rank divides its loss by the %.0f ranks, and the sum is divided by all samples again",
                  parts);
}

static bool times_workers(const gs_case *c) {
    double f;
    const double parts = gs_parts_of_batch(c->a);
    return parts > 1 && equal_factor(c, &f) && gs_is_near(f, parts) &&
           gs_say(c,
                  "each rank's loss is %.0f times too large, as many as there are ranks: it is multiplied to "
                  "undo a mean that nobody takes",
                  parts);
}

static bool of_loss_scale(const gs_case *c) {
    double f;
    const double scale = gs_digests_score(c->b, 0, c->d->step)->loss_scale;
    return scale > 0 && equal_factor(c, &f) && (gs_is_near(f, scale) || gs_is_near(f * scale, 1)) &&
           gs_say(c,
                  f > 1 ? "the loss is scaled by %g twice"
                        : "the loss is not scaled: its gradient lacks the factor %g",
                  scale);
}

/* How many samples have this factor, and does an earlier group have it? Eighths with one factor are one micro-batch;
 * ranks are groups of their own. */
static double samples_with(const gs_case *c, const factors *f, int group, bool *before) {
    double samples = 0;
    *before = false;
    if (has_ranks(c)) return f->samples[group];
    for (int g = 0; g < GROUPS; g++) {
        if (!(f->samples[g] > 0) || !gs_is_near(f->of[g], f->of[group])) continue;
        samples += f->samples[g];
        *before |= g < group;
    }
    return samples;
}

/* A mean of k means, of groups of n_i samples: the factor of group i is n / (k n_i). */
static bool mean_of_means(const gs_case *c) {
    factors f;
    int groups = 0;
    double product = 0;
    if (!find_factors(c, &f) || f.equal) return false;
    for (int g = 0; g < GROUPS; g++) {
        bool before;
        const double samples = samples_with(c, &f, g, &before);
        if (!(f.samples[g] > 0) || before) continue;
        if (groups++ == 0) product = f.of[g] * samples;
        if (fabs(f.of[g] * samples - product) > 0.01 * fabs(product)) return false;
    }
    const char *group = gs_parts_of_batch(c->a) > 1 ? "rank" : "micro-batch";
    return gs_say(c,
                  "the more samples a %s has, the less each of them counts: each %s takes the mean of its "
                  "own samples, and then the mean of these means is taken",
                  group, group);
}

/* Each rank divides by its own samples, and the largest part is taken for all. Factors differ by rank. */
static bool by_rank(const gs_case *c) {
    factors f;
    return find_factors(c, &f) && !f.equal && gs_parts_of_batch(c->a) > 1 &&
           gs_say(c,
                  "the gradients of the ranks' samples have different factors, from %.3g on: parts of "
                  "unequal size are weighted as if they were equal",
                  f.first);
}

static bool some_are_zero(const gs_case *c) {
    for (int e = 0; e < GS_DIGEST_EIGHTHS; e++) {
        gs_numbers a;
        if (gs_total(c->a, GS_ALL_RANKS, c->d->step, GS_DIGEST_dy, 0, e, &a) && !(a.squares > 0))
            return gs_say(c, "the loss of some samples has no gradient: they are masked, as padding is");
    }
    return false;
}

static bool loss_scaled(const gs_case *c) {
    double f;
    return equal_factor(c, &f) && gs_say(c, "the gradient of the loss is %.4g times what it should be", f);
}

static bool smoothed(const gs_case *c) {
    return gs_say(c,
                  "the model's outputs and the answers are right, but not the gradient of the loss on %s: "
                  "another loss, or another smoothing of labels",
                  gs_ranks_text(c));
}

const gs_cause gs_causes_of_loss[] = {{"micro-batch loss not divided", not_divided},
                                      {"divided by micro-batches twice", divided_by_passes},
                                      {"divided by workers twice", divided_by_workers},
                                      {"loss times workers", times_workers},
                                      {"loss scale", of_loss_scale},
                                      {"some samples masked", some_are_zero},
                                      {"mean of means", mean_of_means},
                                      {"unequal parts weighted alike", by_rank},
                                      {"loss scaled", loss_scaled},
                                      {"another loss", smoothed},
                                      {0}};
