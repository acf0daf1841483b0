/* The numbers of a step that are one each. */
#include <inttypes.h>
#include <math.h>

#include "explain/causes.h"
#include "explain/sums.h"

typedef struct both {
    const gs_digest_score *a, *b; /* of the first rank that differs */
    double workers;               /* that have parts of a batch of their own */
} both;

static both scores(const gs_case *c) {
    int r = 0;
    gs_ranks_of(c, &r);
    return (both){gs_digests_score(c->a, r, c->d->step), gs_digests_score(c->b, 0, c->d->step),
                  gs_parts_of_batch(c->a)};
}

/* ---- the learning rate ---- */

static bool lr_of_step(const gs_case *c, double lr, uint64_t *step) {
    for (*step = c->b->first; gs_has_step(c->b, *step); ++*step)
        if (*step != c->d->step && gs_is_near(lr, gs_digests_score(c->b, 0, *step)->lr)) return true;
    return false;
}

static bool schedule_begins_again(const gs_case *c) {
    uint64_t step;
    return c->d->kind == GS_DIFFERS_lr && c->a->first > 1 && lr_of_step(c, scores(c).a->lr, &step) &&
           step == c->d->step - c->a->first + 1 &&
           gs_say(c,
                  "the run was resumed, and has the learning rate of step %" PRIu64
                  ": its schedule begins again",
                  step);
}

static bool schedule_shifted(const gs_case *c) {
    uint64_t step;
    if (c->d->kind != GS_DIFFERS_lr || !lr_of_step(c, scores(c).a->lr, &step)) return false;
    if (step + 1 != c->d->step && (step != c->d->step + 1 || c->d->step < 2)) return false;
    return gs_say(c, "it is the rate of step %" PRIu64 ": the schedule is one step %s", step,
                  step < c->d->step ? "late" : "early");
}

/* The rate is that of step k s, or of (s - 1) k + 1. */
static bool schedule_faster(const gs_case *c) {
    uint64_t step;
    if (c->d->kind != GS_DIFFERS_lr || !lr_of_step(c, scores(c).a->lr, &step)) return false;
    const double times = gs_passes_of(c->a) > 1 ? gs_passes_of(c->a) : gs_parts_of_batch(c->a),
                 s = (double)c->d->step;
    if (!(times > 1) ||
        (fabs((double)step - times * s) > 0.5 && fabs((double)step - (times * (s - 1) + 1)) > 0.5))
        return false;
    return gs_say(c,
                  "it is the rate of step %" PRIu64
                  ": the schedule advances %.0f times in each step, once for each %s",
                  step, times, gs_passes_of(c->a) > 1 ? "micro-batch" : "rank");
}

static bool lr_times_workers(const gs_case *c) {
    const both s = scores(c);
    return c->d->kind == GS_DIFFERS_lr && s.workers > 1 && gs_is_near(s.a->lr, s.workers * s.b->lr) &&
           gs_say(c, "the rate is %.0f times what it should be: it was multiplied by the number of ranks",
                  s.workers);
}

static bool other_lr(const gs_case *c) {
    const both s = scores(c);
    return c->d->kind == GS_DIFFERS_lr && gs_say(c, "the rate is %.6g, and should be %.6g", s.a->lr, s.b->lr);
}

/* ---- the norm, by which gradients are clipped ---- */

static bool norm_of_each_rank(const gs_case *c) {
    const both s = scores(c);
    return c->d->kind == GS_DIFFERS_norm && c->a->workers > 1 &&
           gs_is_near(s.a->norm, sqrt((double)c->a->workers) * s.b->norm) &&
           gs_say(c,
                  "the norm is sqrt(%d) times what it should be: each of the %d ranks has counted the same "
                  "gradients",
                  c->a->workers, c->a->workers);
}

static bool norm_of_own_part(const gs_case *c) {
    for (int r = 1; r < c->a->workers && c->d->kind == GS_DIFFERS_norm; r++)
        if (!gs_is_near(gs_digests_score(c->a, r, c->d->step)->norm,
                        gs_digests_score(c->a, 0, c->d->step)->norm))
            return gs_say(
                c,
                "ranks 0 and %d have different norms: each has that of its own part, and they were not added",
                r);
    return false;
}

