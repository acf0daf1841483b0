#include "explain/causes.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static gs_question *const question_of[GS_DIFFERS_KINDS] = {
    [GS_DIGEST_samples] = gs_cause_of_samples,
    [GS_DIGEST_answers] = gs_cause_of_targets,
    [GS_DIGEST_weight] = gs_cause_of_weights,
    [GS_DIGEST_x] = gs_cause_of_input,
    [GS_DIGEST_y] = gs_cause_of_y,
    [GS_DIGEST_dy] = gs_cause_of_loss,
    [GS_DIGEST_dw] = gs_cause_of_dw,
    [GS_DIGEST_dx] = gs_cause_of_dx,
    [GS_DIGEST_sum] = gs_cause_of_sum,
    [GS_DIGEST_vector0] = gs_cause_of_vector0,
    [GS_DIGEST_vector1] = gs_cause_of_vector1,
    [GS_DIGEST_updated] = gs_cause_of_updated,
    [GS_DIGEST_state] = gs_cause_of_state,
    [GS_DIFFERS_lr] = gs_cause_of_rate,
    [GS_DIFFERS_norm] = gs_cause_of_norm,
    [GS_DIFFERS_scale] = gs_cause_of_scale,
    [GS_DIFFERS_loss_scale] = gs_cause_of_loss_scale,
    [GS_DIFFERS_updates] = gs_cause_of_updates,
};

/* ---- where ---- */

static void name_place(const gs_digests *b, gs_difference *d) {
    static const char *const titles[] = {
#define GS_TITLE(name, title) title,
        GS_DIGEST_KINDS(GS_TITLE) GS_DIFFERS_NUMBERS(GS_TITLE)
#undef GS_TITLE
    };
    snprintf(d->quantity, sizeof d->quantity, "%s", titles[d->kind]);
    if (d->kind == GS_DIGEST_y || d->kind == GS_DIGEST_dx) {
        const gs_layer_name *l = &b->layer[d->number];
        snprintf(d->where, sizeof d->where, "layer %s (%s)", l->name, l->op);
    } else if (d->kind == GS_DIGEST_weight || d->kind == GS_DIGEST_dw ||
               (d->kind >= GS_DIGEST_sum && d->kind <= GS_DIGEST_state)) {
        const gs_param_name *p = &b->param[d->number];
        snprintf(d->where, sizeof d->where, "%s (%s)%s", p->name, b->layer[p->layer].op,
                 d->part ? ", in the layer that borrows it" : "");
    }
}

/* ---- what the questions are about ---- */

static double passes_of(const gs_digests *d) {
    const int accumulate = gs_digests_count(d, "accumulate"), micro = gs_digests_count(d, "micro-batches"),
              stages = gs_digests_count(d, "pipeline");
    if (stages > 1) return micro > 0 ? micro : 4 * stages;
    return accumulate > 1 ? accumulate : 1;
}

static void find_ratio(gs_case *c) {
    if (c->kind >= GS_DIGEST_KINDS_COUNT) {
        c->ratio = gs_score_number(c->of_a, c->kind) / gs_score_number(c->of_b, c->kind);
        return;
    }
    const bool of_rank = c->kind == GS_DIGEST_weight || c->kind >= GS_DIGEST_sum;
    (void)(of_rank ? gs_digest_of_rank(c->a, c->rank, c->step, c->kind, c->number, c->d->part, &c->mine)
                   : gs_digest_of_run(c->a, c->step, c->kind, c->number, &c->mine));
    (void)gs_digest_of_run(c->b, c->step, c->kind, c->number, &c->right);
    if (!gs_sketch_ratio(&c->mine, &c->right, &c->ratio)) c->ratio = (double)NAN;
}

/* In one run alone. */
static bool name_not_finite(const gs_case *c) {
    const bool number = c->kind >= GS_DIGEST_KINDS_COUNT;
    const bool a = isfinite(number ? gs_score_number(c->of_a, c->kind) : c->mine.squares),
               b = isfinite(number ? gs_score_number(c->of_b, c->kind) : c->right.squares);
    return a != b && gs_name(c, "not finite", "it %s NaN or infinity in %s run, and not in %s one",
                             number ? "is" : "holds", a ? "the right" : "this", a ? "this" : "the right");
}

void gs_causes_name(const gs_digests *a, const gs_digests *b, gs_difference *d) {
    gs_case c = {.a = a, .b = b, .d = d, .step = d->step, .kind = d->kind, .number = d->number};
    name_place(b, d);
    for (int r = a->workers - 1; r >= 0; r--) {
        if (!d->rank[r]) continue;
        c.rank = r;
        c.ranks++;
    }
    c.of_a = gs_digests_score(a, c.rank, c.step);
    c.of_b = gs_digests_score(b, 0, c.step);
    c.passes = passes_of(a);
    c.workers =
        a->workers / fmax(gs_digests_count(a, "pipeline"), 1) / fmax(gs_digests_count(a, "tensor"), 1);
    find_ratio(&c);
    if (name_not_finite(&c)) return;
    if (question_of[d->kind] && question_of[d->kind](&c)) return;
    if (d->kind < GS_DIGEST_KINDS_COUNT)
        gs_name(&c, "unknown", "it is like none of the mistakes that this program knows");
    else
        gs_name(&c, "another number", "it is %.6g, and should be %.6g", gs_score_number(c.of_a, c.kind),
                gs_score_number(c.of_b, c.kind));
}

/* ---- for the questions ---- */

bool gs_fit_params(const gs_case *c, int count, gs_arrays *arrays, double most, double *factor) {
    gs_fit fit = {.count = count};
    gs_sketch y, x[GS_FIT_MOST];
    double rest;
    if (count > GS_FIT_MOST) return false;
    for (int p = 0; p < c->a->params; p++)
        if (!c->a->param[p].state && arrays(c, p, &y, x)) gs_fit_add(&fit, &y, x);
    return gs_fit_solve(&fit, factor, &rest) && rest <= most;
}

bool gs_two_ranks_drew(const gs_case *c, int kind, int *first, int *second) {
    const int part = kind == GS_DIGEST_mask ? 0 : GS_ALL_PARTS;
    for (*first = 0; *first < c->a->workers; ++*first)
        for (*second = *first + 1; *second < c->a->workers; ++*second) {
            gs_sketch x, y;
            if (gs_digest_total(c->a, *first, c->step, kind, c->number, part, &x) &&
                gs_digest_total(c->a, *second, c->step, kind, c->number, part, &y) && gs_sketch_alike(&x, &y))
                return true;
        }
    return false;
}

bool gs_name(const gs_case *c, const char *cause, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(c->d->sentence, sizeof c->d->sentence, format, args);
    va_end(args);
    c->d->cause = cause;
    return true;
}

bool gs_name_left_out(const gs_case *c) {
    const double n = c->mine.n, wanted = c->right.n;
    return !(fabs(n - wanted) < 0.5) &&
           gs_name(c, "samples left out", "%.0f numbers instead of %.0f: some samples of the batch are %s", n,
                   wanted, n < wanted ? "left out" : "there more than once");
}
