/* Samples, targets, the model's input, and the weights that forward reads. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "explain/causes.h"

/* A's samples are those of that step of the right run. */
static bool are_of_step(const gs_case *c, uint64_t step) {
    gs_sketch b;
    return step != c->step && gs_digest_of_run(c->b, step, GS_DIGEST_samples, 0, &b) &&
           gs_sketch_alike(&c->mine, &b);
}

static bool of_another_step(const gs_case *c) {
    uint64_t step = c->b->first;
    while (gs_digest_has_step(c->b, step) && !are_of_step(c, step)) step++;
    if (!gs_digest_has_step(c->b, step)) return false;
    if (c->a->first > 1 && step == c->step - c->a->first + 1)
        return gs_name(c, "data begin again at resume",
                       "the resumed run has the samples of step %" PRIu64
                       ": its position in the data was not restored",
                       step);
    /* as doubles: what a file has as its batch may be so small that the steps of an epoch fit into no integer */
    const double batch = gs_digests_number(c->b, "batch"), epoch = ceil((double)c->b->set / batch);
    if (batch > 0 && (double)step + epoch == (double)c->step)
        return gs_name(c, "same order in each epoch",
                       "these are the samples of step %" PRIu64
                       ", one epoch earlier: the order does not depend on the epoch",
                       step);
    return gs_name(c, "samples of another step",
                   "these are the samples of step %" PRIu64 ": the loader is in another position", step);
}

/* The same numbers in other positions. */
static bool same_values(const gs_sketch *a, const gs_sketch *b) {
    return fabs(a->sum - b->sum) <= 1e-6 * sqrt(b->squares * b->n) &&
           fabs(a->squares - b->squares) <= 1e-5 * b->squares;
}

bool gs_cause_of_samples(const gs_case *c) {
    const char *augment = gs_digests_option(c->a, "augment");
    int first, second;
    if (gs_two_ranks_drew(c, GS_DIGEST_own, &first, &second))
        return gs_name(c, "same samples on all ranks",
                       "ranks %d and %d have loaded the same part of the batch", first, second);
    if (of_another_step(c) || gs_name_left_out(c)) return true;
    if (same_values(&c->mine, &c->right))
        return gs_name(
            c, "samples at other places",
            "these are the samples of this batch, but the ranks' parts are interleaved or exchanged");
    if (c->ranks > 0 && c->ranks < c->workers)
        return gs_name(c, "other samples on a rank",
                       "the ranks do not all draw the same order, or not all take their own parts");
    return gs_name(c, "other samples or targets",
                   "the right run has these samples in no step: another order was drawn%s",
                   *augment && strcmp(augment, "none") != 0 ? ", or other random changes (--augment)" : "");
}

bool gs_cause_of_targets(const gs_case *c) {
    if (gs_name_left_out(c)) return true;
    if (same_values(&c->mine, &c->right))
        return gs_name(c, "targets of other samples",
                       "the targets are those of this batch, but belong to other samples of it");
    return gs_name(c, "other samples or targets", "the samples are right, but the targets are not");
}

bool gs_cause_of_input(const gs_case *c) {
    if (gs_name_left_out(c)) return true;
    if (!isnan(c->ratio) && !gs_is_near(c->ratio, 1))
        return gs_name(
            c, "input scaled",
            "the input is %.4g times what it should be: not divided by the standard deviation, or by 255",
            c->ratio);
    return gs_name(c, "input shifted",
                   "the samples are right: another mean or deviation is used, or they are changed otherwise");
}

/* ---- weights that forward reads ---- */

/* All weights of the first rank that differs, as one array: the same numbers in other positions. */
static bool gathered_wrongly(const gs_case *c) {
    gs_sketch of_a = {0}, of_b = {0};
    for (int p = 0; p < c->a->params; p++) {
        gs_sketch a, b;
        if (!gs_digest_of_rank(c->a, c->rank, c->step, GS_DIGEST_weight, p, 0, &a) ||
            !gs_digest_of_run(c->b, c->step, GS_DIGEST_weight, p, &b))
            continue;
        gs_sketch_add_scaled(&of_a, 1, &a);
        gs_sketch_add_scaled(&of_b, 1, &b);
    }
    return of_b.n > 0 && same_values(&of_a, &of_b);
}

bool gs_cause_of_weights(const gs_case *c) {
    gs_sketch before;
    if (c->step == 1)
        return gs_name(c, "initial weights differ", "the initial weights %s",
                       c->ranks < c->a->workers ? "were not broadcast, or come from another seed"
                                                : "come from another seed or another file");
    if (gs_digest_of_run(c->b, c->step - 1, GS_DIGEST_weight, c->number, &before) &&
        gs_sketch_alike(&c->mine, &before))
        return c->d->part
                   ? gs_name(c, "stale tied weight",
                             "a tied weight was updated in one place, and the update did not reach this copy")
                   : gs_name(c, "stale weight", "these are the weights from before the last update");
    if (gathered_wrongly(c))
        return gs_name(c, "gathered in another order",
                       "these are the right weights, but the ranks' parts were gathered in the wrong order");
    if (c->step == c->a->first && c->a->first > 1)
        return gs_name(c, "weights not restored",
                       "the resumed run has other weights than were saved after step %" PRIu64,
                       c->a->first - 1);
    return gs_name(c, "weights changed between steps",
                   "something changed the weights after the update that made them");
}
