#include "explain/kinks.h"

#include <math.h>
#include <string.h>

#include "explain/sums.h"

/* kinks.h: |w_k D| is taken to be at most so many |D|; delta is so many s. */
static const double norms = 4, widest = 16;

static bool is_kink(const gs_search *s, int l) {
    return strcmp(s->b->layer[l].op, "relu") == 0 || strcmp(s->b->layer[l].op, "max_pool2d") == 0;
}

/* Adds the gaps below `limit` that a run has recorded. */
static void add_near(const gs_search *s, const gs_digests *d, int l, int eighth, double limit,
                     gs_kink_bin *to) {
    for (int r = 0; r < d->workers; r++) {
        const gs_digest_rank *rank = &d->rank[r];
        const gs_digest_of_step *step = &rank->step[s->step - d->first];
        for (size_t i = 0; i < step->kinks; i++) {
            const gs_kink_row *row = &rank->kink[step->first_kink + i];
            if (row->layer != l || row->eighth != eighth) continue;
            for (int b = 0; b < row->bins && ldexp(1, row->exponent + b) < limit; b++) {
                const gs_kink_bin *x = &rank->bin[row->at + (size_t)b];
                to->n += x->n;
                to->sum += x->sum;
                to->squares += x->squares;
            }
        }
    }
}

/* The root mean square of d: y's difference by elements that have a gap. */
static double rounding_of(const gs_search *s, int l) {
    gs_kink_bin all = {0};
    double squares = 0;
    for (int e = 0; e < GS_DIGEST_EIGHTHS; e++) {
        gs_numbers a, b;
        if (!gs_total(s->a, GS_ALL_RANKS, s->step, GS_DIGEST_y, l, e, &a) ||
            !gs_total(s->b, GS_ALL_RANKS, s->step, GS_DIGEST_y, l, e, &b))
            continue;
        for (int k = 0; k < GS_ALONG; k++) {
            const double d = a.along[k] - b.along[k];
            if (isfinite(d)) squares += d * d / GS_ALONG;
        }
        add_near(s, s->b, l, e, INFINITY, &all);
    }
    return all.n > 0 ? sqrt(squares / all.n) : 0;
}

static double limit_of_layer(const gs_search *s, int l, int eighth) {
    gs_kink_bin near = {0};
    const double windows = strcmp(s->b->layer[l].op, "max_pool2d") == 0 ? 2 : 1;
    if (!(s->rounding > 0)) return 0;
    add_near(s, s->a, l, eighth, windows * widest * s->rounding, &near);
    add_near(s, s->b, l, eighth, windows * widest * s->rounding, &near);
    if (!(near.n > 0)) return 0;
    const double share = fmin(1, (near.n / 8 + 8) / near.n);
    const double most = fmin(GS_ALONG_MOST * near.sum, norms * sqrt(share * near.squares));
    return isfinite(most) ? most : 0;
}

/* Does a sample's y, or dx, depend on the other samples? */
static bool is_coupled(const gs_digests *d) {
    for (int l = 0; l < d->layers; l++)
        if (strcmp(d->layer[l].op, "batch_norm") == 0) return true;
    return false;
}

static bool of_samples(const gs_search *s, const gs_digests *d, int kind, int l, int eighth,
                       gs_numbers *out) {
    return gs_total(d, GS_ALL_RANKS, s->step, kind, l, eighth, out) && isfinite(out->squares);
}

void gs_kinks_begin_dx(gs_search *s, int l) {
    s->rounding = is_kink(s, l) ? rounding_of(s, l) : 0;
}

double gs_kinks_more(const gs_search *s, int kind, int l, int eighth) {
    gs_numbers all;
    double more = 0;
    if (s->carried_whole > 0 && is_coupled(s->b) && of_samples(s, s->b, kind, l, GS_ALL_PARTS, &all))
        more = GS_KINK_GAIN * s->carried_whole * sqrt(all.squares / GS_DIGEST_EIGHTHS);
    if (kind != GS_DIGEST_dx || !is_kink(s, l)) return more;
    return more + limit_of_layer(s, l, eighth);
}

