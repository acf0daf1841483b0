/* The numbers of a step that are one each. */
#include <inttypes.h>
#include <math.h>

#include "explain/causes.h"

/* ---- the learning rate ---- */

/* Another step, in which the right run has A's rate; 0: there is none. */
static uint64_t step_of_rate(const gs_case *c) {
    for (uint64_t step = c->b->first; gs_has_step(c->b, step); step++)
        if (step != c->step && gs_is_near(c->of_a->lr, gs_digests_score(c->b, 0, step)->lr)) return step;
    return 0;
}

static bool name_rate(const gs_case *c) {
    const uint64_t of = step_of_rate(c);
    const double times = c->passes > 1 ? c->passes : c->workers, step = (double)c->step;
    if (of && c->a->first > 1 && of == c->step - c->a->first + 1)
        return gs_name(c, "schedule begins again at resume",
                       "the run was resumed, and has the learning rate of step %" PRIu64
                       ": its schedule begins again",
                       of);
    /* The rate is that of step k s, or of (s - 1) k + 1. */
    if (of && times > 1 &&
        (fabs((double)of - times * step) <= 0.5 || fabs((double)of - (times * (step - 1) + 1)) <= 0.5))
        return gs_name(c, "schedule stepped more than once",
                       "it is the rate of step %" PRIu64
                       ": the schedule advances %.0f times in each step, once for each %s",
                       of, times, c->passes > 1 ? "micro-batch" : "rank");
    if (of && (of + 1 == c->step || (of == c->step + 1 && c->step >= 2)))
        return gs_name(c, "schedule one step off",
                       "it is the rate of step %" PRIu64 ": the schedule is one step %s", of,
                       of < c->step ? "late" : "early");
    return c->workers > 1 && gs_is_near(c->ratio, c->workers) &&
           gs_name(c, "rate times workers",
                   "the rate is %.0f times what it should be: it was multiplied by the number of ranks",
                   c->workers);
}

/* ---- the norm, by which gradients are clipped ---- */

/* Squares add up, so a tensor that is missing is found by what is missing. */
static bool norm_without_tensor(const gs_case *c) {
    gs_numbers x;
    double all = 0;
    for (int p = 0; p < c->b->params; p++)
        if (!c->b->param[p].state && gs_of_run(c->b, c->step, GS_DIGEST_sum, p, &x)) all += x.squares;
    for (int p = 0; p < c->b->params; p++) {
        if (c->b->param[p].state || !gs_of_run(c->b, c->step, GS_DIGEST_sum, p, &x)) continue;
        if (fabs(c->ratio - sqrt(1 - x.squares / all)) < 1e-4)
            return gs_name(c, "norm without a tensor", "the norm is that of all tensors but %s",
                           c->b->param[p].name);
        if (fabs(c->ratio - sqrt(1 + x.squares / all)) < 1e-4)
            return gs_name(c, "norm without a tensor", "the norm counts %s twice", c->b->param[p].name);
    }
    return false;
}

static bool name_norm(const gs_case *c) {
    const int workers = c->a->workers;
    if (c->of_b->loss_scale > 0 && gs_is_near(c->ratio, c->of_b->loss_scale))
        return gs_name(c, "norm of scaled gradients",
                       "the norm is that of gradients that are still scaled by %g: the loss scale must be "
                       "undone before clipping",
                       c->of_b->loss_scale);
    if (workers > 1 && gs_is_near(c->ratio, sqrt((double)workers)))
        return gs_name(c, "norm counted by each rank",
                       "the norm is sqrt(%d) times what it should be: each of the %d ranks has counted the "
                       "same gradients",
                       workers, workers);
    for (int r = 1; r < workers; r++)
        if (!gs_is_near(gs_digests_score(c->a, r, c->step)->norm, gs_digests_score(c->a, 0, c->step)->norm))
            return gs_name(
                c, "norm of a rank's own part",
                "ranks 0 and %d have different norms: each has that of its own part, and they were "
                "not added",
                r);
    if (gs_is_near(c->ratio, c->of_b->samples))
        return gs_name(c, "norm of the sum",
                       "the norm is that of the sum over %.0f samples, and not of their mean",
                       c->of_b->samples);
    return norm_without_tensor(c);
}

/* ---- what the sum is divided by ---- */

static bool name_scale(const gs_case *c) {
    const double ratio = c->ratio, samples = c->of_b->samples;
    double whole = 0; /* the whole batch, where the last one of an epoch has fewer samples */
    for (uint64_t step = c->b->first; gs_has_step(c->b, step); step++)
        whole = fmax(whole, gs_digests_score(c->b, 0, step)->samples);
    if (c->of_a->scale == 0) /* until an update takes one */
        return gs_name(c, "update missing", "no update was made on %s, though it was counted", c->on);
    if (c->of_b->loss_scale > 0 && gs_is_near(ratio, c->of_b->loss_scale))
        return gs_name(c, "loss scale not undone",
                       "the update is %g times too large: the loss scale is not undone", c->of_b->loss_scale);
    if (gs_digests_number(c->a, "clip") > 0 && c->of_b->scale * samples < 0.999 &&
        gs_is_near(c->of_a->scale * samples, 1))
        return gs_name(c, "not clipped",
                       "the norm is known, but the gradients are not clipped: they are %.4g times as long as "
                       "allowed",
                       ratio);
    if (samples < whole && gs_is_near(ratio, samples / whole))
        return gs_name(c, "ragged batch divided as a whole one",
                       "the sum over %.0f samples is divided by %.0f, the size of a whole batch: this one is "
                       "ragged",
                       samples, whole);
    if (c->workers > 1 && gs_is_near(ratio, c->workers))
        return gs_name(c, "divided by a rank's samples",
                       "the sum over all ranks is divided by the samples of one: it is %.0f times too large",
                       ratio);
    return c->passes > 1 && gs_is_near(ratio, c->passes) &&
           gs_name(c, "divided by a micro-batch's samples",
                   "the sum over all micro-batches is divided by the samples of one: it is %.0f times too "
                   "large",
                   ratio);
}

/* ---- counts ---- */

static bool name_updates(const gs_case *c) {
    const double updates = c->of_a->updates, wanted = c->of_b->updates;
    if (updates > wanted)
        return gs_name(c, "updated twice",
                       "%.0f updates were made on %s, where %.0f are wanted: a step updates more than once",
                       updates, c->on, wanted);
    if (c->a->first > 1)
        return gs_name(c, "updates not counted on at resume",
                       "the run was resumed, but its optimiser counts %.0f updates, and not %.0f: the count "
                       "was not restored, and the correction of bias begins again",
                       updates, wanted);
    return gs_name(c, "update missing", "an update was left out on %s", c->on);
}

bool gs_cause_of_scores(const gs_case *c) {
    if ((c->kind == GS_DIFFERS_lr && name_rate(c)) || (c->kind == GS_DIFFERS_norm && name_norm(c)) ||
        (c->kind == GS_DIFFERS_scale && name_scale(c)) || (c->kind == GS_DIFFERS_updates && name_updates(c)))
        return true;
    if (c->kind == GS_DIFFERS_loss_scale)
        return gs_name(c, "loss scale differs",
                       "the loss scale on %s is another one, or another step was left out: the ranks do not "
                       "agree",
                       c->on);
    return gs_name(c, "another number", "it is %.6g on %s, and should be %.6g",
                   gs_score_number(c->of_a, c->kind), c->on, gs_score_number(c->of_b, c->kind));
}
