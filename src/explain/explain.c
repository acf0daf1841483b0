/* The first difference, in the order in which a step computes. */
#include "explain/explain.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"
#include "explain/causes.h"
#include "explain/kinks.h"
#include "explain/rounding.h"
#include "explain/sums.h"

static bool found(const gs_search *s, int kind, int number, double relative) {
    s->out->found = true;
    s->out->step = s->step;
    s->out->kind = kind;
    s->out->number = number;
    s->out->relative = relative;
    return true;
}

/* ---- may they be compared? ---- */

static const char *const must_be_equal[] = {
    "model",        "data",     "labels",          "tokens",       "context",   "size",  "loss",
    "precision",    "batch",    "optimizer",       "momentum",     "beta1",     "beta2", "epsilon",
    "weight-decay", "clip",     "label-smoothing", "seed",         "augment",   "lr",    "lr-rule",
    "schedule",     "final-lr", "warmup",          "warmup-steps", "batch-norm"};

gs_status gs_explain_check(const gs_digests *a, const gs_digests *b) {
    for (size_t i = 0; i < sizeof must_be_equal / sizeof *must_be_equal; i++) {
        const char *name = must_be_equal[i], *of_a = gs_digests_option(a, name),
                   *of_b = gs_digests_option(b, name);
        if (strcmp(of_a, of_b) != 0)
            return gs_fail(GS_E_USAGE, "the runs are not of one training: --%s is '%s' in %s, and '%s' in %s",
                           name, gs_printable(of_a), a->folder, gs_printable(of_b), b->folder);
    }
    if (a->layers != b->layers || a->params != b->params || a->set != b->set)
        return gs_fail(GS_E_USAGE,
                       "the runs are not of one training: %s has %d layers and %zu samples, %s %d and %zu",
                       a->folder, a->layers, a->set, b->folder, b->layers, b->set);
    if (a->first < b->first + b->steps && b->first < a->first + a->steps) return GS_OK;
    return gs_fail(GS_E_USAGE, "%s and %s have no step in common", a->folder, b->folder);
}

static bool is_product(const char *op) {
    static const char *const products[] = {"linear", "conv2d", "attention", "tied"};
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        if (strcmp(op, products[i]) == 0) return true;
    return false;
}

/* Each product rounds its inputs anew to 16 bits, on OpenCL devices each layer the y and dx that it stores, and n such
 * roundings in a row add up as independent ones do. of_few was measured with lenet on the CPU, which has 5. */
static double by_depth(const gs_digests *a, const gs_digests *b, double of_few) {
    const bool stored =
        strstr(gs_digests_option(a, "devices"), "cl") || strstr(gs_digests_option(b, "devices"), "cl");
    int count = 0;
    for (int l = 0; l < b->layers; l++) {
        const char *op = b->layer[l].op;
        const bool holds_others = strcmp(op, "residual") == 0 || strcmp(op, "sequential") == 0;
        count += stored && !holds_others ? 2 : is_product(op);
    }
    return of_few * sqrt(fmax(1, count / 5.0));
}

double gs_explain_tolerance(const gs_digests *a, const gs_digests *b) {
    double most = 1e-4;
    const gs_digests *const run[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        const char *wire = gs_digests_option(run[i], "wire"),
                   *products = gs_digests_option(run[i], "precision");
        if (strcmp(wire, "bf16") == 0) most = fmax(most, 2e-2);
        if (strcmp(wire, "f16") == 0) most = fmax(most, 3e-3);
        if (strcmp(products, "bf16") == 0) most = fmax(most, by_depth(a, b, 2e-2));
        if (strcmp(products, "f16") == 0) most = fmax(most, by_depth(a, b, 3e-3));
    }
    return most;
}

/* ---- arrays of samples ---- */

/* What is not finite in either run of a step that both leave out says nothing: it is why they do. */
static bool is_left_out(const gs_search *s, double of_a, double of_b) {
    return s->left_out && !(isfinite(of_a) && isfinite(of_b));
}

/* How much is no difference: a share of the size, and in addition `more`. */
typedef struct allowance {
    double share, more;
} allowance;

static allowance allowance_of(const gs_search *s, int kind, int number, int part) {
    const bool layer = kind == GS_DIGEST_y || kind == GS_DIGEST_dx;
    return (allowance){gs_kinks_share(s, kind, part),
                       layer && part >= 0 ? gs_kinks_more(s, kind, number, part) : 0};
}

