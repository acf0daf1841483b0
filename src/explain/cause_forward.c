/* y of a layer, where its x and its weights are right. */
#include <math.h>
#include <string.h>

#include "explain/causes.h"

/* ---- dropout ---- */

/* True if rank r draws in that pass of that step what rank q draws in the first pass of this one. */
static bool same_mask(const gs_case *c, int q, int r, uint64_t step, int pass) {
    if (!gs_has_step(c->a, step)) return false;
    const gs_numbers *x = gs_digests_find(c->a, q, c->step, GS_DIGEST_mask, c->number, 0),
                     *y = gs_digests_find(c->a, r, step, GS_DIGEST_mask, c->number, pass);
    return x && y && gs_alike(x, y);
}

static bool mask_is_repeated(const gs_case *c) {
    const int workers = c->a->workers;
    for (int r = 0; r < workers; r++)
        for (int q = r + 1; q < workers; q++)
            if (same_mask(c, r, q, c->step, 0))
                return gs_name(c, "same dropout on all ranks",
                               "ranks %d and %d have the same mask: the random numbers do not depend on the "
                               "sample's place in the global batch, nor on the rank",
                               r, q);
    for (int r = 0; r < workers; r++)
        for (int pass = 1; pass < GS_DIGEST_PARTS; pass++)
            if (same_mask(c, r, r, c->step, pass))
                return gs_name(
                    c, "same dropout in each micro-batch",
                    "rank %d has the same mask in micro-batches 0 and %d: the random numbers begin "
                    "anew with each",
                    r, pass);
    for (int r = 0; r < workers; r++)
        if (same_mask(c, r, r, c->step - 1, 0))
            return gs_name(
                c, "same dropout in each step",
                "the mask is that of the step before: the random numbers do not depend on the step");
    return false;
}

/* y is x, and x is the y of a layer before it. */
static bool dropout_is_off(const gs_case *c) {
    for (int l = c->number - 1; l >= 0; l--)
        for (int e = 0; e < GS_DIGEST_EIGHTHS; e++) {
            gs_numbers y, x;
            if (gs_total(c->a, GS_ALL_RANKS, c->step, GS_DIGEST_y, c->number, e, &y) &&
                gs_total(c->b, GS_ALL_RANKS, c->step, GS_DIGEST_y, l, e, &x) && gs_alike(&y, &x))
                return true;
        }
    return false;
}

static bool name_dropout(const gs_case *c) {
    if (mask_is_repeated(c)) return true;
    if (dropout_is_off(c))
        return gs_name(c, "dropout switched off",
                       "its output is its input: on %s dropout is switched off in training, as it should be "
                       "only in evaluation",
                       c->on);
    if (!isnan(c->ratio))
        return gs_name(
            c, "dropout not scaled",
            "the mask is right, but y is %.4g times what it should be: what is kept is not divided "
            "by 1 - p",
            c->ratio);
    return gs_name(c, "other dropout",
                   "another mask is drawn on %s: from another seed, or at another place in the stream of "
                   "random numbers",
                   c->on);
}

bool gs_cause_of_y(const gs_case *c) {
    const char *op = c->b->layer[c->number].op;
    if (gs_name_left_out(c)) return true;
    if (strcmp(op, "dropout") == 0) return name_dropout(c);
    /* The mean of y is right where the statistics are, also those of a part. */
    if (strcmp(op, "batch_norm") == 0 && (c->workers > 1 || c->passes > 1))
        return gs_name(c, "statistics of a part of the batch",
                       "batch_norm takes its statistics over other samples than the whole batch: of each "
                       "rank's own, or of a micro-batch");
    if (c->d->relative < 2e-2)
        return gs_name(c, "less precise",
                       "the difference is small (%.1g) and everywhere: products on %s have fewer bits, as "
                       "those in bf16 or f16",
                       c->d->relative, c->on);
    if (!isnan(c->ratio)) return gs_name(c, "output scaled", "y is %.4g times what it should be", c->ratio);
    return gs_name(c, "forward of a layer",
                   "its input and its weights are right: forward of %s computes something else", op);
}
