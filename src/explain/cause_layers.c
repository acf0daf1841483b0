/* y of a layer, the gradient of the loss, and dx and dw of a layer, where all that comes before them is right. */
#include <math.h>
#include <string.h>

#include "explain/causes.h"

/* ---- y ---- */

/* True if rank r draws in that pass of that step what rank q draws in the first pass of this one. */
static bool same_mask(const gs_case *c, int q, int r, uint64_t step, int pass) {
    if (!gs_has_step(c->a, step)) return false;
    const gs_numbers *x = gs_digests_find(c->a, q, c->step, GS_DIGEST_mask, c->number, 0),
                     *y = gs_digests_find(c->a, r, step, GS_DIGEST_mask, c->number, pass);
    return x && y && gs_alike(x, y);
}

static bool mask_is_repeated(const gs_case *c) {
    const int workers = c->a->workers;
    for (int r = 0; r < workers; r++)
        for (int q = r + 1; q < workers; q++)
            if (same_mask(c, r, q, c->step, 0))
                return gs_name(c, "same dropout on all ranks",
                               "ranks %d and %d have the same mask: the random numbers do not depend on the "
                               "sample's place in the global batch, nor on the rank",
                               r, q);
    for (int r = 0; r < workers; r++)
        for (int pass = 1; pass < GS_DIGEST_PARTS; pass++)
            if (same_mask(c, r, r, c->step, pass))
                return gs_name(
                    c, "same dropout in each micro-batch",
                    "rank %d has the same mask in micro-batches 0 and %d: the random numbers begin "
                    "anew with each",
                    r, pass);
    for (int r = 0; r < workers; r++)
        if (same_mask(c, r, r, c->step - 1, 0))
            return gs_name(
                c, "same dropout in each step",
                "the mask is that of the step before: the random numbers do not depend on the step");
    return false;
}

/* y is x, and x is the y of a layer before it. */
static bool dropout_is_off(const gs_case *c) {
    for (int l = c->number - 1; l >= 0; l--)
        for (int e = 0; e < GS_DIGEST_EIGHTHS; e++) {
            gs_numbers y, x;
            if (gs_total(c->a, GS_ALL_RANKS, c->step, GS_DIGEST_y, c->number, e, &y) &&
                gs_total(c->b, GS_ALL_RANKS, c->step, GS_DIGEST_y, l, e, &x) && gs_alike(&y, &x))
                return true;
        }
    return false;
}

static bool name_dropout(const gs_case *c) {
    if (mask_is_repeated(c)) return true;
    if (dropout_is_off(c))
        return gs_name(c, "dropout switched off",
                       "its output is its input: on %s dropout is switched off in training, as it should be "
                       "only in evaluation",
                       c->on);
    if (!isnan(c->ratio))
        return gs_name(
            c, "dropout not scaled",
            "the mask is right, but y is %.4g times what it should be: what is kept is not divided "
            "by 1 - p",
            c->ratio);
    return gs_name(c, "other dropout",
                   "another mask is drawn on %s: from another seed, or at another place in the stream of "
                   "random numbers",
                   c->on);
}

bool gs_cause_of_y(const gs_case *c) {
    const char *op = c->b->layer[c->number].op;
    if (gs_name_left_out(c)) return true;
    if (strcmp(op, "dropout") == 0) return name_dropout(c);
    /* The mean of y is right where the statistics are, also those of a part. */
    if (strcmp(op, "batch_norm") == 0 && (c->workers > 1 || c->passes > 1))
        return gs_name(c, "statistics of a part of the batch",
                       "batch_norm takes its statistics over other samples than the whole batch: of each "
                       "rank's own, or of a micro-batch");
    if (c->d->relative < 2e-2)
        return gs_name(c, "less precise",
                       "the difference is small (%.1g) and everywhere: products on %s have fewer bits, as "
                       "those in bf16 or f16",
                       c->d->relative, c->on);
    if (!isnan(c->ratio)) return gs_name(c, "output scaled", "y is %.4g times what it should be", c->ratio);
    return gs_name(c, "forward of a layer",
                   "its input and its weights are right: forward of %s computes something else", op);
}

/* ---- dy of the loss: our losses are sums over samples, so what is divided too early or too late is a factor of some
 * samples' dy ---- */

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

