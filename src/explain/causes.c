#include "explain/causes.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/text.h"

static const struct {
    int first, last; /* kinds */
    bool (*is_named)(const gs_case *);
} questions[] = {
    {GS_DIGEST_samples, GS_DIGEST_own, gs_cause_of_samples},
    {GS_DIGEST_weight, GS_DIGEST_weight, gs_cause_of_weights},
    {GS_DIGEST_x, GS_DIGEST_x, gs_cause_of_samples},
    {GS_DIGEST_y, GS_DIGEST_mask, gs_cause_of_y},
    {GS_DIGEST_dy, GS_DIGEST_dy, gs_cause_of_loss},
    {GS_DIGEST_dw, GS_DIGEST_dx, gs_cause_of_backward},
    {GS_DIGEST_sum, GS_DIGEST_sum, gs_cause_of_sum},
    {GS_DIGEST_vector0, GS_DIGEST_state, gs_cause_of_update},
    {GS_DIFFERS_lr, GS_DIFFERS_KINDS - 1, gs_cause_of_scores},
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

static double parts_of_batch(const gs_digests *d) {
    const int stages = gs_digests_count(d, "pipeline"), parts = gs_digests_count(d, "tensor");
    return (double)d->workers / (stages > 1 ? stages : 1) / (parts > 1 ? parts : 1);
}

static void find_ranks(gs_case *c) {
    const int workers = c->a->workers;
    for (int r = workers - 1; r >= 0; r--) {
        if (!c->d->rank[r]) continue;
        c->rank = r;
        c->ranks++;
    }
    snprintf(c->on, sizeof c->on, "rank%s ", c->ranks > 1 ? "s" : "");
    for (int r = c->rank, told = 0; r < workers; r++)
        if (c->d->rank[r]) {
            gs_append(c->on, sizeof c->on, "%s%d", told == 0 ? "" : told + 1 == c->ranks ? " and " : ", ", r);
            told++;
        }
    if (c->ranks == 0) snprintf(c->on, sizeof c->on, "some ranks");
    if (c->ranks == workers && workers > 1) snprintf(c->on, sizeof c->on, "all ranks");
}

static void find_ratio(gs_case *c) {
    if (c->kind >= GS_DIGEST_KINDS_COUNT) {
        c->ratio = gs_score_number(c->of_a, c->kind) / gs_score_number(c->of_b, c->kind);
        return;
    }
    const bool of_rank = c->kind == GS_DIGEST_weight || c->kind >= GS_DIGEST_sum;
    (void)(of_rank ? gs_of_rank(c->a, c->rank, c->step, c->kind, c->number, c->d->part, &c->mine)
                   : gs_of_run(c->a, c->step, c->kind, c->number, &c->mine));
    (void)gs_of_run(c->b, c->step, c->kind, c->number, &c->right);
    if (!gs_ratio(&c->mine, &c->right, &c->ratio)) c->ratio = (double)NAN;
}

void gs_causes_name(const gs_digests *a, const gs_digests *b, gs_difference *d) {
    gs_case c = {.a = a, .b = b, .d = d, .step = d->step, .kind = d->kind, .number = d->number};
    name_place(b, d);
    find_ranks(&c);
    c.of_a = gs_digests_score(a, c.rank, c.step);
    c.of_b = gs_digests_score(b, 0, c.step);
    c.passes = passes_of(a);
    c.workers = parts_of_batch(a);
    find_ratio(&c);
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        if (d->kind >= questions[i].first && d->kind <= questions[i].last && questions[i].is_named(&c))
            return;
    gs_name(&c, "unknown", "it is like none of the mistakes that this program knows");
}

bool gs_fit_params(const gs_case *c, int count, gs_arrays *arrays, double most, double *factor) {
    gs_fit fit = {.count = count};
    gs_numbers y, x[GS_FIT_MOST];
    const gs_numbers *of[GS_FIT_MOST];
    double rest;
    if (count > GS_FIT_MOST) return false;
    for (int i = 0; i < count; i++) of[i] = &x[i];
    for (int p = 0; p < c->a->params; p++)
        if (!c->a->param[p].state && arrays(c, p, &y, x)) gs_fit_add(&fit, &y, of);
    return gs_fit_solve(&fit, factor, &rest) && rest <= most;
}

/* ---- answers ---- */

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
           gs_name(c, "samples left out",
                   "some samples of the batch are %s: %.0f numbers, where %.0f are wanted",
                   n < wanted ? "left out" : "there more than once", n, wanted);
}
