/* Samples, answers, the model's input, and the weights that forward reads. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "explain/causes.h"

/* Two ranks have loaded the same, whatever the first of them should have had. */
static bool same_on_ranks(const gs_case *c) {
    for (int r = 0; r < c->a->workers; r++)
        for (int q = r + 1; q < c->a->workers; q++) {
            gs_numbers x, y;
            if (gs_total(c->a, r, c->step, GS_DIGEST_own, 0, GS_ALL_PARTS, &x) &&
                gs_total(c->a, q, c->step, GS_DIGEST_own, 0, GS_ALL_PARTS, &y) && gs_alike(&x, &y))
                return gs_name(c, "same samples on all ranks",
                               "ranks %d and %d have loaded the same samples: each takes its part of the "
                               "batch by its rank, and they have taken the same one",
                               r, q);
        }
    return false;
}

/* A's samples are those of that step of the right run. */
static bool are_of_step(const gs_case *c, uint64_t step) {
    gs_numbers b;
    return step != c->step && gs_of_run(c->b, step, GS_DIGEST_samples, 0, &b) && gs_alike(&c->mine, &b);
}

static bool of_another_step(const gs_case *c) {
    uint64_t step = c->b->first;
    while (gs_has_step(c->b, step) && !are_of_step(c, step)) step++;
    if (!gs_has_step(c->b, step)) return false;
    if (c->a->first > 1 && step == c->step - c->a->first + 1)
        return gs_name(c, "data begin again at resume",
                       "the run was resumed after step %" PRIu64
                       ", but its samples are those of step %" PRIu64
                       ": the place in the data was not restored",
                       c->a->first - 1, step);
    /* as doubles: what a file has as its batch may be so small that the steps of an epoch fit into no integer */
    const double batch = gs_digests_number(c->b, "batch"), epoch = ceil((double)c->b->set / batch);
    if (batch > 0 && (double)step + epoch == (double)c->step)
        return gs_name(
            c, "same order in each epoch",
            "these are the samples of step %" PRIu64
            ", an epoch earlier: each epoch has the same order, as if its number were not in the seed",
            step);
    return gs_name(c, "samples of another step",
                   "these are the samples of step %" PRIu64 ": the loader is at another place", step);
}

/* A has the right numbers, at other places. */
static bool same_values(const gs_case *c) {
    const gs_numbers *a = &c->mine, *b = &c->right;
    return fabs(a->sum - b->sum) <= 1e-6 * fabs(b->sum) && fabs(a->squares - b->squares) <= 1e-6 * b->squares;
}

static bool name_samples(const gs_case *c) {
    if (same_on_ranks(c) || of_another_step(c) || gs_name_left_out(c)) return true;
    if (same_values(c))
        return gs_name(c, "samples at other places",
                       "the samples are those of this batch, but at other places in it: the ranks' parts are "
                       "interleaved or exchanged");
    if (c->ranks > 0 && c->ranks < c->a->workers)
        return gs_name(
            c, "other samples on a rank",
            "the samples on %s are not those that belong there: the ranks do not all draw the same "
            "order, or they take their parts at other places",
            c->on);
    const char *augment = gs_digests_option(c->a, "augment");
    return gs_name(c, "other samples or answers",
                   "the samples on %s are those of no step of the right run: another order is drawn%s", c->on,
                   *augment && strcmp(augment, "none") != 0 ? ", or other random changes (--augment)" : "");
}

static bool name_answers(const gs_case *c) {
    if (gs_name_left_out(c)) return true;
    if (same_values(c))
        return gs_name(c, "answers of other samples",
                       "the answers are those of this batch, but they belong to other samples of it");
    return gs_name(c, "other samples or answers", "the samples are right, but the answers on %s are not",
                   c->on);
}

static bool name_input(const gs_case *c) {
    if (gs_name_left_out(c)) return true;
    if (!isnan(c->ratio) && !gs_is_near(c->ratio, 1))
        return gs_name(c, "input scaled",
                       "the samples are right, but the input is %.4g times what it should be: they are not "
                       "divided by the standard deviation, or not by 255",
                       c->ratio);
    return gs_name(c, "input shifted",
                   "the samples are right, but the input is not: on %s another mean or standard deviation is "
                   "taken, or the samples are changed in another way",
                   c->on);
}

bool gs_cause_of_samples(const gs_case *c) {
    return c->kind == GS_DIGEST_samples ? name_samples(c)
           : c->kind == GS_DIGEST_x     ? name_input(c)
                                        : name_answers(c);
}

/* ---- weights that forward reads ---- */

/* All weights of the first rank that differs, as one array: the same numbers at other places. */
static bool gathered_wrongly(const gs_case *c) {
    double sum[2] = {0, 0}, squares[2] = {0, 0};
    for (int p = 0; p < c->a->params; p++) {
        gs_numbers a, b;
        if (!gs_of_rank(c->a, c->rank, c->step, GS_DIGEST_weight, p, 0, &a) ||
            !gs_of_run(c->b, c->step, GS_DIGEST_weight, p, &b))
            continue;
        sum[0] += a.sum, sum[1] += b.sum;
        squares[0] += a.squares, squares[1] += b.squares;
    }
    return squares[1] > 0 && fabs(squares[0] - squares[1]) <= 1e-5 * squares[1] &&
           fabs(sum[0] - sum[1]) <= 1e-5 * sqrt(squares[1]) * 10;
}

bool gs_cause_of_weights(const gs_case *c) {
    gs_numbers before;
    if (c->step == 1)
        return gs_name(c, "initial weights differ", "the initial weights on %s are others: %s", c->on,
                       c->ranks < c->a->workers ? "they were not broadcast, or were drawn from another seed"
                                                : "another seed, or another file");
    if (gs_of_run(c->b, c->step - 1, GS_DIGEST_weight, c->number, &before) && gs_alike(&c->mine, &before))
        return c->d->part
                   ? gs_name(c, "stale tied weight",
                             "the copy on %s is the one from before the last update: a tied weight was "
                             "updated in one place, and the update did not reach the other",
                             c->on)
                   : gs_name(c, "stale weight",
                             "the weights on %s are those from before the last update: they are one "
                             "step old",
                             c->on);
    if (gathered_wrongly(c))
        return gs_name(c, "gathered in another order",
                       "the weights on %s are the right ones at wrong places: the ranks' parts were gathered "
                       "in the wrong order",
                       c->on);
    if (c->step == c->a->first && c->a->first > 1)
        return gs_name(c, "weights not restored",
                       "the run was resumed after step %" PRIu64
                       ", but not with the weights that it had then",
                       c->a->first - 1);
    return gs_name(c, "weights changed between steps",
                   "the weights on %s are not those that the update made: something changed them afterwards",
                   c->on);
}