/* ---- dx and dw ---- */

/* y: by how much dw differs. */
static bool difference(const gs_case *c, int p, gs_numbers *y) {
    gs_numbers b;
    if (!gs_of_run(c->a, c->step, GS_DIGEST_dw, p, y) || !gs_of_run(c->b, c->step, GS_DIGEST_dw, p, &b))
        return false;
    gs_numbers_add_scaled(y, -1, &b);
    return true;
}

/* x: what the first micro-batch of all ranks gave. */
static bool and_first_pass(const gs_case *c, int p, gs_numbers *y, gs_numbers *x) {
    return difference(c, p, y) && gs_total(c->a, GS_ALL_RANKS, c->step, GS_DIGEST_dw, p, 0, x);
}

/* x: what the array of gradients holds after the step before, the sum. */
static bool and_sum_before(const gs_case *c, int p, gs_numbers *y, gs_numbers *x) {
    return difference(c, p, y) && gs_of_run(c->a, c->step - 1, GS_DIGEST_sum, p, x);
}

static bool has_no_gradient(const gs_case *c) {
    for (int r = 0; r < c->a->workers; r++) {
        gs_numbers a;
        if (!gs_total(c->a, r, c->step, GS_DIGEST_dw, c->number, GS_ALL_PARTS, &a) || a.squares > 0) continue;
        c->d->rank[r] = true;
        return gs_name(c, "no gradient on a rank",
                       "rank %d has no gradient of this tensor at all: backward did not reach it", r);
    }
    return false;
}

static bool is_borrowed(const gs_case *c) {
    for (int r = 0; r < c->b->workers; r++)
        if (gs_digests_find(c->b, r, c->step, GS_DIGEST_weight, c->number, 1)) return true;
    return false;
}

static bool name_dw(const gs_case *c) {
    double factor;
    if (gs_fit_params(c, 1, and_sum_before, 1e-3, &factor) && factor > 0.9)
        return gs_name(c, "gradients not cleared",
                       "the gradients of the step before are still in it%s: they were not cleared",
                       factor > 1.5 ? ", on each rank," : "");
    if (c->passes > 1 && c->workers > 1 && gs_fit_params(c, 1, and_first_pass, 1e-3, &factor) &&
        gs_is_near(factor, c->workers - 1))
        return gs_name(c, "summed after each micro-batch",
                       "the first micro-batch is in it %.0f times: the gradients are summed over the ranks "
                       "after each micro-batch, and what was summed is summed again",
                       factor + 1);
    if (has_no_gradient(c)) return true;
    return is_borrowed(c) &&
           gs_name(c, "one use of a tied weight",
                   "this tensor is the weight of two layers, and its gradient is the sum of "
                   "what both give: one of them is missing, or counts twice");
}

/* Rounding differs from element to element, and leaves the ratio of sums of squares nearer to 1. */
static const double SCALED = 5e-4;

bool gs_cause_of_backward(const gs_case *c) {
    const bool dx = c->kind == GS_DIGEST_dx;
    const char *op = c->b->layer[dx ? c->number : c->b->param[c->number].layer].op;
    const bool relu = strcmp(op, "relu") == 0;
    if (!dx && name_dw(c)) return true;
    if (dx && strcmp(op, "dropout") == 0)
        return gs_name(
            c, "other dropout in backward",
            "backward has another mask than forward: the random numbers were drawn anew, and their "
            "state was not restored");
    if (fabs(c->ratio - 1) > SCALED)
        return gs_name(c, "gradient of a layer scaled",
                       "it is %.4g times what it should be, and its dy is right", c->ratio);
    if (strcmp(op, "batch_norm") == 0 && (c->workers > 1 || c->passes > 1))
        return gs_name(
            c, "batch_norm backward of a part",
            "forward takes statistics of the whole batch, but backward sums only those of a rank's "
            "own samples");
    if (dx && (relu || strcmp(op, "max_pool2d") == 0))
        return gs_name(c, "other elements in backward",
                       "dy is right, and what forward computed too, but backward sends dy to other elements "
                       "than those that forward %s",
                       relu ? "let through" : "took");
    return gs_name(c, "backward of a layer",
                   "dy is right, and what forward computed too: backward of %s computes something else", op);
}
