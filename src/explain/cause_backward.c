/* dx and dw of a layer, where all that comes before them is right. */
#include <math.h>
#include <string.h>

#include "explain/causes.h"
#include "explain/fit.h"
#include "explain/sums.h"

static const char *op_of(const gs_case *c) {
    const int layer = c->d->kind == GS_DIGEST_dx ? c->d->number : c->b->param[c->d->number].layer;
    return c->b->layer[layer].op;
}

static bool dw_of(const gs_digests *d, int rank, uint64_t step, int param, gs_numbers *out) {
    return gs_total(d, rank, step, GS_DIGEST_dw, param, GS_ALL_PARTS, out);
}

/* The difference of all tensors is that array, times something. */
static bool difference_is(const gs_case *c, bool (*array)(const gs_case *, int param, gs_numbers *),
                          double *factor) {
    gs_fit fit = {.count = 1};
    double rest;
    for (int p = 0; p < c->a->params; p++) {
        gs_numbers a, b, x;
        if (c->a->param[p].state || !dw_of(c->a, GS_ALL_RANKS, c->d->step, p, &a) ||
            !dw_of(c->b, GS_ALL_RANKS, c->d->step, p, &b) || !array(c, p, &x))
            continue;
        gs_numbers_add_scaled(&a, -1, &b);
        gs_fit_add(&fit, &a, (const gs_numbers *const[]){&x});
    }
    return gs_fit_solve(&fit, factor, &rest) && rest < 1e-3;
}

/* What the array of gradients holds after the step before: the sum. */
static bool sum_before(const gs_case *c, int param, gs_numbers *out) {
    return gs_has_step(c->a, c->d->step - 1) &&
           gs_whole_of_run(c->a, c->d->step - 1, GS_DIGEST_sum, param, out);
}

static bool not_cleared(const gs_case *c) {
    double factor;
    return c->d->kind == GS_DIGEST_dw && difference_is(c, sum_before, &factor) && factor > 0.9 &&
           gs_say(c, "the gradients of the step before are still in it%s: they were not cleared",
                  factor > 1.5 ? ", on each rank," : "");
}

/* What the first micro-batch of all ranks has given. */
static bool first_pass(const gs_case *c, int param, gs_numbers *out) {
    return gs_total(c->a, GS_ALL_RANKS, c->d->step, GS_DIGEST_dw, param, 0, out);
}

static bool summed_each_pass(const gs_case *c) {
    double factor;
    const double others = gs_parts_of_batch(c->a) - 1;
    return c->d->kind == GS_DIGEST_dw && gs_passes_of(c->a) > 1 && others > 0 &&
           difference_is(c, first_pass, &factor) && gs_is_near(factor, others) &&
           gs_say(c,
                  "the first micro-batch is in it %.0f times: the gradients are summed over the ranks after "
                  "each micro-batch, and what was summed is summed again",
                  factor + 1);
}

static bool has_no_gradient(const gs_case *c) {
    for (int r = 0; r < c->a->workers && c->d->kind == GS_DIGEST_dw; r++) {
        gs_numbers a;
        if (!dw_of(c->a, r, c->d->step, c->d->number, &a) || a.squares > 0) continue;
        c->d->rank[r] = true;
        return gs_say(c, "rank %d has no gradient of this tensor at all: backward did not reach it", r);
    }
    return false;
}

static bool is_borrowed(const gs_case *c) {
    for (int r = 0; r < c->b->workers && c->d->kind == GS_DIGEST_dw; r++)
        if (gs_digests_find(c->b, r, c->d->step, GS_DIGEST_weight, c->d->number, 1)) return true;
    return false;
}

static bool tied(const gs_case *c) {
    return is_borrowed(c) && gs_say(c, "this tensor is the weight of two layers, and its gradient is the sum "
                                       "of what both give: one of them is missing, or counts twice");
}

static bool mask_of_backward(const gs_case *c) {
    return c->d->kind == GS_DIGEST_dx && strcmp(op_of(c), "dropout") == 0 &&
           gs_say(c, "backward has another mask than forward: the random numbers were drawn anew, and their "
                     "state was not restored");
}

/* Rounding differs from element to element, and leaves the ratio of sums of squares nearer to 1. */
static const double SCALED = 5e-4;

static bool factor_of(const gs_case *c, double *factor) {
    gs_numbers a, b;
    const int kind = c->d->kind;
    return gs_total(c->a, GS_ALL_RANKS, c->d->step, kind, c->d->number, GS_ALL_PARTS, &a) &&
           gs_total(c->b, GS_ALL_RANKS, c->d->step, kind, c->d->number, GS_ALL_PARTS, &b) &&
           gs_ratio(&a, &b, factor) && fabs(*factor - 1) > SCALED;
}

static bool dw_scaled(const gs_case *c) {
    double factor;
    return factor_of(c, &factor) &&
           gs_say(c, "it is %.4g times what it should be, and its dy is right", factor);
}

static bool local_sums(const gs_case *c) {
    return strcmp(op_of(c), "batch_norm") == 0 && (gs_parts_of_batch(c->a) > 1 || gs_passes_of(c->a) > 1) &&
           gs_say(c, "forward takes statistics of the whole batch, but backward sums only those of a rank's "
                     "own samples");
}

static bool other_branch(const gs_case *c) {
    const bool relu = strcmp(op_of(c), "relu") == 0;
    return c->d->kind == GS_DIGEST_dx && (relu || strcmp(op_of(c), "max_pool2d") == 0) &&
           gs_say(c,
                  "dy is right, and what forward computed too, but backward sends dy to other elements than "
                  "those that forward %s",
                  relu ? "let through" : "took");
}

static bool other_backward(const gs_case *c) {
    return gs_say(c, "dy is right, and what forward computed too: backward of %s computes something else",
                  op_of(c));
}

const gs_cause gs_causes_of_backward[] = {
    {"gradients not cleared", not_cleared},          {"summed after each micro-batch", summed_each_pass},
    {"no gradient on a rank", has_no_gradient},      {"one use of a tied weight", tied},
    {"other dropout in backward", mask_of_backward}, {"gradient of a layer scaled", dw_scaled},
    {"batch_norm backward of a part", local_sums},   {"other elements in backward", other_branch},
    {"backward of a layer", other_backward},         {0}};