static bool differ(const gs_search *s, const gs_numbers *a, const gs_numbers *b, double size,
                   allowance allowed, double *relative) {
    const double apart = gs_apart(a, b);
    *relative = 0;
    if (fabs(a->n - b->n) > 0.5) {
        *relative = 1;
        return true;
    }
    if (is_left_out(s, a->squares, b->squares)) return false;
    if (size > 0 || isnan(apart))
        *relative = apart / size;
    else
        *relative = apart > 0 ? 1 : 0;
    return !(*relative <= allowed.share || apart <= allowed.share * size + allowed.more);
}

/* Which ranks of A computed samples of these eighths, and no others. */
static void ranks_of_eighths(const gs_search *s, int kind, int number, const bool *bad) {
    for (int r = 0; r < s->a->workers; r++) {
        int in = 0, all = 0;
        for (int e = 0; e < GS_DIGEST_EIGHTHS; e++) {
            gs_numbers x;
            if (!gs_total(s->a, r, s->step, kind, number, e, &x)) continue;
            in += bad[e];
            all++;
        }
        s->out->rank[r] = all > 0 && in == all;
    }
}

static void ranks_alike_divided(const gs_search *s, int kind, int number, int part) {
    for (int r = 0; r < s->a->workers; r++) {
        gs_numbers a, b;
        double relative;
        const bool in_a = gs_total(s->a, r, s->step, kind, number, part, &a),
                   in_b = gs_total(s->b, r, s->step, kind, number, part, &b);
        s->out->rank[r] |= in_a && in_b &&
                           differ(s, &a, &b, sqrt(fmax(a.squares, b.squares)),
                                  allowance_of(s, kind, number, part), &relative);
    }
}

/* Of B's numbers that are finite. */
static double squares_of_samples(const gs_search *s, int kind, int number) {
    double squares = 0;
    for (int e = 0; e < GS_DIGEST_EIGHTHS; e++) {
        gs_numbers x;
        if (gs_total(s->b, GS_ALL_RANKS, s->step, kind, number, e, &x) && isfinite(x.squares))
            squares += x.squares;
    }
    return squares;
}

static bool samples_differ(const gs_search *s, int kind, int number) {
    gs_numbers unused;
    bool bad[GS_DIGEST_EIGHTHS] = {false}, any = false;
    double most = 0, all = squares_of_samples(s, kind, number);
    if (!gs_total(s->b, GS_ALL_RANKS, s->step, kind, number, GS_ALL_PARTS, &unused)) return false;
    if (!gs_total(s->a, GS_ALL_RANKS, s->step, kind, number, GS_ALL_PARTS, &unused)) return false;
    for (int e = 0; e < GS_DIGEST_EIGHTHS; e++) {
        gs_numbers a, b;
        double relative;
        gs_total(s->a, GS_ALL_RANKS, s->step, kind, number, e, &a);
        gs_total(s->b, GS_ALL_RANKS, s->step, kind, number, e, &b);
        bad[e] =
            differ(s, &a, &b, gs_size_of_eighth(&a, &b, all), allowance_of(s, kind, number, e), &relative);
        any |= bad[e];
        if (bad[e] && !(relative <= most)) most = relative;
    }
    if (!any) return false;
    if (s->divided_alike)
        for (int e = 0; e < GS_DIGEST_EIGHTHS; e++) ranks_alike_divided(s, kind, number, e);
    else
        ranks_of_eighths(s, kind, number, bad);
    return found(s, kind, number, most);
}

/* ---- arrays of parameters ---- */

/* Is it rounding that the updates up to that of step `last` have enlarged? relative: to a norm of `size`. */
static bool is_enlarged(const gs_search *s, uint64_t last, int p, double size, double relative) {
    return (relative - s->tolerance) * size <= gs_rounding_moved(s, last, p);
}

static bool weights_differ(const gs_search *s, int p) {
    gs_numbers b;
    bool any = false;
    double most = 0, least_size = gs_size_of_all(s, GS_DIGEST_weight);
    if (!gs_weights_read(s->b, s->step, p, &b)) return false;
    if (s->step > s->b->first && gs_is_rounding_alone(s, p)) return false;
    for (int part = 0; part < 2 && !any; part++)
        for (int r = 0; r < s->a->workers; r++) {
            gs_numbers a;
            double relative, size = fmax(sqrt(b.squares), least_size);
            if (!gs_weights_of(s->a, r, s->step, p, part, &a) ||
                !differ(s, &a, &b, size, (allowance){s->limit, gs_kinks_left(s, p)}, &relative) ||
                is_enlarged(s, s->step - 1, p, size, relative))
                continue;
            s->out->rank[r] = any = true;
            s->out->part = part;
            if (!(relative <= most)) most = relative;
        }
    return any && found(s, GS_DIGEST_weight, p, most);
}

