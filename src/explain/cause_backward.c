/* dx and dw of a layer, where all that comes before them is right. */
#include <math.h>
#include <string.h>

#include "explain/causes.h"

/* y: by how much dw differs. */
static bool difference(const gs_case *c, int p, gs_numbers *y) {
    gs_numbers b;
    if (!gs_of_run(c->a, c->step, GS_DIGEST_dw, p, y) || !gs_of_run(c->b, c->step, GS_DIGEST_dw, p, &b))
        return false;
    gs_numbers_add_scaled(y, -1, &b);
    return true;
}

/* x: what the first micro-batch of all ranks gave. */
static bool and_first_pass(const gs_case *c, int p, gs_numbers *y, gs_numbers *x) {
    return difference(c, p, y) && gs_total(c->a, GS_ALL_RANKS, c->step, GS_DIGEST_dw, p, 0, x);
}

/* x: what the array of gradients holds after the step before, the sum. */
static bool and_sum_before(const gs_case *c, int p, gs_numbers *y, gs_numbers *x) {
    return difference(c, p, y) && gs_of_run(c->a, c->step - 1, GS_DIGEST_sum, p, x);
}

static bool has_no_gradient(const gs_case *c) {
    for (int r = 0; r < c->a->workers; r++) {
        gs_numbers a;
        if (!gs_total(c->a, r, c->step, GS_DIGEST_dw, c->number, GS_ALL_PARTS, &a) || a.squares > 0) continue;
        c->d->rank[r] = true;
        return gs_name(c, "no gradient on a rank",
                       "rank %d has no gradient of this tensor at all: backward did not reach it", r);
    }
    return false;
}

static bool is_borrowed(const gs_case *c) {
    for (int r = 0; r < c->b->workers; r++)
        if (gs_digests_find(c->b, r, c->step, GS_DIGEST_weight, c->number, 1)) return true;
    return false;
}

static bool name_dw(const gs_case *c) {
    double factor;
    if (gs_fit_params(c, 1, and_sum_before, 1e-3, &factor) && factor > 0.9)
        return gs_name(c, "gradients not cleared",
                       "the gradients of the step before are still in it%s: they were not cleared",
                       factor > 1.5 ? ", on each rank," : "");
    if (c->passes > 1 && c->workers > 1 && gs_fit_params(c, 1, and_first_pass, 1e-3, &factor) &&
        gs_is_near(factor, c->workers - 1))
        return gs_name(c, "summed after each micro-batch",
                       "the first micro-batch is in it %.0f times: the gradients are summed over the ranks "
                       "after each micro-batch, and what was summed is summed again",
                       factor + 1);
    if (has_no_gradient(c)) return true;
    return is_borrowed(c) &&
           gs_name(c, "one use of a tied weight",
                   "this tensor is the weight of two layers, and its gradient is the sum of "
                   "what both give: one of them is missing, or counts twice");
}

/* Rounding differs from element to element, and leaves the ratio of sums of squares nearer to 1. */
static const double SCALED = 5e-4;

bool gs_cause_of_backward(const gs_case *c) {
    const bool dx = c->kind == GS_DIGEST_dx;
    const char *op = c->b->layer[dx ? c->number : c->b->param[c->number].layer].op;
    const bool relu = strcmp(op, "relu") == 0;
    if (!dx && name_dw(c)) return true;
    if (dx && strcmp(op, "dropout") == 0)
        return gs_name(
            c, "other dropout in backward",
            "backward has another mask than forward: the random numbers were drawn anew, and their "
            "state was not restored");
    if (fabs(c->ratio - 1) > SCALED)
        return gs_name(c, "gradient of a layer scaled",
                       "it is %.4g times what it should be, and its dy is right", c->ratio);
    if (strcmp(op, "batch_norm") == 0 && (c->workers > 1 || c->passes > 1))
        return gs_name(
            c, "batch_norm backward of a part",
            "forward takes statistics of the whole batch, but backward sums only those of a rank's "
            "own samples");
    if (dx && (relu || strcmp(op, "max_pool2d") == 0))
        return gs_name(c, "other elements in backward",
                       "dy is right, and what forward computed too, but backward sends dy to other elements "
                       "than those that forward %s",
                       relu ? "let through" : "took");
    return gs_name(c, "backward of a layer",
                   "dy is right, and what forward computed too: backward of %s computes something else", op);
}
