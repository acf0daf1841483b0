/* Mistakes that training programs are known to have made, and how to recognise each one. There is one function per
 * quantity; it checks the more specific mistakes first, and the first match names the difference. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/text.h"
#include "explain/explain.h"
#include "explain/sums.h"
#include "optim/optimizer.h"

/* The difference whose cause is to be named. */
typedef struct mismatch {
    const gs_digests *a, *b; /* the run in question, and the correct run */
    gs_difference *d;
    uint64_t step;
    int kind, number;                   /* as in gs_difference */
    int rank, ranks;                    /* the first rank that shows the difference; how many ranks do */
    const gs_digest_score *of_a, *of_b; /* that rank's score in A; B's score */
    double passes;                      /* micro-batches per step on each rank of A, from A's options */
    double workers;                     /* the workers of A that have samples of their own */
    gs_sketch mine, right;              /* the differing array: A's (`rank`'s, if each rank has one); B's */
    double ratio;                       /* A's array or number divided by B's; NaN: not a multiple of B's */
} mismatch;

/* Give the difference this cause and this sentence. Returns true, so that its caller can return the call's result. */
GS_PRINTF(3, 4) static bool name(const mismatch *c, const char *cause, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(c->d->sentence, sizeof c->d->sentence, format, args);
    va_end(args);
    c->d->cause = cause;
    return true;
}

static bool name_multiple(const mismatch *c, const char *cause, double ratio, const char *why) {
    return name(c, cause, "it is %.4g times what it should be%s%s", ratio, *why ? ": " : "", why);
}

/* A mistake that multiplies a quantity by this factor. Factors 1 (no effect) and 0 (impossible here) never match. */
typedef struct multiple {
    double factor;
    const char *cause, *why;
} multiple;

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* Name the first of `count` mistakes whose factor equals this ratio, up to the relative error `within`. */
static bool name_known_multiple(const mismatch *c, double ratio, double within, const multiple *known,
                                size_t count) {
    for (; count > 0; count--, known++)
        if (known->factor > 0 && known->factor != 1 && fabs(ratio / known->factor - 1) <= within)
            return name_multiple(c, known->cause, ratio, known->why);
    return false;
}

static const double NEAR = 1e-3; /* the `within` that gs_is_near uses */

static bool name_left_out(const mismatch *c) {
    const double n = c->mine.n, wanted = c->right.n;
    return !(fabs(n - wanted) < 0.5) &&
           name(c, "samples left out", "%.0f numbers instead of %.0f: some samples of the batch are %s", n,
                wanted, n < wanted ? "left out" : "there more than once");
}

/* Gets parameter p's y, and the arrays x that may add up to it. False: it has no such arrays. */
typedef bool arrays_of(const mismatch *, int p, gs_sketch *y, gs_sketch *x);

/* Least squares (sums.h) over all parameters: y = factor[0] x[0] + ... + factor[count - 1] x[count - 1]. False if the
 * rest is more than the fraction `most` of y, or if the factors are not unique. */
static bool fit(const mismatch *c, int count, arrays_of *arrays, double most, double *factor) {
    gs_fit fit = {.count = count};
    gs_sketch y, x[GS_FIT_MOST];
    double rest;
    if (count > GS_FIT_MOST) return false;
    for (int p = 0; p < c->a->params; p++)
        if (!c->a->param[p].state && arrays(c, p, &y, x)) gs_fit_add(&fit, &y, x);
    return gs_fit_solve(&fit, factor, &rest) && rest <= most;
}