static bool local_dw_differs(gs_search *s, int p) {
    gs_numbers a, b;
    double relative;
    if (!gs_total(s->a, GS_ALL_RANKS, s->step, GS_DIGEST_dw, p, GS_ALL_PARTS, &a) ||
        !gs_total(s->b, GS_ALL_RANKS, s->step, GS_DIGEST_dw, p, GS_ALL_PARTS, &b))
        return false;
    a.n = b.n; /* as many for each pass */
    const double size = fmax(sqrt(fmax(a.squares, b.squares)), gs_size_of_all(s, GS_DIGEST_dw));
    if (!differ(s, &a, &b, size, allowance_of(s, GS_DIGEST_dw, p, GS_ALL_PARTS), &relative)) {
        gs_kinks_carry_dw(s, relative);
        return false;
    }
    if (s->divided_alike) ranks_alike_divided(s, GS_DIGEST_dw, p, GS_ALL_PARTS);
    return found(s, GS_DIGEST_dw, p, relative);
}

/* What the ranks of a run have to add. */
static bool to_add(const gs_search *s, const gs_digests *d, int p, gs_numbers *out) {
    return gs_total(d, GS_ALL_RANKS, s->step, GS_DIGEST_dw, p, GS_ALL_PARTS, out);
}

/* Once dw may differ from B's, A's sum is held to what A's ranks have to add, if it is that in B. */
static void hold_to_own(const gs_search *s, int kind, int p, gs_numbers *b, allowance *allowed) {
    gs_numbers of_a, of_b;
    if (kind != GS_DIGEST_sum || !(s->carried_whole > 0) || !to_add(s, s->a, p, &of_a) ||
        !to_add(s, s->b, p, &of_b) || gs_apart(&of_b, b) > s->tolerance * sqrt(b->squares))
        return;
    of_a.n = b->n;
    of_a.squares = b->squares; /* of parts they do not add up */
    *b = of_a;
    *allowed = (allowance){s->tolerance, 0};
}

static bool whole_differs(const gs_search *s, int kind, int p, double least_size) {
    gs_numbers b;
    bool any = false;
    double most = 0;
    if (!gs_whole_of_run(s->b, s->step, kind, p, &b)) return false;
    allowance allowed = {gs_kinks_share(s, kind, GS_ALL_PARTS),
                         kind == GS_DIGEST_updated ? gs_kinks_moved(s, p) : 0};
    hold_to_own(s, kind, p, &b, &allowed);
    for (int r = 0; r < s->a->workers; r++) {
        gs_numbers a;
        double relative;
        if (!gs_holds(s->a, r, s->step, kind, p) || !gs_whole(s->a, r, s->step, kind, p, &a)) continue;
        const double size = fmax(sqrt(b.squares), least_size);
        if (!differ(s, &a, &b, size, allowed, &relative)) continue;
        if (kind == GS_DIGEST_updated && is_enlarged(s, s->step, p, size, relative)) continue;
        s->out->rank[r] = any = true;
        if (!(relative <= most)) most = relative;
    }
    return any && found(s, kind, p, most);
}

static bool any_whole_differs(const gs_search *s, int kind) {
    const double least_size = gs_size_of_all(s, kind);
    for (int p = 0; p < s->b->params; p++)
        if (s->b->param[p].state == (kind == GS_DIGEST_state) && whole_differs(s, kind, p, least_size)) {
            const bool noise = kind == GS_DIGEST_updated ? gs_is_rounding_alone(s, p)
                               : kind == GS_DIGEST_state ? gs_is_moved(s, s->b->param[p].layer, true)
                                                         : false;
            if (!noise) return true;
            *s->out = (gs_difference){0};
        }
    return false;
}

/* ---- the numbers of a step ---- */

static double score_of(const gs_digest_score *s, int kind) {
    return kind == GS_DIFFERS_lr           ? s->lr
           : kind == GS_DIFFERS_loss       ? s->loss
           : kind == GS_DIFFERS_count      ? s->samples
           : kind == GS_DIFFERS_norm       ? s->norm
           : kind == GS_DIFFERS_scale      ? s->scale
           : kind == GS_DIFFERS_loss_scale ? (s->skipped > 0 ? -s->loss_scale : s->loss_scale)
                                           : s->updates;
}

static bool score_differs(const gs_search *s, int kind) {
    const double b = score_of(gs_digests_score(s->b, 0, s->step), kind),
                 limit = gs_kinks_share(s, kind, GS_ALL_PARTS);
    bool any = false;
    for (int r = 0; r < s->a->workers; r++) {
        const double a = score_of(gs_digests_score(s->a, r, s->step), kind),
                     relative = fabs(a - b) / fmax(fabs(b), 1e-30);
        if (relative <= limit || (isnan(a) && isnan(b)) || is_left_out(s, a, b)) continue;
        s->out->rank[r] = any = true;
        s->out->relative = relative;
    }
    return any && found(s, kind, -1, s->out->relative);
}

