/* What an update takes and makes, where the summed gradient is right: the single numbers of a step, the optimiser's
 * vectors, the updated weights, and the layers' state. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "explain/causes.h"
#include "optim/optimizer.h"

/* ---- the learning rate ---- */

/* Another step in which the right run has A's rate; 0: there is none. */
static uint64_t step_of_rate(const gs_case *c) {
    for (uint64_t step = c->b->first; gs_digest_has_step(c->b, step); step++)
        if (step != c->step && gs_is_near(c->of_a->lr, gs_digests_score(c->b, 0, step)->lr)) return step;
    return 0;
}

bool gs_cause_of_rate(const gs_case *c) {
    const uint64_t of = step_of_rate(c);
    const double times = c->passes > 1 ? c->passes : c->workers, step = (double)c->step;
    if (of && c->a->first > 1 && of == c->step - c->a->first + 1)
        return gs_name(c, "schedule begins again at resume",
                       "it is the rate of step %" PRIu64 ": the schedule begins again with the resumed run",
                       of);
    /* The rate is that of step k s, or of (s - 1) k + 1. */
    if (of && times > 1 &&
        (fabs((double)of - times * step) <= 0.5 || fabs((double)of - (times * (step - 1) + 1)) <= 0.5))
        return gs_name(c, "schedule stepped more than once",
                       "it is the rate of step %" PRIu64 ": the schedule advances once for each %s", of,
                       c->passes > 1 ? "micro-batch" : "rank");
    if (of && (of + 1 == c->step || (of == c->step + 1 && c->step >= 2)))
        return gs_name(c, "schedule one step off",
                       "it is the rate of step %" PRIu64 ": the schedule is one step %s", of,
                       of < c->step ? "late" : "early");
    return c->workers > 1 && gs_is_near(c->ratio, c->workers) &&
           gs_name(c, "rate times workers", "it was multiplied by the number of ranks, %.0f", c->workers);
}

/* ---- the norm, by which gradients are clipped ---- */

/* Squares add up, so a missing tensor is found by what is missing. */
static bool norm_without_tensor(const gs_case *c) {
    gs_sketch x;
    double all = 0;
    for (int p = 0; p < c->b->params; p++)
        if (!c->b->param[p].state && gs_digest_of_run(c->b, c->step, GS_DIGEST_sum, p, &x)) all += x.squares;
    for (int p = 0; p < c->b->params; p++) {
        if (c->b->param[p].state || !gs_digest_of_run(c->b, c->step, GS_DIGEST_sum, p, &x)) continue;
        if (fabs(c->ratio - sqrt(1 - x.squares / all)) < 1e-4)
            return gs_name(c, "norm without a tensor", "it is the norm of all tensors except %s",
                           c->b->param[p].name);
        if (fabs(c->ratio - sqrt(1 + x.squares / all)) < 1e-4)
            return gs_name(c, "norm without a tensor", "it counts %s twice", c->b->param[p].name);
    }
    return false;
}

bool gs_cause_of_norm(const gs_case *c) {
    const int workers = c->a->workers;
    if (c->of_b->loss_scale > 0 && gs_is_near(c->ratio, c->of_b->loss_scale))
        return gs_name(c, "norm of scaled gradients",
                       "the gradients are still scaled by %g: the loss scale must be undone before clipping",
                       c->of_b->loss_scale);
    if (workers > 1 && gs_is_near(c->ratio, sqrt((double)workers)))
        return gs_name(c, "norm counted by each rank",
                       "it is sqrt(%d) times too large: each of the %d ranks counts the same gradients",
                       workers, workers);
    for (int r = 1; r < workers; r++)
        if (!gs_is_near(gs_digests_score(c->a, r, c->step)->norm, gs_digests_score(c->a, 0, c->step)->norm))
            return gs_name(c, "norm of a rank's own part",
                           "ranks 0 and %d have different norms: each takes only its own part", r);
    if (gs_is_near(c->ratio, c->of_b->samples))
        return gs_name(c, "norm of the sum", "it is the norm of the sum over %.0f samples, not of their mean",
                       c->of_b->samples);
    return norm_without_tensor(c);
}

