/* y of a layer, where its x and its weights are right. */
#include <math.h>
#include <string.h>

#include "explain/causes.h"
#include "explain/sums.h"

static bool is_op(const gs_case *c, const char *op) {
    return strcmp(c->b->layer[c->d->number].op, op) == 0;
}

static const gs_numbers *mask(const gs_case *c, int rank, uint64_t step, int pass) {
    return gs_has_step(c->a, step) ? gs_digests_find(c->a, rank, step, GS_DIGEST_mask, c->d->number, pass)
                                   : NULL;
}

static bool same_mask(const gs_numbers *x, const gs_numbers *y) {
    return x && y && gs_alike(x, y);
}

static bool mask_of_all_ranks(const gs_case *c) {
    for (int r = 0; r < c->a->workers; r++)
        for (int q = r + 1; q < c->a->workers; q++)
            if (same_mask(mask(c, r, c->d->step, 0), mask(c, q, c->d->step, 0)))
                return gs_say(c,
                              "ranks %d and %d have the same mask: the random numbers do not depend on the "
                              "sample's place in the global batch, nor on the rank",
                              r, q);
    return false;
}

static bool mask_of_all_passes(const gs_case *c) {
    for (int r = 0; r < c->a->workers; r++)
        for (int pass = 1; pass < GS_DIGEST_PARTS; pass++)
            if (same_mask(mask(c, r, c->d->step, 0), mask(c, r, c->d->step, pass)))
                return gs_say(c,
                              "rank %d has the same mask in micro-batches 0 and %d: the random numbers begin "
                              "anew with each",
                              r, pass);
    return false;
}

static bool mask_of_all_steps(const gs_case *c) {
    for (int r = 0; r < c->a->workers; r++)
        if (same_mask(mask(c, r, c->d->step, 0), mask(c, r, c->d->step - 1, 0)))
            return gs_say(
                c, "the mask is that of the step before: the random numbers do not depend on the step");
    return false;
}

static bool y_of(const gs_digests *d, const gs_case *c, int layer, int eighth, gs_numbers *out) {
    return gs_total(d, GS_ALL_RANKS, c->d->step, GS_DIGEST_y, layer, eighth, out);
}

/* y is x, and x is the y of a layer before it. */
static bool dropout_off(const gs_case *c) {
    for (int l = c->d->number - 1; l >= 0; l--)
        for (int e = 0; e < GS_DIGEST_EIGHTHS; e++) {
            gs_numbers a, x;
            if (y_of(c->a, c, c->d->number, e, &a) && y_of(c->b, c, l, e, &x) && gs_alike(&a, &x))
                return gs_say(c,
                              "its output is its input: on %s dropout is switched off in training, as it "
                              "should be only in evaluation",
                              gs_ranks_text(c));
        }
    return false;
}

static bool ratio_of_y(const gs_case *c, double *ratio) {
    gs_numbers a, b;
    return y_of(c->a, c, c->d->number, GS_ALL_PARTS, &a) && y_of(c->b, c, c->d->number, GS_ALL_PARTS, &b) &&
           gs_ratio(&a, &b, ratio);
}

static bool dropout_not_scaled(const gs_case *c) {
    double ratio;
    return is_op(c, "dropout") && ratio_of_y(c, &ratio) &&
           gs_say(c,
                  "the mask is right, but y is %.4g times what it should be: what is kept is not divided by "
                  "1 - p",
                  ratio);
}

static bool other_mask(const gs_case *c) {
    return is_op(c, "dropout") && gs_say(c,
                                         "another mask is drawn on %s: from another seed, or at another "
                                         "place in the stream of random numbers",
                                         gs_ranks_text(c));
}

/* The mean of y is right where the statistics are, also those of a part. */
static bool local_statistics(const gs_case *c) {
    return is_op(c, "batch_norm") && (gs_parts_of_batch(c->a) > 1 || gs_passes_of(c->a) > 1) &&
           gs_say(c, "batch_norm takes its statistics over other samples than the whole batch: of each "
                     "rank's own, or of a micro-batch");
}

static bool less_precise(const gs_case *c) {
    return c->d->relative < 2e-2 && gs_say(c,
                                           "the difference is small (%.1g) and everywhere: products on %s "
                                           "have fewer bits, as those in bf16 or f16",
                                           c->d->relative, gs_ranks_text(c));
}

static bool samples_missing(const gs_case *c) {
    gs_numbers a, b;
    return y_of(c->a, c, c->d->number, GS_ALL_PARTS, &a) && y_of(c->b, c, c->d->number, GS_ALL_PARTS, &b) &&
           fabs(a.n - b.n) > 0.5 &&
           gs_say(c, "some samples do not go through this layer: y has %.0f numbers, and should have %.0f",
                  a.n, b.n);
}

static bool y_scaled(const gs_case *c) {
    double ratio;
    return ratio_of_y(c, &ratio) && gs_say(c, "y is %.4g times what it should be", ratio);
}

static bool other_forward(const gs_case *c) {
    return gs_say(c, "its input and its weights are right: forward of %s computes something else",
                  c->b->layer[c->d->number].op);
}

static bool (*const of_dropout[])(const gs_case *) = {mask_of_all_ranks, mask_of_all_passes,
                                                      mask_of_all_steps, dropout_off};
#define OF_DROPOUT(i, name)                                                                                  \
    static bool name(const gs_case *c) {                                                                     \
        return is_op(c, "dropout") && of_dropout[i](c);                                                      \
    }
OF_DROPOUT(0, dropout_of_ranks)
OF_DROPOUT(1, dropout_of_passes)
OF_DROPOUT(2, dropout_of_steps)
OF_DROPOUT(3, dropout_is_off)

const gs_cause gs_causes_of_forward[] = {{"same dropout on all ranks", dropout_of_ranks},
                                         {"same dropout in each micro-batch", dropout_of_passes},
                                         {"same dropout in each step", dropout_of_steps},
                                         {"dropout switched off", dropout_is_off},
                                         {"dropout not scaled", dropout_not_scaled},
                                         {"samples missing in a layer", samples_missing},
                                         {"other dropout", other_mask},
                                         {"statistics of a part of the batch", local_statistics},
                                         {"less precise", less_precise},
                                         {"output scaled", y_scaled},
                                         {"forward of a layer", other_forward},
                                         {0}};
