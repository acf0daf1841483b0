/* Samples, answers, the model's input, and the weights that forward reads. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "explain/causes.h"
#include "explain/sums.h"

static bool total(const gs_digests *d, uint64_t step, int kind, gs_numbers *out) {
    return gs_total(d, GS_ALL_RANKS, step, kind, 0, GS_ALL_PARTS, out);
}

/* Two ranks have loaded the same, whatever the first of them should have had. */
static bool same_on_ranks(const gs_case *c) {
    for (int r = 0; r < c->a->workers && c->d->kind == GS_DIGEST_samples; r++)
        for (int q = r + 1; q < c->a->workers; q++) {
            gs_numbers x, y;
            if (!gs_total(c->a, r, c->d->step, GS_DIGEST_own, 0, GS_ALL_PARTS, &x) ||
                !gs_total(c->a, q, c->d->step, GS_DIGEST_own, 0, GS_ALL_PARTS, &y) || !gs_alike(&x, &y))
                continue;
            return gs_say(c,
                          "ranks %d and %d have loaded the same samples: each takes its part of the batch by "
                          "its rank, and they have taken the same one",
                          r, q);
        }
    return false;
}

/* Samples that the right run has in another step. */
static bool same_as_step(const gs_case *c, uint64_t *step) {
    gs_numbers a, b;
    if (c->d->kind != GS_DIGEST_samples || !total(c->a, c->d->step, GS_DIGEST_samples, &a)) return false;
    for (*step = c->b->first; gs_has_step(c->b, *step); ++*step)
        if (*step != c->d->step && total(c->b, *step, GS_DIGEST_samples, &b) && gs_alike(&a, &b)) return true;
    return false;
}

static bool begin_again(const gs_case *c) {
    uint64_t step;
    if (c->a->first == 1 || !same_as_step(c, &step) || step != c->d->step - c->a->first + 1) return false;
    return gs_say(c,
                  "the run was resumed after step %" PRIu64 ", but its samples are those of step %" PRIu64
                  ": the place in the data was not restored",
                  c->a->first - 1, step);
}

static bool order_of_other_epoch(const gs_case *c) {
    const double batch = gs_digests_number(c->b, "batch");
    uint64_t step;
    if (!(batch > 0) || !same_as_step(c, &step)) return false;
    /* as doubles: what a file has as its batch may be so small that the steps of an epoch fit into no integer */
    const double epoch = ceil((double)c->b->set / batch);
    if ((double)step + epoch != (double)c->d->step) return false;
    return gs_say(c,
                  "these are the samples of step %" PRIu64
                  ", an epoch earlier: each epoch has the same order, as if its number were not in the seed",
                  step);
}

static bool of_another_step(const gs_case *c) {
    uint64_t step;
    return same_as_step(c, &step) &&
           gs_say(c, "these are the samples of step %" PRIu64 ": the loader is at another place", step);
}

static bool left_out(const gs_case *c) {
    gs_numbers a, b;
    if (!total(c->a, c->d->step, c->d->kind, &a) || !total(c->b, c->d->step, c->d->kind, &b)) return false;
    if (fabs(a.n - b.n) < 0.5) return false;
    return gs_say(
        c,
        a.n < b.n ? "some samples of the batch are left out: %.0f numbers, where %.0f are wanted"
                  : "some samples of the batch are there more than once: %.0f numbers, where %.0f are wanted",
        a.n, b.n);
}

static bool same_values(const gs_case *c) {
    gs_numbers a, b;
    return total(c->a, c->d->step, c->d->kind, &a) && total(c->b, c->d->step, c->d->kind, &b) &&
           fabs(a.sum - b.sum) <= 1e-6 * fabs(b.sum) && fabs(a.squares - b.squares) <= 1e-6 * b.squares;
}

static bool moved_answers(const gs_case *c) {
    return c->d->kind == GS_DIGEST_answers && same_values(c) &&
           gs_say(c, "the answers are those of this batch, but they belong to other samples of it");
}

static bool moved_samples(const gs_case *c) {
    return c->d->kind == GS_DIGEST_samples && same_values(c) &&
           gs_say(c, "the samples are those of this batch, but at other places in it: the ranks' parts are "
                     "interleaved or exchanged");
}

static bool other_samples(const gs_case *c) {
    const int count = gs_ranks_of(c, NULL);
    return c->d->kind == GS_DIGEST_samples && count > 0 && count < c->a->workers &&
           gs_say(c,
                  "the samples on %s are not those that belong there: the ranks do not all draw the same "
                  "order, or they take their parts at other places",
                  gs_ranks_text(c));
}

static bool unlike_any(const gs_case *c) {
    if (c->d->kind == GS_DIGEST_answers)
        return gs_say(c, "the samples are right, but the answers on %s are not", gs_ranks_text(c));
    const char *augment = gs_digests_option(c->a, "augment");
    const bool changes = *augment && strcmp(augment, "none") != 0;
    return c->d->kind == GS_DIGEST_samples &&
           gs_say(c, "the samples on %s are those of no step of the right run: another order is drawn%s",
                  gs_ranks_text(c), changes ? ", or other random changes (--augment)" : "");
}

