/* The optimiser's vectors, the weights after the update, and the layers' state, where the summed gradient is right. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "explain/causes.h"
#include "explain/fit.h"
#include "explain/sums.h"

/* A difference as a sum: of weights, of the gradient as the update takes it, of what the vector was before. */
typedef struct parts {
    double weights, gradient, before;
    bool has_before;
} parts;

static bool whole(const gs_digests *d, uint64_t step, int kind, int p, gs_numbers *out) {
    return gs_has_step(d, step) && gs_whole_of_run(d, step, kind, p, out);
}

static bool first_vector_of(const gs_case *c, int p, gs_numbers *difference) {
    int r = 0;
    gs_numbers b;
    gs_ranks_of(c, &r);
    if (c->a->param[p].state || !gs_whole(c->a, r, c->d->step, GS_DIGEST_vector0, p, difference) ||
        !whole(c->b, c->d->step, GS_DIGEST_vector0, p, &b))
        return false;
    gs_numbers_add_scaled(difference, -1, &b);
    return true;
}

static bool find_parts(const gs_case *c, parts *out) {
    gs_fit fit = {.count = 3};
    double f[3] = {0, 0, 0}, rest;
    gs_numbers y, x[3];
    *out = (parts){0};
    if (c->d->kind != GS_DIGEST_vector0) return false;
    const double scale = gs_digests_score(c->b, 0, c->d->step)->scale;
    for (int p = 0; p < c->a->params; p++)
        out->has_before |= whole(c->b, c->d->step - 1, GS_DIGEST_vector0, p, &x[2]);
    if (!out->has_before) fit.count = 2;
    for (int p = 0; p < c->a->params; p++) {
        gs_numbers sum;
        x[1] = x[2] = (gs_numbers){0};
        if (!first_vector_of(c, p, &y) || !gs_weights_read(c->b, c->d->step, p, &x[0]) ||
            !whole(c->b, c->d->step, GS_DIGEST_sum, p, &sum))
            continue;
        gs_numbers_add_scaled(&x[1], scale, &sum);
        whole(c->b, c->d->step - 1, GS_DIGEST_vector0, p, &x[2]);
        gs_fit_add(&fit, &y, (const gs_numbers *const[]){&x[0], &x[1], &x[2]});
    }
    if (!gs_fit_solve(&fit, f, &rest) || rest > 1e-2) return false;
    *out = (parts){f[0], f[1], f[2], out->has_before};
    return true;
}

static bool small(double x, double beside) {
    return fabs(x) < 1e-3 * fmax(beside, 1e-3);
}

/* How often the decay is in the vector; it should be there once. */
static bool decay_times(const gs_case *c, double *times) {
    const double decay = gs_digests_number(c->b, "weight-decay");
    parts p;
    if (!(decay > 0) || !find_parts(c, &p) || !small(p.gradient, 1) || !small(p.before, 1) ||
        fabs(p.weights) < 1e-3 * decay)
        return false;
    *times = 1 + p.weights / decay;
    return true;
}

static bool through_moments(const gs_case *c) {
    double times;
    return strcmp(gs_digests_option(c->b, "optimizer"), "adamw") == 0 && decay_times(c, &times) &&
           gs_say(c, "the decay of weights is in the gradient, and so in both moments, as Adam has it: "
                     "AdamW's is a step of its own");
}

static bool decay_divided(const gs_case *c) {
    double times;
    return decay_times(c, &times) && fabs(times * gs_batch_of(c) - 1) < 0.2 &&
           gs_say(c,
                  "the decay of weights is divided by the %.0f samples: it was added to the sum of "
                  "gradients, before the division",
                  gs_batch_of(c));
}

static bool decay_missing(const gs_case *c) {
    double times;
    return decay_times(c, &times) && fabs(times) < 2e-3 && gs_say(c, "there is no decay of weights in it");
}

static bool decay_by_each_rank(const gs_case *c) {
    double times;
    return c->a->workers > 2 && decay_times(c, &times) && gs_is_near(times, c->a->workers) &&
           gs_say(c, "the decay of weights is in it %d times: each rank has added it before the sum",
                  c->a->workers);
}

static bool decay_twice(const gs_case *c) {
    double times;
    return decay_times(c, &times) && fabs(times - 2) < 1e-2 &&
           gs_say(c, "the decay of weights is in it twice");
}

static bool decay_otherwise(const gs_case *c) {
    double times;
    return decay_times(c, &times) && gs_say(c, "the decay of weights is %.3g times what it should be", times);
}

static double momentum_of(const gs_digests *d) {
    const double momentum = gs_digests_number(d, "momentum");
    return momentum > 0 ? momentum : gs_digests_number(d, "beta1");
}

static bool before_lost(const gs_case *c) {
    parts p;
    return find_parts(c, &p) && p.has_before && small(p.gradient, 1) &&
           fabs(p.before + momentum_of(c->b)) < 1e-2;
}

