/* The gradient of the loss, where the model's outputs are right. Our losses are sums over samples, so what is divided
 * too early or too late is a factor of some samples' dy. */
#include <math.h>

#include "explain/causes.h"

/* Of each group of samples: dy is so many times what it should be. Groups are the ranks' parts where both runs have the
 * same, else the eighths of the batch. */
enum { GROUPS = GS_DIGEST_RANKS };
typedef struct factors {
    double of[GROUPS], samples[GROUPS]; /* samples 0: there are none in it */
    bool of_ranks;
    bool equal;
    double first; /* of the first group that has samples */
} factors;

static bool group_of(const gs_case *c, const factors *f, const gs_digests *d, int group, gs_numbers *out) {
    return group < (f->of_ranks ? d->workers : GS_DIGEST_EIGHTHS) &&
           gs_total(d, f->of_ranks ? group : GS_ALL_RANKS, c->step, GS_DIGEST_dy, 0,
                    f->of_ranks ? GS_ALL_PARTS : group, out);
}

static bool find_factors(const gs_case *c, factors *f) {
    *f = (factors){.equal = true, .of_ranks = c->a->workers > 1 && c->a->workers == c->b->workers};
    bool any = false;
    for (int g = 0; g < GROUPS; g++) {
        gs_numbers a, b;
        if (!group_of(c, f, c->b, g, &b)) continue;
        if (!group_of(c, f, c->a, g, &a) || fabs(a.n - b.n) > 0.5 || !gs_ratio(&a, &b, &f->of[g]))
            return false;
        f->samples[g] = b.n / c->right.n * c->of_b->samples;
        if (!any) f->first = f->of[g];
        any = true;
        f->equal &= gs_is_near(f->of[g], f->first);
    }
    return any;
}

/* All samples have the factor f. */
static bool name_factor(const gs_case *c, double f) {
    const double passes = c->passes, workers = c->workers;
    if (passes > 1 && gs_is_near(f, passes))
        return gs_name(c, "micro-batch loss not divided",
                       "each gradient is %.0f times too large, as many as there are micro-batches: the loss "
                       "of a micro-batch counts as that of a whole batch",
                       passes);
    if (passes > 1 && gs_is_near(f, 1 / passes))
        return gs_name(c, "divided by micro-batches twice",
                       "each gradient is divided once too often by the number of micro-batches, %.0f",
                       passes);
    if (workers > 1 && gs_is_near(f, 1 / workers))
        return gs_name(c, "divided by workers twice",
                       "each rank divides its loss by the %.0f ranks, and the sum is divided by all samples "
                       "again",
                       workers);
    if (workers > 1 && gs_is_near(f, workers))
        return gs_name(c, "loss times workers",
                       "each rank's loss is %.0f times too large, as many as there are ranks: it is "
                       "multiplied to undo a mean that nobody takes",
                       workers);
    return gs_name(c, "loss scaled", "the gradient of the loss is %.4g times what it should be", f);
}

/* How many samples have this group's factor; *before: an earlier group has it. Eighths with one factor are one
 * micro-batch; each rank is a group. */
static double samples_with(const factors *f, int group, bool *before) {
    double samples = 0;
    *before = false;
    if (f->of_ranks) return f->samples[group];
    for (int g = 0; g < GROUPS; g++) {
        if (!(f->samples[g] > 0) || !gs_is_near(f->of[g], f->of[group])) continue;
        samples += f->samples[g];
        *before |= g < group;
    }
    return samples;
}

/* A mean of k means, of groups of n_i samples: the factor of group i is n / (k n_i). */
static bool is_mean_of_means(const factors *f) {
    int groups = 0;
    double product = 0;
    for (int g = 0; g < GROUPS; g++) {
        bool before;
        const double samples = samples_with(f, g, &before);
        if (!(f->samples[g] > 0) || before) continue;
        if (groups++ == 0) product = f->of[g] * samples;
        if (fabs(f->of[g] * samples - product) > 0.01 * fabs(product)) return false;
    }
    return true;
}

static bool some_are_zero(const gs_case *c) {
    gs_numbers a;
    for (int e = 0; e < GS_DIGEST_EIGHTHS; e++)
        if (gs_total(c->a, GS_ALL_RANKS, c->step, GS_DIGEST_dy, 0, e, &a) && !(a.squares > 0)) return true;
    return false;
}

bool gs_cause_of_loss(const gs_case *c) {
    factors f;
    const bool found = find_factors(c, &f);
    if (found && f.equal && f.first != 0) return name_factor(c, f.first);
    if (some_are_zero(c))
        return gs_name(c, "some samples masked",
                       "the loss of some samples has no gradient: they are masked, as padding is");
    const char *group = c->workers > 1 ? "rank" : "micro-batch";
    if (found && is_mean_of_means(&f))
        return gs_name(c, "mean of means",
                       "the more samples a %s has, the less each of them counts: each %s takes the mean of "
                       "its own samples, and then the mean of these means is taken",
                       group, group);
    return gs_name(c, "another loss",
                   "the model's outputs and the answers are right, but not the gradient of the loss on %s: "
                   "another loss, or another smoothing of labels",
                   c->on);
}