static bool input_scaled(const gs_case *c) {
    gs_numbers a, b;
    double ratio;
    if (c->d->kind != GS_DIGEST_x || !total(c->a, c->d->step, GS_DIGEST_x, &a) ||
        !total(c->b, c->d->step, GS_DIGEST_x, &b) || !gs_ratio(&a, &b, &ratio) || gs_is_near(ratio, 1))
        return false;
    return gs_say(c,
                  "the samples are right, but the input is %.4g times what it should be: they are not "
                  "divided by the standard deviation, or not by 255",
                  ratio);
}

static bool input_shifted(const gs_case *c) {
    return c->d->kind == GS_DIGEST_x &&
           gs_say(c,
                  "the samples are right, but the input is not: on %s another mean or standard deviation is "
                  "taken, or the samples are changed in another way",
                  gs_ranks_text(c));
}

const gs_cause gs_causes_of_samples[] = {{"same samples on all ranks", same_on_ranks},
                                         {"data begin again at resume", begin_again},
                                         {"same order in each epoch", order_of_other_epoch},
                                         {"samples of another step", of_another_step},
                                         {"samples left out", left_out},
                                         {"answers of other samples", moved_answers},
                                         {"samples at other places", moved_samples},
                                         {"other samples on a rank", other_samples},
                                         {"other samples or answers", unlike_any},
                                         {"input scaled", input_scaled},
                                         {"input shifted", input_shifted},
                                         {0}};

/* ---- weights that forward reads ---- */

static bool weights_at(const gs_digests *d, int rank, uint64_t step, int param, int part, gs_numbers *out) {
    return gs_has_step(d, step) && gs_weights_of(d, rank, step, param, part, out);
}

static bool not_alike_at_first(const gs_case *c) {
    const int count = gs_ranks_of(c, NULL);
    return c->d->step == 1 &&
           gs_say(c,
                  count < c->a->workers
                      ? "the initial weights on %s are others: they were not broadcast, or were drawn from "
                        "another seed"
                      : "the initial weights on %s are others: another seed, or another file",
                  gs_ranks_text(c));
}

static bool stale(const gs_case *c, int part) {
    int r = 0;
    gs_ranks_of(c, &r);
    gs_numbers a, before;
    return c->d->part == part && weights_at(c->a, r, c->d->step, c->d->number, c->d->part, &a) &&
           gs_has_step(c->b, c->d->step - 1) &&
           gs_weights_read(c->b, c->d->step - 1, c->d->number, &before) && gs_alike(&a, &before);
}

static bool stale_copy(const gs_case *c) {
    return stale(c, 1) && gs_say(c,
                                 "the copy on %s is the one from before the last update: a tied weight was "
                                 "updated in one place, and the update did not reach the other",
                                 gs_ranks_text(c));
}

static bool stale_weight(const gs_case *c) {
    return stale(c, 0) &&
           gs_say(c, "the weights on %s are those from before the last update: they are one step old",
                  gs_ranks_text(c));
}

/* All weights of the first rank that differs, as one array: the same numbers at other places. */
static bool gathered_wrongly(const gs_case *c) {
    double sum[2] = {0, 0}, squares[2] = {0, 0};
    int r = 0;
    gs_ranks_of(c, &r);
    for (int p = 0; p < c->a->params; p++) {
        gs_numbers a, b;
        if (!weights_at(c->a, r, c->d->step, p, 0, &a) || !gs_weights_read(c->b, c->d->step, p, &b)) continue;
        sum[0] += a.sum, sum[1] += b.sum;
        squares[0] += a.squares, squares[1] += b.squares;
    }
    return squares[1] > 0 && fabs(squares[0] - squares[1]) <= 1e-5 * squares[1] &&
           fabs(sum[0] - sum[1]) <= 1e-5 * sqrt(squares[1]) * 10 &&
           gs_say(c,
                  "the weights on %s are the right ones at wrong places: the ranks' parts were gathered in "
                  "the wrong order",
                  gs_ranks_text(c));
}

static bool not_restored(const gs_case *c) {
    return c->d->step == c->a->first && c->a->first > 1 &&
           gs_say(c, "the run was resumed after step %" PRIu64 ", but not with the weights that it had then",
                  c->a->first - 1);
}

static bool changed_between_steps(const gs_case *c) {
    return gs_say(c,
                  "the weights on %s are not those that the update made: something changed them afterwards",
                  gs_ranks_text(c));
}

const gs_cause gs_causes_of_weights[] = {{"initial weights differ", not_alike_at_first},
                                         {"stale tied weight", stale_copy},
                                         {"stale weight", stale_weight},
                                         {"gathered in another order", gathered_wrongly},
                                         {"weights not restored", not_restored},
                                         {"weights changed between steps", changed_between_steps},
                                         {0}};