/* ---- a step ---- */

static bool backward_differs(gs_search *s) {
    for (int l = s->b->layers - 1; l >= 0; l--) {
        for (int p = 0; p < s->b->params; p++)
            if (s->b->param[p].layer == l && !s->b->param[p].state && local_dw_differs(s, p)) return true;
        gs_kinks_begin_dx(s, l);
        if (samples_differ(s, GS_DIGEST_dx, l)) return true;
        gs_kinks_carry(s, GS_DIGEST_dx, l);
    }
    return false;
}

static bool any_weights_differ(const gs_search *s) {
    for (int p = 0; p < s->b->params; p++)
        if (!s->b->param[p].state && weights_differ(s, p)) return true;
    return false;
}

/* Where the layers inside of layer l end: their numbers and names follow on its own. */
static int end_of_inner(const gs_digests *d, int l) {
    const size_t length = strlen(d->layer[l].name);
    int end = l + 1;
    while (length > 0 && end < d->layers && strncmp(d->layer[end].name, d->layer[l].name, length) == 0 &&
           d->layer[end].name[length] == '.')
        end++;
    return end;
}

static bool y_differs(gs_search *s, int l) {
    if (!samples_differ(s, GS_DIGEST_y, l)) {
        gs_kinks_carry(s, GS_DIGEST_y, l);
        return false;
    }
    if (s->step == s->b->first || !gs_is_moved(s, l, false)) return true;
    *s->out = (gs_difference){0};
    return false;
}

/* A residual's y is computed after those of the layers inside of it. */
static bool forward_differs_in(gs_search *s, int first, int end) {
    for (int l = first; l < end; l = end_of_inner(s->b, l))
        if (forward_differs_in(s, l + 1, end_of_inner(s->b, l)) || y_differs(s, l)) return true;
    return false;
}

static bool forward_differs(gs_search *s) {
    return samples_differ(s, GS_DIGEST_x, 0) || forward_differs_in(s, 0, s->b->layers);
}

/* What the weights of this step, as they are, lead to; what the update makes of them is held to the stricter limit. */
static bool step_differs(gs_search *s) {
    if (score_differs(s, GS_DIFFERS_lr) || samples_differ(s, GS_DIGEST_samples, 0) ||
        samples_differ(s, GS_DIGEST_answers, 0) || any_weights_differ(s))
        return true;
    const double limit = s->limit;
    s->limit = gs_rounding_limit(s);
    const bool differ = forward_differs(s) || samples_differ(s, GS_DIGEST_dy, 0) || backward_differs(s);
    const gs_search after = *s;
    s->limit = limit;
    return differ || any_whole_differs(&after, GS_DIGEST_sum) || score_differs(&after, GS_DIFFERS_count) ||
           score_differs(&after, GS_DIFFERS_loss) || score_differs(&after, GS_DIFFERS_loss_scale) ||
           score_differs(&after, GS_DIFFERS_updates) || score_differs(&after, GS_DIFFERS_norm) ||
           score_differs(&after, GS_DIFFERS_scale) || any_whole_differs(&after, GS_DIGEST_vector0) ||
           any_whole_differs(&after, GS_DIGEST_vector1) || any_whole_differs(s, GS_DIGEST_updated) ||
           any_whole_differs(&after, GS_DIGEST_state);
}

static bool are_divided_alike(const gs_digests *a, const gs_digests *b) {
    static const char *const how[] = {"pipeline", "tensor",     "micro-batches", "zero",
                                      "exact",    "accumulate", "micro-batch"};
    for (size_t i = 0; i < sizeof how / sizeof *how; i++)
        if (strcmp(gs_digests_option(a, how[i]), gs_digests_option(b, how[i])) != 0) return false;
    return a->workers == b->workers;
}

void gs_explain(const gs_digests *a, const gs_digests *b, double tolerance, gs_difference *out) {
    *out = (gs_difference){0};
    gs_search s = {.a = a,
                   .b = b,
                   .tolerance = tolerance,
                   .limit = tolerance,
                   .divided_alike = are_divided_alike(a, b),
                   .out = out};
    for (s.step = a->first > b->first ? a->first : b->first; gs_has_step(a, s.step) && gs_has_step(b, s.step);
         s.step++) {
        s.left_out =
            gs_digests_score(a, 0, s.step)->skipped > 0 && gs_digests_score(b, 0, s.step)->skipped > 0;
        gs_kinks_begin(&s);
        if (step_differs(&s)) break;
        gs_kinks_end(&s);
    }
    out->switched = s.switched;
    out->blind = s.blind;
    out->loosest = s.loosest;
    if (out->found) gs_causes_name(a, b, out);
}