/* ---- what the sum is divided by ---- */

bool gs_cause_of_scale(const gs_case *c) {
    const double ratio = c->ratio, samples = c->of_b->samples;
    double whole = 0; /* the whole batch, where the last one of an epoch has fewer samples */
    for (uint64_t step = c->b->first; gs_digest_has_step(c->b, step); step++)
        whole = fmax(whole, gs_digests_score(c->b, 0, step)->samples);
    if (c->of_a->scale == 0) /* until an update takes one */
        return gs_name(c, "update missing", "no update was made, though it was counted");
    if (c->of_b->loss_scale > 0 && gs_is_near(ratio, c->of_b->loss_scale))
        return gs_name(c, "loss scale not undone",
                       "the update is %g times too large: the loss scale is not undone", c->of_b->loss_scale);
    if (gs_digests_number(c->a, "clip") > 0 && c->of_b->scale * samples < 0.999 &&
        gs_is_near(c->of_a->scale * samples, 1))
        return gs_name(c, "not clipped",
                       "the gradients are not clipped: they are %.4g times as long as allowed", ratio);
    if (samples < whole && gs_is_near(ratio, samples / whole))
        return gs_name(c, "ragged batch divided as a whole one",
                       "the sum over %.0f samples is divided by %.0f, as that of a whole batch", samples,
                       whole);
    if (c->workers > 1 && gs_is_near(ratio, c->workers))
        return gs_name(c, "divided by a rank's samples",
                       "the sum over all ranks is divided by one rank's samples: %.0f times too large",
                       ratio);
    return c->passes > 1 && gs_is_near(ratio, c->passes) &&
           gs_name(c, "divided by a micro-batch's samples",
                   "the sum over all micro-batches is divided by one's samples: %.0f times too large", ratio);
}

/* ---- counts ---- */

bool gs_cause_of_updates(const gs_case *c) {
    const double updates = c->of_a->updates, wanted = c->of_b->updates;
    if (updates > wanted)
        return gs_name(c, "updated twice",
                       "%.0f updates were made instead of %.0f: a step updates more than once", updates,
                       wanted);
    if (c->a->first > 1)
        return gs_name(
            c, "updates not counted on at resume",
            "the resumed optimiser counts %.0f instead of %.0f updates: the bias is corrected anew", updates,
            wanted);
    return gs_name(c, "update missing", "an update was left out");
}

bool gs_cause_of_loss_scale(const gs_case *c) {
    return gs_name(c, "loss scale differs",
                   "the ranks do not agree on the loss scale, or on whether to leave out a step");
}

/* ---- the vectors ---- */

/* The first one. y: by how much it differs; x: weights, the gradient as the update takes it, the vector before. */
static bool vector_parts(const gs_case *c, int p, gs_sketch *y, gs_sketch *x) {
    gs_sketch b, sum;
    if (!gs_digest_of_rank(c->a, c->rank, c->step, GS_DIGEST_vector0, p, 0, y) ||
        !gs_digest_of_run(c->b, c->step, GS_DIGEST_vector0, p, &b) ||
        !gs_digest_of_run(c->b, c->step, GS_DIGEST_weight, p, &x[0]) ||
        !gs_digest_of_run(c->b, c->step, GS_DIGEST_sum, p, &sum))
        return false;
    gs_sketch_add_scaled(y, -1, &b);
    x[1] = (gs_sketch){0};
    gs_sketch_add_scaled(&x[1], c->of_b->scale, &sum);
    (void)gs_digest_of_run(c->b, c->step - 1, GS_DIGEST_vector0, p, &x[2]);
    return true;
}

