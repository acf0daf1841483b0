/* y of a layer, the gradient of the loss, and dx and dw of a layer, where everything before them is right. */
#include <math.h>
#include <string.h>

#include "explain/causes.h"

/* ---- y ---- */

/* Rank r draws in that pass of that step what it draws in the first pass of this one. */
static bool same_mask(const gs_case *c, int r, uint64_t step, int pass) {
    if (!gs_digest_has_step(c->a, step)) return false;
    const gs_sketch *x = gs_digests_find(c->a, r, c->step, GS_DIGEST_mask, c->number, 0),
                    *y = gs_digests_find(c->a, r, step, GS_DIGEST_mask, c->number, pass);
    return x && y && gs_sketch_alike(x, y);
}

static bool mask_is_repeated(const gs_case *c) {
    int first, second;
    if (gs_two_ranks_drew(c, GS_DIGEST_mask, &first, &second))
        return gs_name(c, "same dropout on all ranks",
                       "ranks %d and %d have the same mask: the random numbers depend neither on the rank "
                       "nor on the sample",
                       first, second);
    for (int r = 0; r < c->a->workers; r++)
        for (int pass = 1; pass < GS_DIGEST_PARTS; pass++)
            if (same_mask(c, r, c->step, pass))
                return gs_name(c, "same dropout in each micro-batch",
                               "micro-batches 0 and %d of rank %d have the same mask: each begins the random "
                               "numbers anew",
                               pass, r);
    for (int r = 0; r < c->a->workers; r++)
        if (same_mask(c, r, c->step - 1, 0))
            return gs_name(
                c, "same dropout in each step",
                "the mask is that of the step before: the random numbers do not depend on the step");
    return false;
}

/* y is x, and x is the y of a layer before it. */
static bool dropout_is_off(const gs_case *c) {
    for (int l = c->number - 1; l >= 0; l--)
        for (int e = 0; e < GS_DIGEST_EIGHTHS; e++) {
            gs_sketch y, x;
            if (gs_digest_total(c->a, GS_ALL_RANKS, c->step, GS_DIGEST_y, c->number, e, &y) &&
                gs_digest_total(c->b, GS_ALL_RANKS, c->step, GS_DIGEST_y, l, e, &x) &&
                gs_sketch_alike(&y, &x))
                return true;
        }
    return false;
}

static bool name_dropout(const gs_case *c) {
    if (mask_is_repeated(c)) return true;
    if (dropout_is_off(c))
        return gs_name(c, "dropout switched off",
                       "its output is its input: dropout is off, as it should be only in evaluation");
    if (!isnan(c->ratio))
        return gs_name(
            c, "dropout not scaled",
            "the mask is right, but what is kept is not divided by 1 - p: y is %.4g times as large",
            c->ratio);
    return gs_name(c, "other dropout",
                   "the mask comes from another seed, or from another position in the random numbers");
}

bool gs_cause_of_y(const gs_case *c) {
    const char *op = c->b->layer[c->number].op;
    if (gs_name_left_out(c)) return true;
    if (strcmp(op, "dropout") == 0) return name_dropout(c);
    /* y has the right mean where it is normalised by any statistics, also by those of a part. */
    if (strcmp(op, "batch_norm") == 0 && (c->workers > 1 || c->passes > 1))
        return gs_name(
            c, "statistics of a part of the batch",
            "the statistics are those of a rank's own samples, or of a micro-batch, and not of the batch");
    if (c->d->relative < 2e-2)
        return gs_name(c, "less precise",
                       "the difference is small (%.1g): products have fewer bits, as in bf16 or f16",
                       c->d->relative);
    if (!isnan(c->ratio)) return gs_name(c, "output scaled", "y is %.4g times what it should be", c->ratio);
    return gs_name(c, "forward of a layer",
                   "its input and weights are right, but forward of %s computes something else", op);
}

/* ---- dy of the loss ----
 *
 * Our losses are sums over samples, so a division too early or too late is a factor of some samples' dy. */

/* The factor of dy in each group of samples, relative to what it should be. Groups are the ranks' parts if both runs
 * have as many ranks, else the eighths of the batch. Neighbouring eighths with one factor are one micro-batch. */