static bool vectors_not_restored(const gs_case *c) {
    return c->a->first > 1 && c->d->step == c->a->first && before_lost(c) &&
           gs_say(c,
                  "the run was resumed after step %" PRIu64
                  ", and what the optimiser had of earlier gradients is gone: its vectors were not restored",
                  c->a->first - 1);
}

static bool vectors_lost(const gs_case *c) {
    return before_lost(c) &&
           gs_say(c, "what the optimiser had of earlier gradients is gone on %s: its vector was cleared",
                  gs_ranks_text(c));
}

static bool other_momentum(const gs_case *c) {
    parts p;
    return find_parts(c, &p) && p.has_before && small(p.gradient, 1) && !small(p.before, 1) &&
           gs_say(c, "earlier gradients have the factor %.4g, and not %.4g: another momentum",
                  momentum_of(c->b) + p.before, momentum_of(c->b));
}

static bool rate_in_momentum(const gs_case *c) {
    parts p;
    const double lr = gs_digests_score(c->b, 0, c->d->step)->lr;
    return find_parts(c, &p) && small(p.before, 1) && fabs(p.gradient + 1 - lr) < 1e-3 &&
           gs_say(c, "the gradient enters the vector times the learning rate: a later change of the rate "
                     "does not reach it");
}

static bool dampened(const gs_case *c) {
    parts p;
    return find_parts(c, &p) && small(p.before, 1) && !small(p.gradient, 1) &&
           gs_say(c, "the gradient enters the vector with the factor %.4g, and should enter it as it is",
                  1 + p.gradient);
}

static bool second_moment(const gs_case *c) {
    gs_numbers a, b;
    double ratio = 0;
    int r = 0;
    gs_ranks_of(c, &r);
    if (c->d->kind != GS_DIGEST_vector1 ||
        !gs_whole(c->a, r, c->d->step, GS_DIGEST_vector1, c->d->number, &a) ||
        !whole(c->b, c->d->step, GS_DIGEST_vector1, c->d->number, &b))
        return false;
    return gs_ratio(&a, &b, &ratio) ? gs_say(c,
                                             "the mean of squares is %.4g times what it should be: another "
                                             "beta2, or squares of the sum",
                                             ratio)
                                    : gs_say(c, "the first moment is right, but the mean of squares is not");
}

static bool other_vector(const gs_case *c) {
    return c->d->kind <= GS_DIGEST_vector1 &&
           gs_say(c, "the gradient is right, but on %s the optimiser makes another vector from it",
                  gs_ranks_text(c));
}

/* ---- weights, where the vectors are right ---- */

/* What the update has changed, on the first rank that differs. */
static bool changes(const gs_case *c, int p, gs_numbers *a, gs_numbers *b) {
    gs_numbers before;
    int r = 0;
    gs_ranks_of(c, &r);
    if (c->a->param[p].state || c->d->kind != GS_DIGEST_updated ||
        !gs_holds(c->a, r, c->d->step, c->d->kind, p) || !gs_whole(c->a, r, c->d->step, c->d->kind, p, a) ||
        !whole(c->b, c->d->step, c->d->kind, p, b) || !gs_weights_read(c->b, c->d->step, p, &before))
        return false;
    gs_numbers_add_scaled(a, -1, &before);
    gs_numbers_add_scaled(b, -1, &before);
    return true;
}

/* A's change is `change` times B's, and `weights` times the weights more. */
static bool find_change(const gs_case *c, double *change, double *weights) {
    gs_fit fit = {.count = 2};
    double f[2], rest;
    for (int p = 0; p < c->a->params; p++) {
        gs_numbers a, b, w;
        if (changes(c, p, &a, &b) && gs_weights_read(c->b, c->d->step, p, &w))
            gs_fit_add(&fit, &a, (const gs_numbers *const[]){&b, &w});
    }
    if (!gs_fit_solve(&fit, f, &rest) || rest > 3e-2)
        return false; /* Adam has an epsilon that is not linear */
    *change = f[0];
    *weights = f[1];
    return true;
}

static double correction(double beta1, double beta2, double t) {
    return sqrt(1 - pow(beta2, t)) / (1 - pow(beta1, t));
}

static bool adam_factor(const gs_case *c, double *change, double *t, double *beta1, double *beta2) {
    double weights;
    *beta1 = gs_digests_number(c->b, "beta1");
    *beta2 = gs_digests_number(c->b, "beta2");
    *t = gs_digests_score(c->b, 0, c->d->step)->updates;
    return *beta1 > 0 && *beta2 > 0 && *t > 0 && find_change(c, change, &weights) && fabs(weights) < 1e-4;
}