void gs_kinks_carry(gs_search *s, int kind, int l) {
    gs_numbers a, b, all = {0};
    double apart = 0;
    bool any = false;
    if (!of_samples(s, s->b, kind, l, GS_ALL_PARTS, &all)) return;
    for (int e = 0; e < GS_DIGEST_EIGHTHS; e++) {
        if (!of_samples(s, s->a, kind, l, e, &a) || !of_samples(s, s->b, kind, l, e, &b)) continue;
        const double d = gs_apart(&a, &b), share = d / gs_size_of_eighth(&a, &b, all.squares);
        apart += d * d;
        const bool here = kind == GS_DIGEST_dx && is_kink(s, l) && gs_kinks_more(s, kind, l, e) > 0,
                   known = here || s->loose || s->carried[e] > 0;
        if (!(share > (known ? s->tolerance / GS_KINK_GAIN : s->tolerance))) continue;
        if (!known && !(s->carried_whole > 0)) continue;
        if (here && share > s->limit && !s->switched) s->switched = s->step;
        if (here && (share > s->limit || !s->loose) && !s->parted) s->parted = s->step;
        s->carried[e] = fmax(s->carried[e], share);
        any = true;
    }
    if (!any) return;
    s->carried_whole = fmax(s->carried_whole, sqrt(apart / all.squares));
    s->carried_before = fmax(s->carried_before, s->carried_whole);
}

void gs_kinks_carry_dw(gs_search *s, double share) {
    if (s->carried_whole > 0 && share > s->tolerance) s->carried_before = fmax(s->carried_before, share);
}

double gs_kinks_share(const gs_search *s, int kind, int eighth) {
    switch (kind) {
    case GS_DIGEST_y:
    case GS_DIGEST_dy:
    case GS_DIGEST_dx:
        return s->limit + (eighth >= 0 ? GS_KINK_GAIN * s->carried[eighth] : 0);
    case GS_DIGEST_dw:
    case GS_DIGEST_sum:
    case GS_DIGEST_state:
    case GS_DIFFERS_loss:
    case GS_DIFFERS_norm:
    case GS_DIFFERS_scale:
        return s->limit + GS_KINK_GAIN * s->carried_whole;
    case GS_DIGEST_vector0:
    case GS_DIGEST_vector1:
        return s->limit + GS_KINK_GAIN * s->carried_before;
    default:
        return s->limit;
    }
}

/* About |what B's update changes|. */
static double change_of(const gs_search *s, int p) {
    gs_numbers before, after;
    double squares = 0;
    if (!gs_weights_read(s->b, s->step, p, &before) ||
        !gs_whole_of_run(s->b, s->step, GS_DIGEST_updated, p, &after))
        return 0;
    for (int k = 0; k < GS_ALONG; k++) {
        const double d = after.along[k] - before.along[k];
        squares += d * d / GS_ALONG;
    }
    return sqrt(squares);
}

double gs_kinks_moved(const gs_search *s, int p) {
    if (!s->parted || gs_divides_by_gradient(s->b)) return 0;
    const double share = gs_rounding_limit(s) + GS_KINK_GAIN * s->carried_before;
    return gs_weights_apart(s, p) + 2 * share * change_of(s, p);
}

double gs_kinks_left(const gs_search *s, int p) {
    const bool before = s->parted > 0 && s->parted < s->step && !gs_divides_by_gradient(s->b);
    return before ? 1.01 * gs_whole_apart(s, s->step - 1, GS_DIGEST_updated, p) : 0;
}

void gs_kinks_begin(gs_search *s) {
    memset(s->carried, 0, sizeof s->carried);
    s->carried_whole = 0;
    s->loose = s->step > s->b->first;
}

void gs_kinks_end(gs_search *s) {
    if (!s->switched) return;
    s->loosest = fmax(s->loosest, gs_rounding_limit(s) + GS_KINK_GAIN * s->carried_before);
    if (!s->blind && s->loosest > GS_EXPLAIN_BLIND) s->blind = s->step;
}