static bool norm_scaled(const gs_case *c) {
    const both s = scores(c);
    return c->d->kind == GS_DIFFERS_norm && s.b->loss_scale > 0 &&
           gs_is_near(s.a->norm, s.b->loss_scale * s.b->norm) &&
           gs_say(c,
                  "the norm is that of gradients that are still scaled by %g: the loss scale must be undone "
                  "before clipping",
                  s.b->loss_scale);
}

static bool norm_of_sum(const gs_case *c) {
    const both s = scores(c);
    return c->d->kind == GS_DIFFERS_norm && gs_is_near(s.a->norm, s.b->samples * s.b->norm) &&
           gs_say(c, "the norm is that of the sum over %.0f samples, and not of their mean", s.b->samples);
}

/* Squares add up, so a tensor that is missing is found by what is missing. */
static bool norm_without_tensor(const gs_case *c) {
    const both s = scores(c);
    double all = 0;
    if (c->d->kind != GS_DIFFERS_norm || !(s.b->norm > 0)) return false;
    for (int pass = 0; pass < 2; pass++)
        for (int p = 0; p < c->b->params; p++) {
            gs_numbers x;
            if (c->b->param[p].state || !gs_whole_of_run(c->b, c->d->step, GS_DIGEST_sum, p, &x)) continue;
            if (pass == 0) all += x.squares;
            const double without = sqrt(1 - x.squares / all);
            if (pass == 1 && fabs(s.a->norm / s.b->norm - without) < 1e-4)
                return gs_say(c, "the norm is that of all tensors but %s", c->b->param[p].name);
            if (pass == 1 && fabs(s.a->norm / s.b->norm - sqrt(1 + x.squares / all)) < 1e-4)
                return gs_say(c, "the norm counts %s twice", c->b->param[p].name);
        }
    return false;
}

static bool other_norm(const gs_case *c) {
    const both s = scores(c);
    return c->d->kind == GS_DIFFERS_norm &&
           gs_say(c, "the gradients are right, but their norm is %.6g, and should be %.6g", s.a->norm,
                  s.b->norm);
}

/* ---- what the sum is divided by ---- */

static bool ratio_of_scale(const gs_case *c, double *ratio) {
    const both s = scores(c);
    *ratio = s.b->scale > 0 ? s.a->scale / s.b->scale : 0;
    return c->d->kind == GS_DIFFERS_scale && *ratio > 0;
}

static bool not_clipped(const gs_case *c) {
    const both s = scores(c);
    double ratio;
    return ratio_of_scale(c, &ratio) && gs_digests_number(c->a, "clip") > 0 &&
           s.b->scale * s.b->samples < 0.999 && gs_is_near(s.a->scale * s.b->samples, 1) &&
           gs_say(
               c,
               "the norm is known, but the gradients are not clipped: they are %.4g times as long as allowed",
               ratio);
}

/* The whole batch, where the last one of an epoch has fewer samples. */
static bool ragged(const gs_case *c) {
    double ratio, whole = 0;
    if (!ratio_of_scale(c, &ratio)) return false;
    for (uint64_t step = c->b->first; gs_has_step(c->b, step); step++)
        whole = fmax(whole, gs_digests_score(c->b, 0, step)->samples);
    return gs_batch_of(c) < whole && gs_is_near(ratio, gs_batch_of(c) / whole) &&
           gs_say(
               c,
               "the sum over %.0f samples is divided by %.0f, the size of a whole batch: this one is ragged",
               gs_batch_of(c), whole);
}

static bool by_own_samples(const gs_case *c) {
    const both s = scores(c);
    double ratio;
    return ratio_of_scale(c, &ratio) && s.workers > 1 && gs_is_near(ratio, s.workers) &&
           gs_say(c, "the sum over all ranks is divided by the samples of one: it is %.0f times too large",
                  ratio);
}

static bool by_micro_batch(const gs_case *c) {
    const double passes = gs_passes_of(c->a);
    double ratio;
    return ratio_of_scale(c, &ratio) && passes > 1 && gs_is_near(ratio, passes) &&
           gs_say(
               c,
               "the sum over all micro-batches is divided by the samples of one: it is %.0f times too large",
               ratio);
}