/* Finds two ranks of A that drew the same samples, or the same mask in their first pass. */
static bool two_ranks_drew(const mismatch *c, int kind, int *first, int *second) {
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

/* ---- samples and targets ---- */

/* The step in which the correct run uses A's samples; 0: none. */
static uint64_t step_of_samples(const mismatch *c) {
    gs_sketch b;
    for (uint64_t step = c->b->first; gs_digest_has_step(c->b, step); step++)
        if (step != c->step && gs_digest_of_run(c->b, step, GS_DIGEST_samples, 0, &b) &&
            gs_sketch_alike(&c->mine, &b))
            return step;
    return 0;
}

static bool name_step_of_samples(const mismatch *c, uint64_t step) {
    const char *cause = "samples of another step", *why = "the loader is in another position";
    /* doubles: a damaged record's batch may be so small that an epoch's number of steps overflows any integer */
    const double batch = gs_digests_number(c->b, "batch"), epoch = ceil((double)c->b->set / batch);
    if (c->a->first > 1 && step == c->step - c->a->first + 1) {
        cause = "data begin again at resume";
        why = "the resumed run did not restore its position in the data";
    } else if (batch > 0 && (double)step + epoch == (double)c->step) {
        cause = "same order in each epoch";
        why = "one epoch earlier: the order does not depend on the epoch";
    }
    return name(c, cause, "these are the samples of step %" PRIu64 ": %s", step, why);
}

/* True if the arrays hold the same numbers, possibly in other positions. */
static bool same_values(const gs_sketch *a, const gs_sketch *b) {
    return fabs(a->sum - b->sum) <= 1e-6 * sqrt(b->squares * b->n) &&
           fabs(a->squares - b->squares) <= 1e-5 * b->squares;
}

static bool cause_of_samples(const mismatch *c) {
    const char *augment = gs_digests_option(c->a, "augment");
    const uint64_t step = step_of_samples(c);
    int first, second;
    if (two_ranks_drew(c, GS_DIGEST_own, &first, &second))
        return name(c, "same samples on all ranks", "ranks %d and %d have loaded the same part of the batch",
                    first, second);
    if (step > 0) return name_step_of_samples(c, step);
    if (name_left_out(c)) return true;
    if (same_values(&c->mine, &c->right))
        return name(c, "samples at other places",
                    "these are the samples of this batch, but the ranks' parts are interleaved or exchanged");
    if (c->ranks > 0 && c->ranks < c->workers)
        return name(c, "other samples on a rank",
                    "some ranks draw another order, or take other parts than their own");
    return name(c, "other samples or targets",
                "the right run has these samples in no step: another order was drawn%s",
                *augment && strcmp(augment, "none") != 0 ? ", or other random changes (--augment)" : "");
}

static bool cause_of_targets(const mismatch *c) {
    if (name_left_out(c)) return true;
    if (same_values(&c->mine, &c->right))
        return name(c, "targets of other samples",
                    "the targets are those of this batch, but belong to other samples of it");
    return name(c, "other samples or targets", "the samples are right, but the targets are not");
}

static bool cause_of_input(const mismatch *c) {
    if (name_left_out(c)) return true;
    if (!isnan(c->ratio) && !gs_is_near(c->ratio, 1))
        return name_multiple(c, "input scaled", c->ratio,
                             "it is not divided by the standard deviation, or by 255");
    return name(c, "input shifted",
                "the samples are right: the mean or deviation is another, or they are changed otherwise");
}

/* ---- the weights that forward reads ---- */

/* True if all weights of the first rank that differs, taken as one array, are the right numbers in other positions. */
static bool gathered_wrongly(const mismatch *c) {
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

static bool cause_of_weights(const mismatch *c) {
    gs_sketch before;
    if (c->step == 1)
        return name(c, "initial weights differ", "the initial weights %s",
                    c->ranks < c->a->workers ? "were not broadcast, or come from another seed"
                                             : "come from another seed or another file");
    if (gs_digest_of_run(c->b, c->step - 1, GS_DIGEST_weight, c->number, &before) &&
        gs_sketch_alike(&c->mine, &before))
        return c->d->part
                   ? name(c, "stale tied weight", "the update of a tied weight did not reach this copy of it")
                   : name(c, "stale weight", "these are the weights from before the last update");
    if (gathered_wrongly(c))
        return name(c, "gathered in another order",
                    "these are the right weights, but the ranks' parts were gathered in the wrong order");
    if (c->step == c->a->first && c->a->first > 1)
        return name(c, "weights not restored",
                    "the resumed run has other weights than were saved after step %" PRIu64, c->a->first - 1);
    return name(c, "weights changed between steps",
                "something changed the weights after the update that made them");
}

/* ---- y ---- */

/* True if rank r draws the same mask in pass `pass` of step `step` as in the first pass of c->step. */
static bool same_mask(const mismatch *c, int r, uint64_t step, int pass) {
    if (!gs_digest_has_step(c->a, step)) return false;
    const gs_sketch *x = gs_digests_find(c->a, r, c->step, GS_DIGEST_mask, c->number, 0),
                    *y = gs_digests_find(c->a, r, step, GS_DIGEST_mask, c->number, pass);
    return x && y && gs_sketch_alike(x, y);
}

/* True if dropout's y equals its x, which is the y of some earlier layer. */
static bool dropout_is_off(const mismatch *c) {
    for (int l = c->number - 1; l >= 0; l--)
        for (int e = 0; e < GS_DIGEST_EIGHTHS; e++) {
            gs_sketch y, x;
            if (gs_digest_total(c->a, GS_ALL_RANKS, c->step, GS_DIGEST_y, c->number, e, &y) &&
                gs_digest_total(c->b, GS_ALL_RANKS, c->step, GS_DIGEST_y, l, e, &x) &&
                gs_sketch_alike(&y, &x))
                return true;
        }
    return false;
}

static bool cause_of_dropout(const mismatch *c) {
    int first, second;
    if (two_ranks_drew(c, GS_DIGEST_mask, &first, &second))
        return name(c, "same dropout on all ranks",
                    "ranks %d and %d have the same mask: the random numbers depend neither on the rank nor "
                    "on the sample",
                    first, second);
    for (int r = 0; r < c->a->workers; r++)
        for (int pass = 1; pass < GS_DIGEST_PARTS; pass++)
            if (same_mask(c, r, c->step, pass))
                return name(c, "same dropout in each micro-batch",
                            "micro-batches 0 and %d of rank %d have the same mask: each restarts the random "
                            "numbers",
                            pass, r);
    for (int r = 0; r < c->a->workers; r++)
        if (same_mask(c, r, c->step - 1, 0))
            return name(c, "same dropout in each step",
                        "the mask is that of the step before: the random numbers do not depend on the step");
    if (dropout_is_off(c))
        return name(c, "dropout switched off",
                    "its output is its input: dropout is off, as it should be only in evaluation");
    if (!isnan(c->ratio))
        return name_multiple(c, "dropout not scaled", c->ratio,
                             "the mask is right, but what is kept is not divided by 1 - p");
    return name(c, "other dropout",
                "the mask comes from another seed, or from another position in the random numbers");
}

static bool cause_of_y(const mismatch *c) {
    const char *op = c->b->layer[c->number].op;
    if (name_left_out(c)) return true;
    if (strcmp(op, "dropout") == 0) return cause_of_dropout(c);
    /* The mean of y reveals nothing: normalising makes it right, even with the statistics of only part of the batch. */
    if (strcmp(op, "batch_norm") == 0 && (c->workers > 1 || c->passes > 1))
        return name(c, "statistics of a part of the batch",
                    "the statistics are those of a rank's own samples or of a micro-batch, not of the batch");
    if (c->d->relative < 2e-2)
        return name(c, "less precise",
                    "the difference is small (%.1g): products have fewer bits, as in bf16 or f16",
                    c->d->relative);
    if (!isnan(c->ratio)) return name_multiple(c, "output scaled", c->ratio, "");
    return name(c, "forward of a layer",
                "its input and weights are right, but forward of %s computes something else", op);
}

/* ---- dy of the loss ----
 *
 * A loss is a sum over samples, so dividing it too early or too late scales the dy of some samples. */

/* The factor of dy in each group of samples, relative to the correct dy. Groups are the ranks' parts if both runs have
 * equally many ranks, else the eighths of the batch. Neighbouring eighths with equal factors are one micro-batch. */
typedef struct factors {
    int groups;
    double of[GS_DIGEST_RANKS], samples[GS_DIGEST_RANKS];
    bool equal;
} factors;

static bool find_factors(const mismatch *c, factors *f) {
    const bool of_ranks = c->a->workers > 1 && c->a->workers == c->b->workers;
    *f = (factors){.equal = true};
    for (int i = 0; i < (of_ranks ? c->a->workers : GS_DIGEST_EIGHTHS); i++) {
        const int rank = of_ranks ? i : GS_ALL_RANKS, part = of_ranks ? GS_ALL_PARTS : i;
        gs_sketch a, b;
        double factor;
        if (!gs_digest_total(c->b, rank, c->step, GS_DIGEST_dy, 0, part, &b)) continue;
        if (!gs_digest_total(c->a, rank, c->step, GS_DIGEST_dy, 0, part, &a) || fabs(a.n - b.n) > 0.5 ||
            !gs_sketch_ratio(&a, &b, &factor))
            return false;
        if (of_ranks || f->groups == 0 || !gs_is_near(factor, f->of[f->groups - 1])) f->groups++;
        f->of[f->groups - 1] = factor;
        f->samples[f->groups - 1] += b.n / c->right.n * c->of_b->samples;
        f->equal &= gs_is_near(factor, f->of[0]);
    }
    return f->groups > 0;
}

/* True if the loss is a mean of k means over groups of n_i samples: then the factor of group i is n / (k n_i). */
static bool is_mean_of_means(const factors *f) {
    const double product = f->of[0] * f->samples[0];
    for (int g = 1; g < f->groups; g++)
        if (fabs(f->of[g] * f->samples[g] - product) > 0.01 * fabs(product)) return false;
    return true;
}

static bool some_are_zero(const mismatch *c) {
    gs_sketch a;
    for (int e = 0; e < GS_DIGEST_EIGHTHS; e++)
        if (gs_digest_total(c->a, GS_ALL_RANKS, c->step, GS_DIGEST_dy, 0, e, &a) && !(a.squares > 0))
            return true;
    return false;
}

static bool cause_of_loss(const mismatch *c) {
    const multiple known[] = {
        {c->passes, "micro-batch loss not divided", "each micro-batch counts as a whole batch"},
        {1 / c->passes, "divided by micro-batches twice",
         "it is divided by the number of micro-batches once too often"},
        {1 / c->workers, "divided by workers twice",
         "each rank divides by the ranks, and the sum is divided by all samples again"},
        {c->workers, "loss times workers",
         "it is multiplied by the number of ranks, to undo a mean that no rank takes"}};
    factors f;
    const bool found = find_factors(c, &f);
    if (found && f.equal && f.of[0] != 0 && !gs_is_near(f.of[0], 1))
        return name_known_multiple(c, f.of[0], NEAR, known, COUNT_OF(known)) ||
               name_multiple(c, "loss scaled", f.of[0], "");
    if (some_are_zero(c))
        return name(c, "some samples masked",
                    "the loss of some samples has no gradient: they are masked, as padding is");
    if (found && !f.equal && is_mean_of_means(&f))
        return name(c, "mean of means",
                    "each %s takes the mean of its own samples, and all means weigh the same: its samples "
                    "count less the more it has",
                    c->workers > 1 ? "rank" : "micro-batch");
    return name(c, "another loss",
                "the outputs and the targets are right: another loss, or another smoothing of labels");
}

/* ---- dw and dx of a layer ---- */

/* y: the difference between A's dw and B's. */
static bool difference(const mismatch *c, int p, gs_sketch *y) {
    gs_sketch b;
    if (!gs_digest_of_run(c->a, c->step, GS_DIGEST_dw, p, y) ||
        !gs_digest_of_run(c->b, c->step, GS_DIGEST_dw, p, &b))
        return false;
    gs_sketch_add_scaled(y, -1, &b);
    return true;
}

/* y: the difference of dw; x: dw of the first micro-batch, summed over all ranks. */
static bool and_first_pass(const mismatch *c, int p, gs_sketch *y, gs_sketch *x) {
    return difference(c, p, y) && gs_digest_total(c->a, GS_ALL_RANKS, c->step, GS_DIGEST_dw, p, 0, x);
}

/* y: the difference of dw; x: the previous step's sum, which the array of gradients still holds. */
static bool and_sum_before(const mismatch *c, int p, gs_sketch *y, gs_sketch *x) {
    return difference(c, p, y) && gs_digest_of_run(c->a, c->step - 1, GS_DIGEST_sum, p, x);
}

static bool has_no_gradient(const mismatch *c) {
    for (int r = 0; r < c->a->workers; r++) {
        gs_sketch a;
        if (!gs_digest_total(c->a, r, c->step, GS_DIGEST_dw, c->number, GS_ALL_PARTS, &a) || a.squares > 0)
            continue;
        c->d->rank[r] = true;
        return name(c, "no gradient on a rank", "backward did not reach this tensor on rank %d", r);
    }
    return false;
}

static bool is_borrowed(const mismatch *c) {
    for (int r = 0; r < c->b->workers; r++)
        if (gs_digests_find(c->b, r, c->step, GS_DIGEST_weight, c->number, 1)) return true;
    return false;
}

/* Rounding errors vary from element to element, so they leave the ratio closer to 1 than this. */
static const double SCALED = 5e-4;

static bool cause_of_backward(const mismatch *c, const char *op) {
    const bool relu = strcmp(op, "relu") == 0;
    if (fabs(c->ratio - 1) > SCALED)
        return name_multiple(c, "gradient of a layer scaled", c->ratio, "dy is right");
    if (strcmp(op, "batch_norm") == 0 && (c->workers > 1 || c->passes > 1))
        return name(c, "batch_norm backward of a part",
                    "forward takes statistics of the whole batch, but backward sums over a rank's own "
                    "samples");
    if (c->kind == GS_DIGEST_dx && (relu || strcmp(op, "max_pool2d") == 0))
        return name(c, "other elements in backward",
                    "forward and dy are right, but dy goes to other elements than those that forward %s",
                    relu ? "let through" : "took");
    return name(c, "backward of a layer",
                "forward and dy are right, but backward of %s computes something else", op);
}

static bool cause_of_dw(const mismatch *c) {
    double factor;
    if (fit(c, 1, and_sum_before, 1e-3, &factor) && factor > 0.9)
        return name(c, "gradients not cleared", "the gradients of the step before are still in it%s",
                    factor > 1.5 ? ", on each rank" : "");
    if (c->passes > 1 && c->workers > 1 && fit(c, 1, and_first_pass, 1e-3, &factor) &&
        gs_is_near(factor, c->workers - 1))
        return name(c, "summed after each micro-batch",
                    "the first micro-batch is in it %.0f times: its sum over the ranks is summed again with "
                    "the next",
                    factor + 1);
    if (has_no_gradient(c)) return true;
    if (is_borrowed(c))
        return name(c, "one use of a tied weight",
                    "two layers share this tensor: the gradient of one of them is missing, or counts twice");
    return cause_of_backward(c, c->b->layer[c->b->param[c->number].layer].op);
}

static bool cause_of_dx(const mismatch *c) {
    const char *op = c->b->layer[c->number].op;
    if (strcmp(op, "dropout") != 0) return cause_of_backward(c, op);
    return name(c, "other dropout in backward",
                "backward draws another mask than forward: its random numbers were not restored");
}

/* ---- the sum of gradients, once each rank's own gradients are known to be right ----
 *
 * Least squares shows which ranks' gradients are in the sum, and how often: summed dw = c_0 dw_0 + c_1 dw_1 + ..., over
 * the tensors that differ. */

/* How often the gradient of each rank, or of each pass of each rank, is contained in c->rank's sum. */
typedef struct shares {
    bool found;
    int unknowns;
    double of[GS_FIT_MOST];
} shares;

static bool tensor_differs(const mismatch *c, int p, gs_sketch *a) {
    gs_sketch b;
    return gs_digest_of_rank(c->a, c->rank, c->step, GS_DIGEST_sum, p, 0, a) &&
           gs_digest_of_run(c->b, c->step, GS_DIGEST_sum, p, &b) &&
           gs_sketch_distance(a, &b) > 1e-4 * sqrt(b.squares);
}

static bool own_gradients(const mismatch *c, int p, gs_sketch *y, gs_sketch *x) {
    const int passes = (int)c->passes;
    for (int i = 0; i < c->a->workers * passes; i++)
        (void)gs_digest_total(c->a, i / passes, c->step, GS_DIGEST_dw, p,
                              passes > 1 ? i % passes : GS_ALL_PARTS, &x[i]);
    return tensor_differs(c, p, y);
}

/* If `passes` is 1, finds the share of each rank; otherwise, of each pass of each rank. */
static shares find_shares(const mismatch *c, int passes) {
    mismatch asked = *c;
    shares s = {.unknowns = c->a->workers * passes};
    asked.passes = passes;
    s.found = fit(&asked, s.unknowns, own_gradients, 1e-2, s.of);
    return s;
}

static bool is(double share, double wanted) {
    return fabs(share - wanted) < 0.01 * fmax(1, fabs(wanted));
}

static int count_of(const shares *s, double wanted) {
    int count = 0;
    for (int i = 0; i < s->unknowns; i++) count += is(s->of[i], wanted);
    return count;
}

/* Matches if the rank has only its own gradient instead of the sum. */
static bool name_own(const mismatch *c) {
    int all = 0, differ = 0;
    char names[300] = "";
    for (int p = 0; p < c->a->params; p++) {
        gs_sketch a;
        if (c->a->param[p].state) continue;
        all++;
        if (!tensor_differs(c, p, &a)) continue;
        if (differ++ < 4) gs_append(names, sizeof names, "%s%s", *names ? ", " : "", c->a->param[p].name);
    }
    if (differ == all)
        return name(c, "not summed", "rank %d has its own gradient in place of the sum", c->rank);
    return name(c, "bucket missed",
                "each rank has its own gradient of %s%s in place of the sum: a bucket was missed", names,
                differ > 4 ? ", ..." : "");
}

/* True if all ranks hold the same sum. They do if that sum lacks a rank's gradient; sums within groups would differ. */
static bool all_have_the_same(const mismatch *c) {
    gs_sketch other;
    for (int r = 0; r < c->a->workers; r++)
        if (!gs_digest_of_rank(c->a, r, c->step, GS_DIGEST_sum, c->number, 0, &other) ||
            !gs_sketch_alike(&c->mine, &other))
            return false;
    return true;
}

/* Lists the ranks with this share: "1, 3". */
static const char *ranks_with(const shares *s, double wanted, char *text, size_t size) {
    *text = 0;
    for (int i = 0; i < s->unknowns; i++)
        if (is(s->of[i], wanted)) gs_append(text, size, "%s%d", *text ? ", " : "", i);
    return text;
}

/* Matches if the sum contains the gradients of some ranks `times` times (0 or 2), and those of all other ranks once. */
static bool name_ranks(const mismatch *c, const shares *s, int times, const char *cause) {
    char ranks[300];
    const int count = count_of(s, times);
    return count > 0 && count + count_of(s, 1) == s->unknowns &&
           name(c, cause, "the gradient%s of rank%s %s %s %sin the sum%s", count > 1 ? "s" : "",
                count > 1 ? "s" : "", ranks_with(s, times, ranks, sizeof ranks), count > 1 ? "are" : "is",
                times ? "" : "not ", times ? " twice" : "");
}

static bool are_clipped(const mismatch *c, const shares *s) {
    for (int i = 0; i < s->unknowns; i++)
        if (!(s->of[i] > 0 && s->of[i] < 1.001)) return false;
    return gs_digests_number(c->a, "clip") > 0;
}

static bool name_shares(const mismatch *c, const shares *s) {
    char ranks[300];
    const int with = count_of(s, 1), without = count_of(s, 0), all = s->unknowns;
    const bool own = is(s->of[c->rank], 1);
    if (all > 1 && own && without == all - 1) return name_own(c);
    if (own && with > 1 && without > 0 && with + without == all && c->ranks == c->a->workers &&
        !all_have_the_same(c))
        return name(c, "summed within a group", "rank %d has the sum of ranks %s only", c->rank,
                    ranks_with(s, 1, ranks, sizeof ranks));
    if (name_ranks(c, s, 0, "rank missing from the sum") || name_ranks(c, s, 2, "rank counted twice"))
        return true;
    if (are_clipped(c, s))
        return name(
            c, "clipped before the sum",
            "each rank's gradient has a factor below 1, as if clipped by its own norm: %.3g for rank 0",
            s->of[0]);
    return count_of(s, s->of[0]) == all && !is(s->of[0], 1) && name_multiple(c, "sum scaled", s->of[0], "");
}

static bool is_last_pass(const shares *s, int passes) {
    for (int i = 0; i < s->unknowns; i++)
        if (!is(s->of[i], i % passes == passes - 1 ? 1 : 0)) return false;
    return true;
}

static bool name_passes(const mismatch *c, const shares *s, int passes) {
    const int lost = count_of(s, 0);
    int first = 0;
    if (lost < 1 || lost + count_of(s, 1) != s->unknowns) return false;
    while (!is(s->of[first], 0)) first++;
    return name(c, "micro-batch missing",
                "micro-batch %d of rank %d%s is not in the sum: it came too late, or was lost",
                first % passes, first / passes, lost > 1 ? ", among others," : "");
}

/* True if another rank holds the right sum. A stage holds only its own layers' sums. */
static bool another_is_right(const mismatch *c) {
    for (int r = 0; r < c->a->workers; r++)
        if (!c->d->rank[r] && gs_digest_rank_holds(c->a, r, c->step, GS_DIGEST_sum, c->number)) return true;
    return false;
}

static bool cause_of_sum(const mismatch *c) {
    const multiple known[] = {
        {c->workers, "summed twice", "as often as there are ranks: it was summed over them twice"},
        {1 / c->workers, "mean instead of sum",
         "it is divided by the number of ranks, and then by all samples again"}};
    const int passes = (int)c->passes;
    const shares s = find_shares(c, 1), of_passes = passes > 1 ? find_shares(c, passes) : (shares){0};
    if (s.found && count_of(&s, s.of[0]) == s.unknowns &&
        name_known_multiple(c, s.of[0], 0.01, known, COUNT_OF(known)))
        return true;
    if (of_passes.found && is_last_pass(&of_passes, passes))
        return name(c, "micro-batch overwritten",
                    "the sum holds only the last micro-batch: each overwrites those before it");
    if ((s.found && name_shares(c, &s)) || (of_passes.found && name_passes(c, &of_passes, passes)))
        return true;
    if (c->d->relative < 2e-2)
        return name(c, "sum rounded",
                    "the difference is small (%.1g): the sum has fewer bits, as in f16 or bf16",
                    c->d->relative);
    if (c->ranks > 0 && another_is_right(c))
        return name(c, "sum changed on a rank",
                    "the other ranks have the right sum: it was changed on the way, or afterwards");
    return name(c, "another sum", "what the ranks add is right, but the sum is not");
}

/* ---- the scalars of a step ---- */

/* Another step in which the correct run uses A's rate; 0: none. */
static uint64_t step_of_rate(const mismatch *c) {
    for (uint64_t step = c->b->first; gs_digest_has_step(c->b, step); step++)
        if (step != c->step && gs_is_near(c->of_a->lr, gs_digests_score(c->b, 0, step)->lr)) return step;
    return 0;
}

static bool cause_of_rate(const mismatch *c) {
    const multiple known[] = {{c->workers, "rate times workers", "it was multiplied by the number of ranks"}};
    const uint64_t of = step_of_rate(c);
    const double times = c->passes > 1 ? c->passes : c->workers, step = (double)c->step;
    const char *cause = NULL, *why = "begins again with the resumed run";
    if (of && c->a->first > 1 && of == c->step - c->a->first + 1) {
        cause = "schedule begins again at resume";
    } else if (of && times > 1 &&
               (fabs((double)of - times * step) <= 0.5 ||
                fabs((double)of - (times * (step - 1) + 1)) <= 0.5)) { /* k s or (s - 1) k + 1 for step s */
        cause = "schedule stepped more than once";
        why = c->passes > 1 ? "advances once for each micro-batch" : "advances once for each rank";
    } else if (of && (of + 1 == c->step || (of == c->step + 1 && c->step >= 2))) {
        cause = "schedule one step off";
        why = of < c->step ? "is one step late" : "is one step early";
    }
    if (cause) return name(c, cause, "it is the rate of step %" PRIu64 ": the schedule %s", of, why);
    return name_known_multiple(c, c->ratio, NEAR, known, COUNT_OF(known));
}

/* The squared norm is the sum of the tensors' squared norms, so the missing amount identifies the tensor. */
static bool norm_without_tensor(const mismatch *c) {
    gs_sketch x;
    double all = 0;
    for (int p = 0; p < c->b->params; p++)
        if (!c->b->param[p].state && gs_digest_of_run(c->b, c->step, GS_DIGEST_sum, p, &x)) all += x.squares;
    for (int p = 0; p < c->b->params; p++) {
        if (c->b->param[p].state || !gs_digest_of_run(c->b, c->step, GS_DIGEST_sum, p, &x)) continue;
        const bool without = fabs(c->ratio - sqrt(1 - x.squares / all)) < 1e-4,
                   twice = fabs(c->ratio - sqrt(1 + x.squares / all)) < 1e-4;
        if (without || twice)
            return name(c, "norm without a tensor", "%s is %s the norm", c->b->param[p].name,
                        without ? "missing from" : "twice in");
    }
    return false;
}

/* The norm of the gradient, which decides whether it is clipped. */
static bool cause_of_norm(const mismatch *c) {
    const multiple known[] = {
        {c->of_b->loss_scale, "norm of scaled gradients", "the loss scale must be undone before clipping"},
        {sqrt((double)c->a->workers), "norm counted by each rank",
         "this is the root of the number of ranks: each counts the same gradients"},
        {c->of_b->samples, "norm of the sum",
         "it is the norm of the sum over all samples, not of their mean"}};
    if (name_known_multiple(c, c->ratio, NEAR, known, COUNT_OF(known))) return true;
    for (int r = 1; r < c->a->workers; r++)
        if (!gs_is_near(gs_digests_score(c->a, r, c->step)->norm, gs_digests_score(c->a, 0, c->step)->norm))
            return name(c, "norm of a rank's own part",
                        "ranks 0 and %d have different norms: each takes only its own part", r);
    return norm_without_tensor(c);
}

/* The factor by which the summed gradient is multiplied: 1 / samples, or less if it is clipped. */
static bool cause_of_scale(const mismatch *c) {
    const double samples = c->of_b->samples, clipped = c->of_b->scale * samples;
    const bool clips = gs_digests_number(c->a, "clip") > 0 && clipped < 0.999;
    double whole = 0; /* the samples of a full batch; an epoch's last batch may have fewer */
    for (uint64_t step = c->b->first; gs_digest_has_step(c->b, step); step++)
        whole = fmax(whole, gs_digests_score(c->b, 0, step)->samples);
    const multiple known[] = {
        {c->of_b->loss_scale, "loss scale not undone", "it still holds the loss scale"},
        {clips ? 1 / clipped : 0, "not clipped", "the gradients are longer than allowed"},
        {samples / whole, "ragged batch divided as a whole one",
         "the sum over the last batch of an epoch is divided by the samples of a whole batch"},
        {c->workers, "divided by a rank's samples",
         "the sum over all ranks is divided by the samples of one rank"},
        {c->passes, "divided by a micro-batch's samples",
         "the sum over all micro-batches is divided by the samples of one"}};
    if (c->of_a->scale == 0) /* it stays 0 until an update sets it */
        return name(c, "update missing", "no update was made, though it was counted");
    return name_known_multiple(c, c->ratio, NEAR, known, COUNT_OF(known));
}

static bool cause_of_updates(const mismatch *c) {
    const double updates = c->of_a->updates, wanted = c->of_b->updates;
    if (updates > wanted)
        return name(c, "updated twice",
                    "%.0f updates were made instead of %.0f: a step updates more than once", updates, wanted);
    if (c->a->first > 1)
        return name(c, "updates not counted on at resume",
                    "the resumed optimiser counts %.0f instead of %.0f updates, and corrects its bias anew",
                    updates, wanted);
    return name(c, "update missing", "an update was left out");
}

static bool cause_of_loss_scale(const mismatch *c) {
    return name(c, "loss scale differs",
                "the ranks do not agree on the loss scale, or on whether to leave out a step");
}

/* ---- the optimiser's vectors ---- */

/* For the first vector. y: its difference; x: the weights, the update's gradient, and the vector before the update. */
static bool vector_parts(const mismatch *c, int p, gs_sketch *y, gs_sketch *x) {
    gs_sketch b, sum;
    if (!gs_digest_of_rank(c->a, c->rank, c->step, GS_DIGEST_vector0, p, 0, y) ||
        !gs_digest_of_run(c->b, c->step, GS_DIGEST_vector0, p, &b) ||
        !gs_digest_of_run(c->b, c->step, GS_DIGEST_weight, p, &x[0]) ||
        !gs_digest_of_run(c->b, c->step, GS_DIGEST_sum, p, &sum))
        return false;
    gs_sketch_add_scaled(y, -1, &b);
    x[1] = (gs_sketch){0};
    gs_sketch_add_scaled(&x[1], c->of_b->scale, &sum);
    (void)gs_digest_of_run(c->b, c->step - 1, GS_DIGEST_vector0, p, &x[2]);
    return true;
}

static const gs_optimizer_ops *optimizer_of(const mismatch *c) {
    return gs_optimizer_named(gs_digests_option(c->b, "optimizer"));
}

/* times: how often the vector contains the decay, which should be once. */
static bool name_decay(const mismatch *c, double times) {
    const double samples = c->of_b->samples;
    const int workers = c->a->workers;
    const gs_optimizer_ops *ops = optimizer_of(c);
    if (ops && ops->decoupled)
        return name(c, "decay through the moments",
                    "weight decay enters the gradient, and so the moments, as in Adam");
    if (fabs(times * samples - 1) < 0.2)
        return name(c, "decay divided by samples",
                    "weight decay is divided by %.0f samples: it was added before the division", samples);
    if (fabs(times) < 2e-3) return name(c, "no decay", "it has no weight decay");
    if (workers > 2 && gs_is_near(times, workers))
        return name(c, "decay added by each rank",
                    "each of the %d ranks has added weight decay before the sum", workers);
    if (fabs(times - 2) < 1e-2) return name(c, "decay twice", "weight decay is in it twice");
    return name(c, "another decay", "weight decay is %.3g times what it should be", times);
}

/* Names the mistake if earlier gradients are missing from the vector. */
static bool name_gone(const mismatch *c) {
    if (c->a->first == 1 || c->step > c->a->first)
        return name(c, "vectors cleared", "earlier gradients are gone from the vector: it was cleared");
    return name(c, "vectors not restored",
                "earlier gradients are gone: vectors were not restored after step %" PRIu64, c->a->first - 1);
}

/* True if there is only one moment, as in Lion: m = beta2 m + (1 - beta2) g, uncorrected. Adam's m uses beta1. */
static bool has_one_moment(const mismatch *c) {
    const gs_optimizer_ops *ops = optimizer_of(c);
    return ops && !ops->vector[1] && gs_digests_number(c->b, "beta2") > 0;
}

static bool cause_of_vector0(const mismatch *c) {
    const double decay = gs_digests_number(c->b, "weight-decay"),
                 of_sgd = gs_digests_number(c->b, "momentum"),
                 beta = gs_digests_number(c->b, has_one_moment(c) ? "beta2" : "beta1"),
                 momentum = of_sgd > 0 ? of_sgd : beta;
    /* By how much the factors of the weights, the gradient and the previous vector exceed the right factors. */
    double of[3] = {0, 0, 0};
    gs_sketch x;
    bool before = false;
    for (int p = 0; p < c->a->params; p++)
        before |= gs_digest_of_run(c->b, c->step - 1, GS_DIGEST_vector0, p, &x);
    const bool fits = fit(c, before ? 3 : 2, vector_parts, 1e-2, of),
               right_gradient = fits && fabs(of[1]) < 1e-3, right_before = fits && fabs(of[2]) < 1e-3;
    if (decay > 0 && right_gradient && right_before && !(fabs(of[0]) < 1e-3 * decay))
        return name_decay(c, 1 + of[0] / decay);
    if (before && right_gradient && fabs(of[2] + momentum) < 1e-2) return name_gone(c);
    if (before && right_gradient && !right_before)
        return name(c, "another momentum", "earlier gradients have the factor %.4g instead of %.4g",
                    momentum + of[2], momentum);
    if (right_before && fabs(of[1] + 1 - c->of_b->lr) < 1e-3)
        return name(c, "rate inside the momentum",
                    "the gradient enters it times the rate, so a later rate does not apply to it");
    if (right_before && !right_gradient)
        return name(c, "gradient in the vector scaled",
                    "the gradient enters it with the factor %.4g instead of 1", 1 + of[1]);
    return name(c, "another vector", "the gradient is right, but the optimiser makes another vector from it");
}

static bool cause_of_vector1(const mismatch *c) {
    if (!isnan(c->ratio)) return name_multiple(c, "second moment", c->ratio, "the first moment is right");
    return name(c, "second moment", "the first moment is right, but the mean of squares is not");
}

/* ---- updated weights, once the vectors are known to be right ---- */

/* The update's change to the weights on the first rank that differs: y in A, x[0] in B; x[1]: the weights before it. */
static bool changes(const mismatch *c, int p, gs_sketch *y, gs_sketch *x) {
    if (!gs_digest_of_rank(c->a, c->rank, c->step, GS_DIGEST_updated, p, 0, y) ||
        !gs_digest_of_run(c->b, c->step, GS_DIGEST_updated, p, &x[0]) ||
        !gs_digest_of_run(c->b, c->step, GS_DIGEST_weight, p, &x[1]))
        return false;
    gs_sketch_add_scaled(y, -1, &x[1]);
    gs_sketch_add_scaled(&x[0], -1, &x[1]);
    return true;
}

/* Adam's bias correction of both moments after t updates. */
static double correction(const mismatch *c, double t) {
    return sqrt(1 - pow(gs_digests_number(c->b, "beta2"), t)) /
           (1 - pow(gs_digests_number(c->b, "beta1"), t));
}

static bool name_correction(const mismatch *c, double change) {
    const double t = c->of_b->updates;
    if (!(gs_digests_number(c->b, "beta1") > 0 && gs_digests_number(c->b, "beta2") > 0 && t > 0) ||
        has_one_moment(c))
        return false;
    for (int off = -1; off <= 1; off += 2)
        if (t + off > 0 && fabs(change / (correction(c, t + off) / correction(c, t)) - 1) < 1e-2)
            return name(c, "bias correction off by one",
                        "the moments are right, but corrected as in update %.0f instead of %.0f", t + off, t);
    return fabs(change * correction(c, t) - 1) < 1e-2 &&
           name(c, "no bias correction", "the moments are right, but their bias is not corrected");
}

static bool not_updated(const mismatch *c) {
    const gs_sketch nothing = {0};
    gs_sketch y, x[2];
    return changes(c, c->number, &y, x) &&
           gs_sketch_distance(&y, &nothing) < 1e-7 * sqrt(x[1].squares) + 1e-12 &&
           gs_sketch_distance(&x[0], &nothing) > 0;
}

static bool cause_of_updated(const mismatch *c) {
    const double step = c->of_b->lr * gs_digests_number(c->b, "weight-decay");
    const gs_optimizer_ops *ops = optimizer_of(c);
    double f[2];
    /* An optimiser with a trust ratio scales each tensor by its own factor. */
    if (ops && ops->whole)
        return name(c, "trust ratio",
                    "%s scales the updates by norms of parts of tensors, or of other vectors", ops->name);
    /* A's change is f[0] times B's, plus f[1] times the weights. Because of epsilon, Adam fits only approximately. */
    const bool fits = fit(c, 2, changes, 3e-2, f), change_alone = fits && fabs(f[1]) < 1e-4;
    if (change_alone && name_correction(c, f[0])) return true;
    if (fits && step > 0 && fabs(f[0] - 1) < 2e-2 && fabs(f[1]) > 0.02 * step)
        return name(c, "decoupled decay", "the weights decay %.3g times as much as they should",
                    1 - f[1] / step);
    if (not_updated(c))
        return name(c, "weights not updated", "the vectors are right, but %s is not updated",
                    c->a->param[c->number].name);
    if (change_alone)
        return name(c, "update scaled", "the vectors are right, but the weights move %.4g times as far",
                    f[0]);
    return name(c, "another update", "the vectors are right, but the update makes other weights from them");
}

/* ---- the layers' state ---- */

static bool cause_of_state(const mismatch *c) {
    for (int r = 1; r < c->a->workers; r++) {
        const gs_sketch *one = gs_digests_find(c->a, 0, c->step, GS_DIGEST_state, c->number, 0),
                        *other = gs_digests_find(c->a, r, c->step, GS_DIGEST_state, c->number, 0);
        if (one && other && !gs_sketch_alike(one, other))
            return name(c, "running statistics of each rank",
                        "ranks 0 and %d differ: each keeps the statistics of its own samples", r);
    }
    return name(c, "running statistics", "the batch's statistics are right, but not their moving average");
}

/* ---- all quantities ---- */

static bool (*const cause_of[GS_DIFFERS_KINDS])(const mismatch *) = {
    [GS_DIGEST_samples] = cause_of_samples,
    [GS_DIGEST_answers] = cause_of_targets,
    [GS_DIGEST_weight] = cause_of_weights,
    [GS_DIGEST_x] = cause_of_input,
    [GS_DIGEST_y] = cause_of_y,
    [GS_DIGEST_dy] = cause_of_loss,
    [GS_DIGEST_dw] = cause_of_dw,
    [GS_DIGEST_dx] = cause_of_dx,
    [GS_DIGEST_sum] = cause_of_sum,
    [GS_DIGEST_vector0] = cause_of_vector0,
    [GS_DIGEST_vector1] = cause_of_vector1,
    [GS_DIGEST_updated] = cause_of_updated,
    [GS_DIGEST_state] = cause_of_state,
    [GS_DIFFERS_lr] = cause_of_rate,
    [GS_DIFFERS_norm] = cause_of_norm,
    [GS_DIFFERS_scale] = cause_of_scale,
    [GS_DIFFERS_loss_scale] = cause_of_loss_scale,
    [GS_DIFFERS_updates] = cause_of_updates};

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

static double passes_of(const gs_digests *d) {
    const int accumulate = gs_digests_count(d, "accumulate"), micro = gs_digests_count(d, "micro-batches"),
              stages = gs_digests_count(d, "pipeline");
    if (stages > 1) return micro > 0 ? micro : 4 * stages;
    return accumulate > 1 ? accumulate : 1;
}

/* Get the array or number of both runs, and the ratio A / B. size: each run's number, or its array's sum of squares. */
static void compare(mismatch *c, double size[2]) {
    if (c->kind >= GS_DIGEST_KINDS_COUNT) {
        size[0] = gs_score_number(c->of_a, c->kind);
        size[1] = gs_score_number(c->of_b, c->kind);
        c->ratio = size[0] / size[1];
        return;
    }
    const bool of_rank = c->kind == GS_DIGEST_weight || c->kind >= GS_DIGEST_sum;
    (void)(of_rank ? gs_digest_of_rank(c->a, c->rank, c->step, c->kind, c->number, c->d->part, &c->mine)
                   : gs_digest_of_run(c->a, c->step, c->kind, c->number, &c->mine));
    (void)gs_digest_of_run(c->b, c->step, c->kind, c->number, &c->right);
    if (!gs_sketch_ratio(&c->mine, &c->right, &c->ratio)) c->ratio = (double)NAN;
    size[0] = c->mine.squares;
    size[1] = c->right.squares;
}

void gs_name_difference(const gs_digests *a, const gs_digests *b, gs_difference *d) {
    mismatch c = {.a = a, .b = b, .d = d, .step = d->step, .kind = d->kind, .number = d->number};
    const bool number = d->kind >= GS_DIGEST_KINDS_COUNT;
    double size[2];
    name_place(b, d);
    for (int r = a->workers - 1; r >= 0; r--)
        if (d->rank[r]) c.rank = r, c.ranks++;
    c.of_a = gs_digests_score(a, c.rank, c.step);
    c.of_b = gs_digests_score(b, 0, c.step);
    c.passes = passes_of(a);
    c.workers =
        a->workers / fmax(gs_digests_count(a, "pipeline"), 1) / fmax(gs_digests_count(a, "tensor"), 1);
    compare(&c, size);
    if (isfinite(size[0]) != isfinite(size[1]))
        name(&c, "not finite", "it %s NaN or infinity in %s run, and not in %s one", number ? "is" : "holds",
             isfinite(size[0]) ? "the right" : "this", isfinite(size[0]) ? "this" : "the right");
    else if (d->allowed == 0 && d->relative < 1e-6 && d->kind >= GS_DIGEST_y && d->kind <= GS_DIGEST_sum)
        name(&c, "last bits",
             "only last bits differ: one run adds or rounds in another way: gradsum doctor --exact");
    else if (cause_of[d->kind] && cause_of[d->kind](&c))
        return;
    else if (number)
        name(&c, "another number", "it is %.6g, and should be %.6g", size[0], size[1]);
    else
        name(&c, "unknown", "this is none of the mistakes that this program knows");
}
