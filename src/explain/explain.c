/* The first difference, in the order in which a step computes. */
#include "explain/explain.h"

#include <math.h>
#include <string.h>

#include "core/text.h"
#include "explain/causes.h"
#include "explain/sums.h"
#include "explain/tolerance.h"

/* A comparison, at one step. */
typedef struct search {
    const gs_digests *a, *b;
    uint64_t step;
    bool exact;              /* all is compared to the bit */
    gs_tolerance *tolerance; /* else up to this */
    bool divided_alike;      /* each rank of A has what that rank of B has */
    bool left_out;           /* both left this step's update out, as its gradients in f16 were not finite */
    gs_difference *out;
} search;

static bool found(const search *s, int kind, int number) {
    s->out->found = true;
    s->out->step = s->step;
    s->out->kind = kind;
    s->out->number = number;
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

static double limit_of(const search *s, int kind) {
    return s->exact ? GS_AS_WRITTEN : gs_tolerance_of(s->tolerance, kind);
}

/* ---- sizes ---- */

/* A tensor that is small beside all of them may differ more, in relation to itself: it is mostly rounding. So it is
 * held to a hundredth of the norm of all. */
static double size_of_all(const search *s, int kind) {
    double squares = 0;
    for (int p = 0; p < s->b->params; p++) {
        gs_numbers x;
        if (gs_of_run(s->b, s->step, kind, p, &x) && isfinite(x.squares) &&
            s->b->param[p].state == (kind == GS_DIGEST_state))
            squares += x.squares;
    }
    return 0.01 * sqrt(squares);
}

/* An eighth of the batch: its norm, or a share of that of all eighths (its squares). */
static double size_of_eighth(const gs_numbers *a, const gs_numbers *b, double squares_of_all) {
    return fmax(sqrt(fmax(a->squares, b->squares)), 0.05 * sqrt(squares_of_all));
}

/* ---- arrays of samples ---- */

/* What is not finite in either run of a step that both leave out says nothing: it is why they do. */
static bool is_left_out(const search *s, double of_a, double of_b) {
    return s->left_out && !(isfinite(of_a) && isfinite(of_b));
}

/* As a share of the size, of which the largest is kept; `more` is a norm, which is added to the limit. */
static bool differ(const search *s, int kind, const gs_numbers *a, const gs_numbers *b, double size,
                   double more) {
    const double apart = gs_apart(a, b);
    const bool as_many = !(fabs(a->n - b->n) > 0.5);
    double relative = apart > 0 || !as_many ? 1 : 0;
    if (as_many && is_left_out(s, a->squares, b->squares)) return false;
    if (as_many && (size > 0 || isnan(apart))) relative = apart / size;
    s->out->rounded |= a->bits != b->bits;
    if (as_many &&
        (s->exact ? a->bits == b->bits : relative <= limit_of(s, kind) + (more > 0 ? more / size : 0))) {
        gs_tolerance_saw(s->tolerance, kind, relative);
        return false;
    }
    if (!(relative <= s->out->relative)) s->out->relative = relative;
    return true;
}

/* Which ranks of A computed samples of these eighths, and no others. */
static void ranks_of_eighths(const search *s, int kind, int number, const bool *bad) {
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

static void ranks_alike_divided(const search *s, int kind, int number, int part) {
    const double of_all = s->out->relative;
    for (int r = 0; r < s->a->workers; r++) {
        gs_numbers a, b;
        const bool in_a = gs_total(s->a, r, s->step, kind, number, part, &a),
                   in_b = gs_total(s->b, r, s->step, kind, number, part, &b);
        s->out->rank[r] |= in_a && in_b && differ(s, kind, &a, &b, sqrt(fmax(a.squares, b.squares)), 0);
    }
    s->out->relative = of_all;
}

/* Of B's numbers that are finite. */
static double squares_of_samples(const search *s, int kind, int number) {
    double squares = 0;
    for (int e = 0; e < GS_DIGEST_EIGHTHS; e++) {
        gs_numbers x;
        if (gs_total(s->b, GS_ALL_RANKS, s->step, kind, number, e, &x) && isfinite(x.squares))
            squares += x.squares;
    }
    return squares;
}

static bool samples_differ(const search *s, int kind, int number) {
    gs_numbers a, b;
    bool bad[GS_DIGEST_EIGHTHS] = {false}, any = false;
    const double all = squares_of_samples(s, kind, number);
    if (!gs_of_run(s->a, s->step, kind, number, &a) || !gs_of_run(s->b, s->step, kind, number, &b))
        return false;
    for (int e = 0; e < GS_DIGEST_EIGHTHS; e++) {
        gs_total(s->a, GS_ALL_RANKS, s->step, kind, number, e, &a);
        gs_total(s->b, GS_ALL_RANKS, s->step, kind, number, e, &b);
        bad[e] = differ(s, kind, &a, &b, size_of_eighth(&a, &b, all), 0);
        any |= bad[e];
    }
    if (!any) return false;
    if (s->divided_alike)
        for (int e = 0; e < GS_DIGEST_EIGHTHS; e++) ranks_alike_divided(s, kind, number, e);
    else
        ranks_of_eighths(s, kind, number, bad);
    return found(s, kind, number);
}

/* ---- arrays of parameters ---- */

static bool local_dw_differs(const search *s, int p) {
    gs_numbers a, b;
    if (!gs_of_run(s->a, s->step, GS_DIGEST_dw, p, &a) || !gs_of_run(s->b, s->step, GS_DIGEST_dw, p, &b))
        return false;
    a.n = b.n; /* as many for each pass */
    const double size = fmax(sqrt(fmax(a.squares, b.squares)), size_of_all(s, GS_DIGEST_dw));
    if (!differ(s, GS_DIGEST_dw, &a, &b, size, 0)) return false;
    if (s->divided_alike) ranks_alike_divided(s, GS_DIGEST_dw, p, GS_ALL_PARTS);
    return found(s, GS_DIGEST_dw, p);
}

/* Without --exact dw may differ from B's. So A's sum is held to what A's ranks have to add, if it is that in B. */
static void hold_to_own(const search *s, int p, gs_numbers *b) {
    gs_numbers of_a, of_b;
    if (s->exact || !gs_of_run(s->a, s->step, GS_DIGEST_dw, p, &of_a) ||
        !gs_of_run(s->b, s->step, GS_DIGEST_dw, p, &of_b) ||
        !(gs_apart(&of_b, b) <= limit_of(s, GS_DIGEST_sum) * sqrt(b->squares)))
        return;
    of_a.n = b->n;
    of_a.bits = b->bits;
    of_a.squares = b->squares; /* of parts they do not add up */
    *b = of_a;
}

/* What an update works with: it is compared on each rank that holds it. */
static bool held_differs_of(const search *s, int kind, int p, double least_size) {
    gs_numbers b;
    bool any = false;
    if (!gs_of_run(s->b, s->step, kind, p, &b)) return false;
    if (kind == GS_DIGEST_sum) hold_to_own(s, p, &b);
    const double size = fmax(sqrt(b.squares), least_size),
                 more = s->exact ? 0 : gs_tolerance_of_path(s->tolerance, s->b, s->step, kind, p);
    for (int part = 0; part < (kind == GS_DIGEST_weight ? 2 : 1) && !any; part++)
        for (int r = 0; r < s->a->workers; r++) {
            gs_numbers a;
            if (!gs_of_rank(s->a, r, s->step, kind, p, part, &a) || !differ(s, kind, &a, &b, size, more))
                continue;
            s->out->rank[r] = any = true;
            s->out->part = part;
        }
    return any && found(s, kind, p);
}

static bool held_differs(const search *s, int kind) {
    const double least_size = size_of_all(s, kind);
    for (int p = 0; p < s->b->params; p++)
        if (s->b->param[p].state == (kind == GS_DIGEST_state) && held_differs_of(s, kind, p, least_size))
            return true;
    return false;
}

/* ---- the numbers of a step ---- */

static bool score_differs(const search *s, int kind) {
    const double b = gs_score_number(gs_digests_score(s->b, 0, s->step), kind), limit = limit_of(s, kind);
    bool any = false;
    for (int r = 0; r < s->a->workers; r++) {
        const double a = gs_score_number(gs_digests_score(s->a, r, s->step), kind),
                     relative = fabs(a - b) / fmax(fabs(b), 1e-30);
        if (relative <= limit || (isnan(a) && isnan(b)) || is_left_out(s, a, b)) continue;
        s->out->rank[r] = any = true;
        s->out->relative = relative;
    }
    return any && found(s, kind, -1);
}

/* ---- a step ---- */

static bool backward_differs(const search *s) {
    for (int l = s->b->layers - 1; l >= 0; l--) {
        for (int p = 0; p < s->b->params; p++)
            if (s->b->param[p].layer == l && !s->b->param[p].state && local_dw_differs(s, p)) return true;
        if (samples_differ(s, GS_DIGEST_dx, l)) return true;
    }
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

/* A residual's y is computed after those of the layers inside of it. */
static bool forward_differs_in(const search *s, int first, int end) {
    for (int l = first; l < end; l = end_of_inner(s->b, l))
        if (forward_differs_in(s, l + 1, end_of_inner(s->b, l)) || samples_differ(s, GS_DIGEST_y, l))
            return true;
    return false;
}

static bool forward_differs(const search *s) {
    return samples_differ(s, GS_DIGEST_x, 0) || forward_differs_in(s, 0, s->b->layers);
}

static bool step_differs(const search *s) {
    return score_differs(s, GS_DIFFERS_lr) || samples_differ(s, GS_DIGEST_samples, 0) ||
           samples_differ(s, GS_DIGEST_answers, 0) || held_differs(s, GS_DIGEST_weight) ||
           forward_differs(s) || samples_differ(s, GS_DIGEST_dy, 0) || backward_differs(s) ||
           held_differs(s, GS_DIGEST_sum) || score_differs(s, GS_DIFFERS_samples) ||
           score_differs(s, GS_DIFFERS_loss) || score_differs(s, GS_DIFFERS_loss_scale) ||
           score_differs(s, GS_DIFFERS_updates) || score_differs(s, GS_DIFFERS_norm) ||
           score_differs(s, GS_DIFFERS_scale) || held_differs(s, GS_DIGEST_vector0) ||
           held_differs(s, GS_DIGEST_vector1) || held_differs(s, GS_DIGEST_updated) ||
           held_differs(s, GS_DIGEST_state);
}

static bool are_divided_alike(const gs_digests *a, const gs_digests *b) {
    static const char *const how[] = {"pipeline", "tensor",     "micro-batches", "zero",
                                      "exact",    "accumulate", "micro-batch"};
    for (size_t i = 0; i < sizeof how / sizeof *how; i++)
        if (strcmp(gs_digests_option(a, how[i]), gs_digests_option(b, how[i])) != 0) return false;
    return a->workers == b->workers;
}

void gs_explain(const gs_digests *a, const gs_digests *b, gs_difference *out) {
    *out = (gs_difference){0};
    gs_tolerance tolerance;
    gs_tolerance_begin(&tolerance, a, b);
    search s = {.a = a,
                .b = b,
                .exact = gs_digests_is_exact(a) && gs_digests_is_exact(b),
                .divided_alike = are_divided_alike(a, b),
                .tolerance = &tolerance,
                .out = out};
    for (s.step = a->first > b->first ? a->first : b->first; gs_has_step(a, s.step) && gs_has_step(b, s.step);
         s.step++) {
        s.left_out =
            gs_digests_score(a, 0, s.step)->skipped > 0 && gs_digests_score(b, 0, s.step)->skipped > 0;
        if (step_differs(&s)) break;
        gs_tolerance_next(&tolerance);
    }
    if (!out->found) return;
    out->allowed = s.exact ? 0 : limit_of(&s, out->kind);
    gs_causes_name(a, b, out);
}