static bool loss_scale_left(const gs_case *c) {
    const both s = scores(c);
    double ratio;
    return ratio_of_scale(c, &ratio) && s.b->loss_scale > 0 && gs_is_near(ratio, s.b->loss_scale) &&
           gs_say(c, "the update is %g times too large: the loss scale is not undone", s.b->loss_scale);
}

static bool other_scale(const gs_case *c) {
    double ratio;
    return ratio_of_scale(c, &ratio) &&
           gs_say(c, "the factor by which the sum is multiplied is %.4g times what it should be", ratio);
}

/* ---- counts ---- */

static bool updates_begin_again(const gs_case *c) {
    const both s = scores(c);
    return c->d->kind == GS_DIFFERS_updates && c->a->first > 1 && s.a->updates < s.b->updates &&
           gs_say(c,
                  "the run was resumed, but its optimiser counts %.0f updates, and not %.0f: the count was "
                  "not restored, and the correction of bias begins again",
                  s.a->updates, s.b->updates);
}

static bool updated_twice(const gs_case *c) {
    const both s = scores(c);
    return c->d->kind == GS_DIFFERS_updates && s.a->updates > s.b->updates &&
           gs_say(c, "%.0f updates were made on %s, where %.0f are wanted: a step updates more than once",
                  s.a->updates, gs_ranks_text(c), s.b->updates);
}

static bool update_missing(const gs_case *c) {
    const both s = scores(c);
    return c->d->kind == GS_DIFFERS_updates && s.a->updates < s.b->updates &&
           gs_say(c, "an update was left out on %s", gs_ranks_text(c));
}

/* The factor is 0 until an update takes one. */
static bool no_update(const gs_case *c) {
    const both s = scores(c);
    return c->d->kind == GS_DIFFERS_scale && s.a->scale == 0 && s.b->scale > 0 &&
           gs_say(c, "no update was made on %s, though it was counted", gs_ranks_text(c));
}

static bool other_count(const gs_case *c) {
    const both s = scores(c);
    return c->d->kind == GS_DIFFERS_count &&
           gs_say(c, "the counts say %.0f samples, and should say %.0f", s.a->samples, s.b->samples);
}

static bool other_loss(const gs_case *c) {
    const both s = scores(c);
    return c->d->kind == GS_DIFFERS_loss &&
           gs_say(c, "the gradients are right, but the loss that is shown is %.4g times what it should be",
                  s.a->loss / s.b->loss);
}

static bool other_loss_scale(const gs_case *c) {
    return c->d->kind == GS_DIFFERS_loss_scale &&
           gs_say(c,
                  "the loss scale on %s is another one, or another step was left out: the ranks do not agree",
                  gs_ranks_text(c));
}

const gs_cause gs_causes_of_scores[] = {{"schedule begins again at resume", schedule_begins_again},
                                        {"schedule stepped more than once", schedule_faster},
                                        {"schedule one step off", schedule_shifted},
                                        {"rate times workers", lr_times_workers},
                                        {"another rate", other_lr},
                                        {"norm of scaled gradients", norm_scaled},
                                        {"norm counted by each rank", norm_of_each_rank},
                                        {"norm of a rank's own part", norm_of_own_part},
                                        {"norm of the sum", norm_of_sum},
                                        {"norm without a tensor", norm_without_tensor},
                                        {"another norm", other_norm},
                                        {"loss scale not undone", loss_scale_left},
                                        {"not clipped", not_clipped},
                                        {"ragged batch divided as a whole one", ragged},
                                        {"divided by a rank's samples", by_own_samples},
                                        {"divided by a micro-batch's samples", by_micro_batch},
                                        {"sum divided otherwise", other_scale},
                                        {"updates not counted on at resume", updates_begin_again},
                                        {"updated twice", updated_twice},
                                        {"update missing", update_missing},
                                        {"update missing", no_update},
                                        {"counts differ", other_count},
                                        {"loss shown differs", other_loss},
                                        {"loss scale differs", other_loss_scale},
                                        {0}};