/* The decay is in the vector so many times; it should be there once. */
static bool name_decay(const gs_case *c, double times) {
    const double batch = c->of_b->samples;
    const int workers = c->a->workers;
    const gs_optimizer_ops *ops = gs_optimizer_named(gs_digests_option(c->b, "optimizer"));
    if (ops && ops->decoupled)
        return gs_name(c, "decay through the moments",
                       "weight decay enters the gradient, and so the moments, as in Adam");
    if (fabs(times * batch - 1) < 0.2)
        return gs_name(c, "decay divided by samples",
                       "weight decay is divided by %.0f samples: it was added before the division", batch);
    if (fabs(times) < 2e-3) return gs_name(c, "no decay", "it has no weight decay");
    if (workers > 2 && gs_is_near(times, workers))
        return gs_name(c, "decay added by each rank",
                       "each of the %d ranks has added weight decay before the sum", workers);
    if (fabs(times - 2) < 1e-2) return gs_name(c, "decay twice", "weight decay is in it twice");
    return gs_name(c, "another decay", "weight decay is %.3g times what it should be", times);
}

/* What the vector had of earlier gradients is gone. */
static bool name_gone(const gs_case *c) {
    if (c->a->first == 1 || c->step > c->a->first)
        return gs_name(c, "vectors cleared", "earlier gradients are gone from the vector: it was cleared");
    return gs_name(c, "vectors not restored",
                   "earlier gradients are gone: vectors were not restored after step %" PRIu64,
                   c->a->first - 1);
}

/* Lion's one moment: m = beta2 m + (1 - beta2) g, whose bias is not corrected. Adam's first has beta1. */
static bool has_one_moment(const gs_case *c) {
    const gs_optimizer_ops *ops = gs_optimizer_named(gs_digests_option(c->b, "optimizer"));
    return ops && !ops->vector[1] && gs_digests_number(c->b, "beta2") > 0;
}

bool gs_cause_of_vector0(const gs_case *c) {
    const double decay = gs_digests_number(c->b, "weight-decay"),
                 of_sgd = gs_digests_number(c->b, "momentum"),
                 beta = gs_digests_number(c->b, has_one_moment(c) ? "beta2" : "beta1"),
                 momentum = of_sgd > 0 ? of_sgd : beta;
    /* How often it has weights, the gradient, and itself before, beyond what it should. */
    double of[3] = {0, 0, 0};
    gs_sketch x;
    bool before = false;
    for (int p = 0; p < c->a->params; p++)
        before |= gs_digest_of_run(c->b, c->step - 1, GS_DIGEST_vector0, p, &x);
    const bool fits = gs_fit_params(c, before ? 3 : 2, vector_parts, 1e-2, of),
               right_gradient = fits && fabs(of[1]) < 1e-3, right_before = fits && fabs(of[2]) < 1e-3;
    if (decay > 0 && right_gradient && right_before && !(fabs(of[0]) < 1e-3 * decay))
        return name_decay(c, 1 + of[0] / decay);
    if (before && right_gradient && fabs(of[2] + momentum) < 1e-2) return name_gone(c);
    if (before && right_gradient && !right_before)
        return gs_name(c, "another momentum", "earlier gradients have the factor %.4g instead of %.4g",
                       momentum + of[2], momentum);
    if (right_before && fabs(of[1] + 1 - c->of_b->lr) < 1e-3)
        return gs_name(c, "rate inside the momentum",
                       "the gradient enters it times the rate, so a later rate does not apply to it");
    if (right_before && !right_gradient)
        return gs_name(c, "gradient in the vector scaled",
                       "the gradient enters it with the factor %.4g instead of 1", 1 + of[1]);
    return gs_name(c, "another vector",
                   "the gradient is right, but the optimiser makes another vector from it");
}

bool gs_cause_of_vector1(const gs_case *c) {
    if (isnan(c->ratio))
        return gs_name(c, "second moment", "the first moment is right, but the mean of squares is not");
    return gs_name(c, "second moment", "the mean of squares is %.4g times what it should be", c->ratio);
}

/* ---- weights, where the vectors are right ---- */