static bool correction_off(const gs_case *c) {
    double change, t, beta1, beta2;
    if (!adam_factor(c, &change, &t, &beta1, &beta2)) return false;
    for (int off = -1; off <= 1; off += 2)
        if (t + off > 0 &&
            fabs(change / (correction(beta1, beta2, t + off) / correction(beta1, beta2, t)) - 1) < 1e-2)
            return gs_say(c,
                          "the moments are right, but the correction of their bias is that of update %.0f, "
                          "and not %.0f",
                          t + off, t);
    return false;
}

static bool no_correction(const gs_case *c) {
    double change, t, beta1, beta2;
    return adam_factor(c, &change, &t, &beta1, &beta2) &&
           fabs(change * correction(beta1, beta2, t) - 1) < 1e-2 &&
           gs_say(c, "the moments are right, but the bias that they have at first is not corrected");
}

static bool decoupled_twice(const gs_case *c) {
    double change, weights;
    const double step = gs_digests_score(c->b, 0, c->d->step)->lr * gs_digests_number(c->b, "weight-decay");
    return find_change(c, &change, &weights) && step > 0 && fabs(change - 1) < 2e-2 &&
           fabs(weights) > 0.02 * step &&
           gs_say(c,
                  "the weights shrink %.3g times as much as they should: the decay, a step of its own, is "
                  "not made exactly once",
                  1 - weights / step);
}

static bool not_updated(const gs_case *c) {
    for (int p = 0; p < c->a->params; p++) {
        gs_numbers a, b, w;
        if (!changes(c, p, &a, &b) || !gs_weights_read(c->b, c->d->step, p, &w)) continue;
        if (gs_apart(&a, &(gs_numbers){0}) < 1e-7 * sqrt(w.squares) + 1e-12 &&
            gs_apart(&b, &(gs_numbers){0}) > 0 && p == c->d->number)
            return gs_say(c, "the vectors are right, but %s is not updated on %s", c->a->param[p].name,
                          gs_ranks_text(c));
    }
    return false;
}

static bool update_scaled(const gs_case *c) {
    double change, weights;
    return find_change(c, &change, &weights) && fabs(weights) < 1e-4 &&
           gs_say(c, "the vectors are right, but the weights change %.4g times as much as they should",
                  change);
}

/* Each tensor has a factor of its own, as optimisers with a trust ratio have. */
static bool trust_ratio(const gs_case *c) {
    const char *optimizer = gs_digests_option(c->b, "optimizer");
    return (strcmp(optimizer, "lars") == 0 || strcmp(optimizer, "lamb") == 0) &&
           gs_say(c,
                  "the factors by which %s scales the updates of tensors do not follow from whole tensors: "
                  "they are norms of parts, or of other vectors",
                  optimizer);
}

static bool other_update(const gs_case *c) {
    return c->d->kind == GS_DIGEST_updated &&
           gs_say(c, "the vectors are right, but on %s the update makes other weights from them",
                  gs_ranks_text(c));
}

/* ---- the layers' state ---- */

static const gs_numbers *state(const gs_digests *d, int rank, uint64_t step, int p) {
    return gs_has_step(d, step) ? gs_digests_find(d, rank, step, GS_DIGEST_state, p, 0) : NULL;
}

static bool state_of_each_rank(const gs_case *c) {
    for (int r = 1; r < c->a->workers && c->d->kind == GS_DIGEST_state; r++) {
        const gs_numbers *one = state(c->a, 0, c->d->step, c->d->number),
                         *other = state(c->a, r, c->d->step, c->d->number);
        if (one && other && !gs_alike(one, other))
            return gs_say(
                c, "ranks 0 and %d have other running statistics: each keeps those of its own samples", r);
    }
    return false;
}

static bool state_otherwise(const gs_case *c) {
    return c->d->kind == GS_DIGEST_state &&
           gs_say(c, "the statistics of the batch are right, but the running ones are not: another momentum, "
                     "or they were not updated once a step");
}

const gs_cause gs_causes_of_update[] = {{"decay through the moments", through_moments},
                                        {"decay divided by samples", decay_divided},
                                        {"no decay", decay_missing},
                                        {"decay added by each rank", decay_by_each_rank},
                                        {"decay twice", decay_twice},
                                        {"another decay", decay_otherwise},
                                        {"vectors not restored", vectors_not_restored},
                                        {"vectors cleared", vectors_lost},
                                        {"another momentum", other_momentum},
                                        {"rate inside the momentum", rate_in_momentum},
                                        {"gradient in the vector scaled", dampened},
                                        {"second moment", second_moment},
                                        {"another vector", other_vector},
                                        {"trust ratio", trust_ratio},
                                        {"bias correction off by one", correction_off},
                                        {"no bias correction", no_correction},
                                        {"decoupled decay", decoupled_twice},
                                        {"weights not updated", not_updated},
                                        {"update scaled", update_scaled},
                                        {"another update", other_update},
                                        {"running statistics of each rank", state_of_each_rank},
                                        {"running statistics", state_otherwise},
                                        {0}};