typedef struct factors {
    int groups;
    double of[GS_DIGEST_RANKS], samples[GS_DIGEST_RANKS];
    bool equal;
} factors;

static bool find_factors(const gs_case *c, factors *f) {
    const bool of_ranks = c->a->workers > 1 && c->a->workers == c->b->workers;
    *f = (factors){.equal = true};
    for (int i = 0; i < (of_ranks ? c->a->workers : GS_DIGEST_EIGHTHS); i++) {
        const int rank = of_ranks ? i : GS_ALL_RANKS, part = of_ranks ? GS_ALL_PARTS : i;
        gs_sketch a, b;
        double factor;
        if (!gs_digest_total(c->b, rank, c->step, GS_DIGEST_dy, 0, part, &b)) continue;
        if (!gs_digest_total(c->a, rank, c->step, GS_DIGEST_dy, 0, part, &a) || fabs(a.n - b.n) > 0.5 ||
            !gs_sketch_ratio(&a, &b, &factor))
            return false;
        if (of_ranks || f->groups == 0 || !gs_is_near(factor, f->of[f->groups - 1])) f->groups++;
        f->of[f->groups - 1] = factor;
        f->samples[f->groups - 1] += b.n / c->right.n * c->of_b->samples;
        f->equal &= gs_is_near(factor, f->of[0]);
    }
    return f->groups > 0;
}

/* All samples have the factor f. */
static bool name_factor(const gs_case *c, double f) {
    const double passes = c->passes, workers = c->workers;
    if (passes > 1 && gs_is_near(f, passes))
        return gs_name(c, "micro-batch loss not divided",
                       "it is %.0f times too large: each micro-batch counts as a whole batch", passes);
    if (passes > 1 && gs_is_near(f, 1 / passes))
        return gs_name(c, "divided by micro-batches twice",
                       "it is divided by the number of micro-batches, %.0f, once too often", passes);
    if (workers > 1 && gs_is_near(f, 1 / workers))
        return gs_name(c, "divided by workers twice",
                       "each rank divides by the %.0f ranks, and the sum is divided by all samples again",
                       workers);
    if (workers > 1 && gs_is_near(f, workers))
        return gs_name(c, "loss times workers",
                       "it is multiplied by the %.0f ranks, to undo a mean that no rank takes", workers);
    return gs_name(c, "loss scaled", "it is %.4g times what it should be", f);
}

/* A mean of k means, of groups of n_i samples: the factor of group i is n / (k n_i). */
static bool is_mean_of_means(const factors *f) {
    const double product = f->of[0] * f->samples[0];
    for (int g = 1; g < f->groups; g++)
        if (fabs(f->of[g] * f->samples[g] - product) > 0.01 * fabs(product)) return false;
    return true;
}

static bool some_are_zero(const gs_case *c) {
    gs_sketch a;
    for (int e = 0; e < GS_DIGEST_EIGHTHS; e++)
        if (gs_digest_total(c->a, GS_ALL_RANKS, c->step, GS_DIGEST_dy, 0, e, &a) && !(a.squares > 0))
            return true;
    return false;
}

bool gs_cause_of_loss(const gs_case *c) {
    factors f;
    const bool found = find_factors(c, &f);
    if (found && f.equal && f.of[0] != 0 && !gs_is_near(f.of[0], 1)) return name_factor(c, f.of[0]);
    if (some_are_zero(c))
        return gs_name(c, "some samples masked",
                       "the loss of some samples has no gradient: they are masked, as padding is");
    const char *group = c->workers > 1 ? "rank" : "micro-batch";
    if (found && !f.equal && is_mean_of_means(&f))
        return gs_name(c, "mean of means",
                       "each %s takes the mean of its own samples, and all means weigh the same: the more "
                       "samples a %s has, the less each of them counts",
                       group, group);
    return gs_name(c, "another loss",
                   "the outputs and the targets are right: another loss, or another smoothing of labels");
}

/* ---- dw ---- */