/* What the update has changed, on the first rank that differs: y in A, x[0] in B; x[1]: the weights before it. */
static bool changes(const gs_case *c, int p, gs_sketch *y, gs_sketch *x) {
    if (!gs_digest_of_rank(c->a, c->rank, c->step, GS_DIGEST_updated, p, 0, y) ||
        !gs_digest_of_run(c->b, c->step, GS_DIGEST_updated, p, &x[0]) ||
        !gs_digest_of_run(c->b, c->step, GS_DIGEST_weight, p, &x[1]))
        return false;
    gs_sketch_add_scaled(y, -1, &x[1]);
    gs_sketch_add_scaled(&x[0], -1, &x[1]);
    return true;
}

/* Adam's, of the bias of both moments after t updates. */
static double correction(const gs_case *c, double t) {
    return sqrt(1 - pow(gs_digests_number(c->b, "beta2"), t)) /
           (1 - pow(gs_digests_number(c->b, "beta1"), t));
}

static bool name_correction(const gs_case *c, double change) {
    const double t = c->of_b->updates;
    if (!(gs_digests_number(c->b, "beta1") > 0 && gs_digests_number(c->b, "beta2") > 0 && t > 0) ||
        has_one_moment(c))
        return false;
    for (int off = -1; off <= 1; off += 2)
        if (t + off > 0 && fabs(change / (correction(c, t + off) / correction(c, t)) - 1) < 1e-2)
            return gs_name(c, "bias correction off by one",
                           "the moments are right, but corrected as in update %.0f instead of %.0f", t + off,
                           t);
    return fabs(change * correction(c, t) - 1) < 1e-2 &&
           gs_name(c, "no bias correction", "the moments are right, but their bias is not corrected");
}

static bool not_updated(const gs_case *c) {
    const gs_sketch nothing = {0};
    gs_sketch y, x[2];
    return changes(c, c->number, &y, x) &&
           gs_sketch_distance(&y, &nothing) < 1e-7 * sqrt(x[1].squares) + 1e-12 &&
           gs_sketch_distance(&x[0], &nothing) > 0;
}

bool gs_cause_of_updated(const gs_case *c) {
    const char *optimizer = gs_digests_option(c->b, "optimizer");
    const double step = c->of_b->lr * gs_digests_number(c->b, "weight-decay");
    double f[2];
    /* Each tensor has a factor of its own, as optimisers with a trust ratio have. */
    const gs_optimizer_ops *ops = gs_optimizer_named(optimizer);
    if (ops && ops->whole)
        return gs_name(c, "trust ratio",
                       "%s scales the updates by norms of parts of tensors, or of other vectors", optimizer);
    /* A's change is f[0] times B's, and f[1] times the weights more. Adam has an epsilon that is not linear. */
    const bool fits = gs_fit_params(c, 2, changes, 3e-2, f), change_alone = fits && fabs(f[1]) < 1e-4;
    if (change_alone && name_correction(c, f[0])) return true;
    if (fits && step > 0 && fabs(f[0] - 1) < 2e-2 && fabs(f[1]) > 0.02 * step)
        return gs_name(c, "decoupled decay", "the weights decay %.3g times as much as they should",
                       1 - f[1] / step);
    if (not_updated(c))
        return gs_name(c, "weights not updated", "the vectors are right, but %s is not updated",
                       c->a->param[c->number].name);
    if (change_alone)
        return gs_name(c, "update scaled", "the vectors are right, but the weights move %.4g times as far",
                       f[0]);
    return gs_name(c, "another update",
                   "the vectors are right, but the update makes other weights from them");
}

/* ---- the layers' state ---- */

bool gs_cause_of_state(const gs_case *c) {
    for (int r = 1; r < c->a->workers; r++) {
        const gs_sketch *one = gs_digests_find(c->a, 0, c->step, GS_DIGEST_state, c->number, 0),
                        *other = gs_digests_find(c->a, r, c->step, GS_DIGEST_state, c->number, 0);
        if (one && other && !gs_sketch_alike(one, other))
            return gs_name(c, "running statistics of each rank",
                           "ranks 0 and %d differ: each keeps the statistics of its own samples", r);
    }
    return gs_name(c, "running statistics", "the batch's statistics are right, but not their moving average");
}
