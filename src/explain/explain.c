/* Finds the first difference, in the order in which a step computes. */
#include "explain/explain.h"

#include <math.h>

#include "core/text.h"
#include "explain/sums.h"
#include "optim/optimizer.h"

/* A comparison of two runs at one step. */
typedef struct search {
    const gs_digests *a, *b;
    uint64_t step;
    bool exact;        /* compare bit for bit; otherwise up to rounding: */
    int bits;          /* the column of `tolerances` */
    bool kinks;        /* the net has relu or max_pool2d */
    bool divides;      /* the optimiser divides by the gradient's size, as optimisers with two betas do */
    bool begins_alike; /* both runs are exact, or begin this step with the same weights, up to SAME */
    double y_apart;    /* the difference of the last y compared; after forward, this is the model's outputs */
    double of_outputs; /* how much y_apart raises the limits in backward; 0 during forward */
    bool excuses; /* a number may be infinite or NaN: both runs skipped the update (f16), or both diverged */
    gs_difference *out;
} search;

static bool found(const search *s, int kind, int number) {
    s->out->found = true;
    s->out->step = s->step;
    s->out->kind = kind;
    s->out->number = number;
    return true;
}

/* ---- are the runs comparable? ---- */

gs_status gs_explain_check(const gs_digests *a, const gs_digests *b) {
    for (size_t i = 0; i < GS_DIGESTS_EQUAL; i++) {
        const char *name = gs_digests_deciding[i], *of_a = gs_digests_option(a, name),
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

/* ---- rounding ----
 *
 * The table says how far rounding separates correct runs without --exact, as a share of the correct array's norm. In
 * relu and max_pool2d, rounding may move an input across a kink; its dx then differs by all of dy. In the first steps
 * of the correct runs of tests/faults, in f32 and bf16, y differs by 8e-6 and 0.03, and dx by 0.02 and 0.45.
 *
 * An update passes one step's rounding on to the next, where it grows without bound (to 3.9 of dx in the third step of
 * resnet20). A step is therefore compared completely only if both runs begin it with the same weights, up to SAME: the
 * step may magnify their difference a hundredfold. In other steps only two kinds of quantities are compared: those that
 * rounding does not reach, and those that follow from other quantities of the same run. The sum follows from what the
 * ranks add, and the weights that forward reads follow from the previous update.
 *
 * The loss's dy differs by as much as the outputs do. The outputs' rounding grows with their size, but dy does not.
 * With a learning rate of 1, Adam makes outputs 1,000 times as large as dy, so a rounding error of 1e-6 of the outputs
 * is 1e-3 of dy. After forward, the limits therefore rise by OF_OUTPUTS times the error as a fraction of dy: backward
 * may magnify its input, and four projections give a norm only within a factor of about two. The limits rise by at most
 * MOST_OF_OUTPUTS: added to GRADIENT's 0.25, this stays below 0.5, the difference of a halved gradient. */
enum { AS_WRITTEN, ROUNDING, ARRAY, GRADIENT };

static const double tolerances[][3] = {
    /* f32, f16, bf16: the precision of products or of messages */
    [AS_WRITTEN] = {1e-8, 1e-8, 1e-8}, /* only the rounding of numbers in the record */
    [ROUNDING] = {1e-4, 3e-3, 2e-2},
    [ARRAY] = {1e-4, 1e-2, 0.1},
    [GRADIENT] = {0.25, 0.5, 1}, /* with relu or max_pool2d; otherwise ARRAY applies */
};
static const double SAME = 1e-6, OF_OUTPUTS = 10, MOST_OF_OUTPUTS = 0.2;

/* Updated weights may also differ by a share of the distance that B's weights moved. With Adam, an element whose
 * gradient is near 0 may move up by a full step in A and down by a full step in B. */
static const double OF_WAY = 0.25, OF_WAY_DIVIDED = 2;

static const int tolerance_of[GS_DIFFERS_KINDS] = {
    [GS_DIGEST_weight] = ROUNDING,  [GS_DIGEST_x] = ROUNDING,       [GS_DIGEST_y] = ARRAY,
    [GS_DIGEST_dy] = ARRAY,         [GS_DIGEST_dw] = GRADIENT,      [GS_DIGEST_dx] = GRADIENT,
    [GS_DIGEST_sum] = ROUNDING,     [GS_DIGEST_vector0] = GRADIENT, [GS_DIGEST_vector1] = GRADIENT,
    [GS_DIGEST_updated] = ROUNDING, [GS_DIGEST_state] = ARRAY,      [GS_DIFFERS_loss] = ARRAY,
    [GS_DIFFERS_norm] = GRADIENT,   [GS_DIFFERS_scale] = GRADIENT};

/* The row of `tolerances` for this kind. */
static int row_of(const search *s, int kind) {
    if (kind == GS_DIFFERS_scale && !(gs_digests_number(s->b, "clip") > 0)) return ROUNDING; /* 1 / samples */
    return tolerance_of[kind] == GRADIENT && !s->kinks ? ARRAY : tolerance_of[kind];
}

static double limit_of(const search *s, int kind) {
    if (s->exact) return 0;
    const int row = row_of(s, kind);
    return tolerances[row][s->bits] + (row >= ARRAY && kind != GS_DIGEST_state ? s->of_outputs : 0);
}

static bool is_compared(const search *s, int kind) {
    return s->begins_alike || (row_of(s, kind) <= ROUNDING && kind != GS_DIGEST_updated);
}

static void find_rounding(search *s) {
    const gs_optimizer_ops *ops = gs_optimizer_named(gs_digests_option(s->b, "optimizer"));
    s->divides = ops && ops->usual.beta2 > 0;
    for (int l = 0; l < s->b->layers; l++)
        s->kinks |= strcmp(s->b->layer[l].op, "relu") == 0 || strcmp(s->b->layer[l].op, "max_pool2d") == 0;
    for (int i = 0; i < 4; i++) {
        const char *bits = gs_digests_option(i < 2 ? s->a : s->b, i % 2 ? "wire" : "precision");
        const int column = strcmp(bits, "bf16") == 0 ? 2 : strcmp(bits, "f16") == 0;
        if (column > s->bits) s->bits = column;
    }
}

/* ---- sizes ---- */

/* A tensor much smaller than the others is mostly rounding, so its relative difference may be larger. Its norm
 * therefore counts as at least 1/100 of the norm of all tensors. */
static double size_of_all(const search *s, int kind) {
    double squares = 0;
    for (int p = 0; p < s->b->params; p++) {
        gs_sketch x;
        if (gs_digest_of_run(s->b, s->step, kind, p, &x) && isfinite(x.squares) &&
            s->b->param[p].state == (kind == GS_DIGEST_state))
            squares += x.squares;
    }
    return 0.01 * sqrt(squares);
}

static bool begins_alike(const search *s) {
    const double least = size_of_all(s, GS_DIGEST_weight);
    for (int p = 0; p < s->b->params; p++) {
        gs_sketch a, b;
        if (gs_digest_of_run(s->a, s->step, GS_DIGEST_weight, p, &a) &&
            gs_digest_of_run(s->b, s->step, GS_DIGEST_weight, p, &b) &&
            !(gs_sketch_distance(&a, &b) <= SAME * fmax(sqrt(b.squares), least)))
            return false;
    }
    return true;
}

/* ---- what the ranks compute: arrays of samples, and each rank's own dw ---- */

/* If both runs have a reason for non-finite numbers, such a number in only one run is not a difference. In exact runs
 * the reason is the same, so a number must be non-finite in both runs or in neither. */
static bool is_excused(const search *s, double of_a, double of_b) {
    const bool a = isfinite(of_a), b = isfinite(of_b);
    return s->excuses && (s->exact ? !a && !b : !a || !b);
}

/* Measures the difference as a share of `size`, and keeps the largest share. `more`: a norm that raises the limit. */
static bool differ(const search *s, int kind, const gs_sketch *a, const gs_sketch *b, double size,
                   double more) {
    const double apart = gs_sketch_distance(a, b),
                 limit = limit_of(s, kind) + (more > 0 && size > 0 ? more / size : 0);
    const bool as_many = !(fabs(a->n - b->n) > 0.5);
    double relative = apart > 0 || !as_many ? 1 : 0;
    if (as_many && is_excused(s, a->squares, b->squares)) return false;
    if (as_many && (size > 0 || isnan(apart))) relative = apart / size;
    s->out->rounded |= a->bits != b->bits;
    if (as_many && (s->exact ? a->bits == b->bits : relative <= limit)) return false;
    s->out->allowed = limit;
    if (!(relative <= s->out->relative)) s->out->relative = relative;
    return true;
}

/* True if each rank of A holds the same part of the batch and of the model as the same rank of B. */
static bool are_divided_alike(const search *s) {
    static const char *const how[] = {"pipeline", "tensor", "sequence"};
    for (size_t i = 0; i < sizeof how / sizeof *how; i++)
        if (strcmp(gs_digests_option(s->a, how[i]), gs_digests_option(s->b, how[i])) != 0) return false;
    if (s->a->workers != s->b->workers) return false;
    for (int r = 0; r < s->a->workers; r++)
        if (gs_digests_score(s->a, r, s->step)->held != gs_digests_score(s->b, r, s->step)->held)
            return false;
    return true;
}

/* Compares an eighth of the batch on one rank or on all ranks; for dw, compares all passes together, because B's passes
 * may be different ones. In exact runs fewer passes have added more leaves; then dw is compared up to rounding, and its
 * sum to the bit. The norm counts as at least `least`. */
static bool part_differs(const search *s, int kind, int number, int rank, int part, double least) {
    gs_sketch a, b;
    const bool in_a = gs_digest_total(s->a, rank, s->step, kind, number, part, &a),
               in_b = gs_digest_total(s->b, rank, s->step, kind, number, part, &b);
    if (rank != GS_ALL_RANKS && !(in_a && in_b)) return false;
    search how = *s;
    if (kind == GS_DIGEST_dw) how.exact = s->exact && !(fabs(a.n - b.n) > 0.5);
    if (kind == GS_DIGEST_dw) a.n = b.n; /* their numbers of passes may differ */
    return differ(&how, kind, &a, &b, fmax(sqrt(fmax(a.squares, b.squares)), least), 0);
}

/* Marks the ranks of A whose samples are all in bad eighths. */
static void ranks_of_eighths(const search *s, int kind, int number, const bool *bad) {
    for (int r = 0; r < s->a->workers; r++) {
        int in = 0, all = 0;
        for (int e = 0; e < GS_DIGEST_EIGHTHS; e++) {
            gs_sketch x;
            if (!gs_digest_total(s->a, r, s->step, kind, number, e, &x)) continue;
            in += bad[e];
            all++;
        }
        s->out->rank[r] = all > 0 && in == all;
    }
}

static bool computed_differs(search *s, int kind, int number) {
    const bool dw = kind == GS_DIGEST_dw;
    const int first = dw ? GS_ALL_PARTS : 0, end = dw ? GS_ALL_PARTS + 1 : GS_DIGEST_EIGHTHS;
    gs_sketch a, b;
    bool bad[GS_DIGEST_EIGHTHS] = {false}, any = false, named = false;
    if (!is_compared(s, kind) || !gs_digest_of_run(s->a, s->step, kind, number, &a) ||
        !gs_digest_of_run(s->b, s->step, kind, number, &b))
        return false;
    if (kind == GS_DIGEST_y) s->y_apart = gs_sketch_distance(&a, &b);
    const double least = dw ? size_of_all(s, kind) : 0.05 * sqrt(isfinite(b.squares) ? b.squares : 0);
    for (int part = first; part < end; part++) {
        bad[part - first] = part_differs(s, kind, number, GS_ALL_RANKS, part, least);
        any |= bad[part - first];
    }
    if (!any) return false;
    const bool alike = are_divided_alike(s);
    const double relative = s->out->relative;
    for (int r = 0; r < s->a->workers && alike; r++)
        for (int part = first; part < end; part++)
            if (part_differs(s, kind, number, r, part, least)) s->out->rank[r] = named = true;
    s->out->relative = relative;
    if (!named && !dw) ranks_of_eighths(s, kind, number, bad);
    return found(s, kind, number);
}

/* ---- arrays of parameters ---- */

/* Replaces B's sum by the sum of what A's ranks add, if B's sum matches what B's ranks add. The rounding error of a sum
 * depends on the size of its terms, even if the terms nearly cancel. */
static void own_sum(const search *s, int p, gs_sketch *b) {
    gs_sketch of_a, of_b;
    if (!gs_digest_of_run(s->a, s->step, GS_DIGEST_dw, p, &of_a) ||
        !gs_digest_of_run(s->b, s->step, GS_DIGEST_dw, p, &of_b) ||
        !(gs_sketch_distance(&of_b, b) <= limit_of(s, GS_DIGEST_sum) * sqrt(fmax(of_b.squares, b->squares))))
        return;
    of_a.n = b->n;
    of_a.bits = b->bits;
    of_a.squares = fmax(of_a.squares, b->squares);
    *b = of_a;
}

/* Sets *b to what A's array should be. False: unknown, because rounding has affected it. */
static bool reference(const search *s, int kind, int p, gs_sketch *b) {
    if (!s->exact && kind == GS_DIGEST_weight && s->step > s->a->first)
        return gs_digest_of_run(s->a, s->step - 1, GS_DIGEST_updated, p, b);
    if (!is_compared(s, kind) || !gs_digest_of_run(s->b, s->step, kind, p, b)) return false;
    if (!s->exact && kind == GS_DIGEST_sum) own_sum(s, p, b);
    return true;
}

/* A fraction of the distance that the weights moved in one update, or from B's first step until A resumed. */
static double share_of_way(const search *s, int kind, int p) {
    const bool updated = kind == GS_DIGEST_updated;
    const double share = s->divides ? OF_WAY_DIVIDED
                         : updated  ? fmin(OF_WAY + s->of_outputs, limit_of(s, GS_DIGEST_dw))
                                    : OF_WAY;
    double way = 0;
    if (s->exact || !(updated || (kind == GS_DIGEST_weight && s->step == s->a->first))) return 0;
    for (uint64_t step = updated ? s->step : s->b->first; step < s->step + updated; step++) {
        gs_sketch from, to;
        if (gs_digest_of_run(s->b, step, GS_DIGEST_weight, p, &from) &&
            gs_digest_of_run(s->b, step, GS_DIGEST_updated, p, &to))
            way += gs_sketch_distance(&from, &to);
    }
    return share * way;
}

/* Compares a parameter's array on each rank that holds it. */
static bool held_differs_of(const search *s, int kind, int p, double least_size) {
    gs_sketch b;
    bool any = false;
    if (!reference(s, kind, p, &b)) return false;
    const double size = fmax(sqrt(b.squares), least_size), more = share_of_way(s, kind, p);
    for (int part = 0; part < (kind == GS_DIGEST_weight ? 2 : 1) && !any; part++)
        for (int r = 0; r < s->a->workers; r++) {
            gs_sketch a;
            if (!gs_digest_rank_holds(s->a, r, s->step, kind, p) ||
                !gs_digest_of_rank(s->a, r, s->step, kind, p, part, &a) ||
                !differ(s, kind, &a, &b, size, more))
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

/* ---- the scalars of a step ---- */

static bool score_differs(const search *s, int kind) {
    const double b = gs_score_number(gs_digests_score(s->b, 0, s->step), kind), limit = limit_of(s, kind);
    bool any = false;
    for (int r = 0; r < s->a->workers && is_compared(s, kind); r++) {
        const double a = gs_score_number(gs_digests_score(s->a, r, s->step), kind),
                     relative = fabs(a - b) / fmax(fabs(b), 1e-30);
        if (relative <= limit || (isnan(a) && isnan(b)) || is_excused(s, a, b)) continue;
        s->out->rank[r] = any = true;
        s->out->relative = relative;
        s->out->allowed = limit;
    }
    return any && found(s, kind, -1);
}

/* ---- a step ---- */

static bool backward_differs(search *s) {
    for (int l = s->b->layers - 1; l >= 0; l--) {
        for (int p = 0; p < s->b->params; p++)
            if (s->b->param[p].layer == l && !s->b->param[p].state && computed_differs(s, GS_DIGEST_dw, p))
                return true;
        if (computed_differs(s, GS_DIGEST_dx, l)) return true;
    }
    return false;
}

/* The end of the layers inside layer l: their numbers follow l, and their names begin with its name. */
static int end_of_inner(const gs_digests *d, int l) {
    const size_t length = strlen(d->layer[l].name);
    int end = l + 1;
    while (length > 0 && end < d->layers && strncmp(d->layer[end].name, d->layer[l].name, length) == 0 &&
           d->layer[end].name[length] == '.')
        end++;
    return end;
}

/* A residual's y is computed after the y of the layers inside it. */
static bool forward_differs_in(search *s, int first, int end) {
    for (int l = first; l < end; l = end_of_inner(s->b, l))
        if (forward_differs_in(s, l + 1, end_of_inner(s->b, l)) || computed_differs(s, GS_DIGEST_y, l))
            return true;
    return false;
}

static bool step_differs(search *s) {
    gs_sketch dy;
    s->y_apart = s->of_outputs = 0;
    if (score_differs(s, GS_DIFFERS_lr) || computed_differs(s, GS_DIGEST_samples, 0) ||
        computed_differs(s, GS_DIGEST_answers, 0) || held_differs(s, GS_DIGEST_weight) ||
        computed_differs(s, GS_DIGEST_x, 0) || forward_differs_in(s, 0, s->b->layers))
        return true;
    if (gs_digest_of_run(s->b, s->step, GS_DIGEST_dy, 0, &dy) && dy.squares > 0 && isfinite(s->y_apart))
        s->of_outputs = fmin(OF_OUTPUTS * s->y_apart / sqrt(dy.squares), MOST_OF_OUTPUTS);
    return computed_differs(s, GS_DIGEST_dy, 0) || backward_differs(s) || held_differs(s, GS_DIGEST_sum) ||
           score_differs(s, GS_DIFFERS_samples) || score_differs(s, GS_DIFFERS_loss) ||
           score_differs(s, GS_DIFFERS_loss_scale) || score_differs(s, GS_DIFFERS_updates) ||
           score_differs(s, GS_DIFFERS_norm) || score_differs(s, GS_DIFFERS_scale) ||
           held_differs(s, GS_DIGEST_vector0) || held_differs(s, GS_DIGEST_vector1) ||
           held_differs(s, GS_DIGEST_updated) || held_differs(s, GS_DIGEST_state);
}

/* ---- all steps ---- */

/* The first step with a non-finite number, not counting steps whose update was skipped (f16); 0: none. */
static uint64_t diverged_at(const gs_digests *d) {
    for (uint64_t step = d->first; gs_digest_has_step(d, step); step++)
        for (int r = 0; r < d->workers; r++) {
            const gs_digest_of_step *of = &d->rank[r].step[step - d->first];
            bool finite = isfinite(of->score.loss);
            for (size_t i = of->first; i < of->first + of->rows; i++)
                finite &= isfinite(d->rank[r].row[i].x.squares) != 0;
            if (!finite && !(of->score.skipped > 0)) return step;
        }
    return 0;
}

void gs_explain(const gs_digests *a, const gs_digests *b, gs_difference *out) {
    *out = (gs_difference){.first = a->first > b->first ? a->first : b->first};
    search s = {.a = a, .b = b, .exact = gs_digests_is_exact(a) && gs_digests_is_exact(b), .out = out};
    const uint64_t bad_a = diverged_at(a), bad_b = diverged_at(b), bad = bad_a < bad_b ? bad_a : bad_b;
    bool over = false;
    find_rounding(&s);
    for (s.step = out->first; gs_digest_has_step(a, s.step) && gs_digest_has_step(b, s.step); s.step++) {
        s.begins_alike = s.exact || begins_alike(&s);
        if (!s.begins_alike && !out->grown) out->grown = s.step;
        /* Once rounding has grown, one run may diverge some steps before the other. */
        const bool diverged = bad && s.step >= bad && (bad_a == bad_b || !s.begins_alike);
        s.excuses = diverged || (gs_digests_score(a, 0, s.step)->skipped > 0 &&
                                 gs_digests_score(b, 0, s.step)->skipped > 0);
        over = step_differs(&s) || diverged;
        if (over) break;
    }
    out->end = s.step;
    if (out->found) gs_name_difference(a, b, out);
    if (over && !out->found) out->diverged[0] = bad_a, out->diverged[1] = bad_b;
}