/* y: by how much dw differs. */
static bool difference(const gs_case *c, int p, gs_sketch *y) {
    gs_sketch b;
    if (!gs_digest_of_run(c->a, c->step, GS_DIGEST_dw, p, y) ||
        !gs_digest_of_run(c->b, c->step, GS_DIGEST_dw, p, &b))
        return false;
    gs_sketch_add_scaled(y, -1, &b);
    return true;
}

/* x: what the first micro-batch of all ranks gave. */
static bool and_first_pass(const gs_case *c, int p, gs_sketch *y, gs_sketch *x) {
    return difference(c, p, y) && gs_digest_total(c->a, GS_ALL_RANKS, c->step, GS_DIGEST_dw, p, 0, x);
}

/* x: what the array of gradients holds after the step before, the sum. */
static bool and_sum_before(const gs_case *c, int p, gs_sketch *y, gs_sketch *x) {
    return difference(c, p, y) && gs_digest_of_run(c->a, c->step - 1, GS_DIGEST_sum, p, x);
}

static bool has_no_gradient(const gs_case *c) {
    for (int r = 0; r < c->a->workers; r++) {
        gs_sketch a;
        if (!gs_digest_total(c->a, r, c->step, GS_DIGEST_dw, c->number, GS_ALL_PARTS, &a) || a.squares > 0)
            continue;
        c->d->rank[r] = true;
        return gs_name(c, "no gradient on a rank", "backward did not reach this tensor on rank %d", r);
    }
    return false;
}

static bool is_borrowed(const gs_case *c) {
    for (int r = 0; r < c->b->workers; r++)
        if (gs_digests_find(c->b, r, c->step, GS_DIGEST_weight, c->number, 1)) return true;
    return false;
}

/* Rounding differs from element to element, and leaves the ratio nearer to 1 than this. */
static const double SCALED = 5e-4;

static bool name_backward(const gs_case *c, const char *op) {
    if (fabs(c->ratio - 1) > SCALED)
        return gs_name(c, "gradient of a layer scaled",
                       "dy is right, but this is %.4g times what it should be", c->ratio);
    if (strcmp(op, "batch_norm") == 0 && (c->workers > 1 || c->passes > 1))
        return gs_name(
            c, "batch_norm backward of a part",
            "forward takes statistics of the whole batch, but backward sums over a rank's own samples");
    if (c->kind == GS_DIGEST_dx && (strcmp(op, "relu") == 0 || strcmp(op, "max_pool2d") == 0))
        return gs_name(c, "other elements in backward",
                       "forward and dy are right, but dy goes to other elements than those that forward %s",
                       strcmp(op, "relu") == 0 ? "let through" : "took");
    return gs_name(c, "backward of a layer",
                   "forward and dy are right, but backward of %s computes something else", op);
}

bool gs_cause_of_dw(const gs_case *c) {
    double factor;
    if (gs_fit_params(c, 1, and_sum_before, 1e-3, &factor) && factor > 0.9)
        return gs_name(c, "gradients not cleared", "the gradients of the step before are still in it%s",
                       factor > 1.5 ? ", on each rank" : "");
    if (c->passes > 1 && c->workers > 1 && gs_fit_params(c, 1, and_first_pass, 1e-3, &factor) &&
        gs_is_near(factor, c->workers - 1))
        return gs_name(c, "summed after each micro-batch",
                       "the first micro-batch is in it %.0f times: what was summed over the ranks is summed "
                       "again with the next",
                       factor + 1);
    if (has_no_gradient(c)) return true;
    if (is_borrowed(c))
        return gs_name(
            c, "one use of a tied weight",
            "two layers share this tensor: the gradient of one of them is missing, or counts twice");
    return name_backward(c, c->b->layer[c->b->param[c->number].layer].op);
}

/* ---- dx ---- */

bool gs_cause_of_dx(const gs_case *c) {
    const char *op = c->b->layer[c->number].op;
    if (strcmp(op, "dropout") == 0)
        return gs_name(
            c, "other dropout in backward",
            "backward has drawn another mask than forward: the state of its random numbers was not restored");
    return name_backward(c, op);
}
