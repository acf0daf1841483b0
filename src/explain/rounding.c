#include "explain/rounding.h"

#include <math.h>
#include <string.h>

#include "explain/sums.h"

/* A tensor that is small beside all of them may differ more, in relation to itself: it is mostly rounding. */
double gs_size_of_all(const gs_search *s, int kind) {
    double squares = 0;
    for (int p = 0; p < s->b->params; p++) {
        gs_numbers x;
        const bool there = kind == GS_DIGEST_weight ? gs_weights_read(s->b, s->step, p, &x)
                           : kind == GS_DIGEST_dw
                               ? gs_total(s->b, GS_ALL_RANKS, s->step, kind, p, GS_ALL_PARTS, &x)
                               : gs_whole_of_run(s->b, s->step, kind, p, &x);
        if (there && isfinite(x.squares) && s->b->param[p].state == (kind == GS_DIGEST_state))
            squares += x.squares;
    }
    return 0.01 * sqrt(squares);
}

double gs_size_of_eighth(const gs_numbers *a, const gs_numbers *b, double squares_of_all) {
    return fmax(sqrt(fmax(a->squares, b->squares)), 0.05 * sqrt(squares_of_all));
}

/* ---- how far an update may be apart ---- */

double gs_whole_apart(const gs_search *s, uint64_t step, int kind, int p) {
    gs_numbers a, b;
    double most = 0;
    if (!gs_whole_of_run(s->b, step, kind, p, &b)) return 0;
    for (int r = 0; r < s->a->workers; r++)
        if (gs_holds(s->a, r, step, kind, p) && gs_whole(s->a, r, step, kind, p, &a))
            most = fmax(most, gs_apart(&a, &b));
    return most;
}

/* |g_A - g_B| of the step's gradients, as the optimiser takes them. */
static double gradients_apart(const gs_search *s, uint64_t step, int p) {
    return gs_whole_apart(s, step, GS_DIGEST_sum, p) * gs_digests_score(s->b, 0, step)->scale;
}

/* The bounds of rounding.h. Each rank has recorded those elements that it updates, and several ranks some of them. */
static double update_apart(const gs_digests *d, uint64_t step, int p, double apart) {
    gs_numbers rates, slopes;
    double sum = 0, squares = 0;
    if (!(apart > 0) || !gs_total(d, GS_ALL_RANKS, step, GS_DIGEST_slope, p, 0, &rates)) return 0;
    const double count = (double)d->param[p].count, each = 4 * apart / sqrt(count);
    for (int part = 1; part < GS_DIGEST_PARTS; part++)
        if (gs_total(d, GS_ALL_RANKS, step, GS_DIGEST_slope, p, part, &slopes)) {
            sum += fmin(slopes.n, each * slopes.sum);
            squares += fmin(slopes.n, each * each * slopes.squares);
        }
    const double rate = sqrt(rates.squares / rates.n), of_whole = count / rates.n;
    return 2 * rate * fmin(GS_ALONG_MOST * sum * of_whole, 4 * sqrt(squares * of_whole));
}

double gs_rounding_moved(const gs_search *s, uint64_t last, int p) {
    const uint64_t first = s->a->first > s->b->first ? s->a->first : s->b->first;
    double most = 0, moved = 0;
    for (uint64_t step = first; step <= last; step++) {
        most = fmax(most, gradients_apart(s, step, p));
        moved += update_apart(s->b, step, p, most);
    }
    return moved;
}

/* ---- gradients that are rounding alone ---- */

bool gs_divides_by_gradient(const gs_digests *d) {
    const char *name = gs_digests_option(d, "optimizer");
    return strcmp(name, "adam") == 0 || strcmp(name, "adamw") == 0 || strcmp(name, "lamb") == 0;
}

/* The batch_norm that comes after layer l, before the next layer with parameters; -1: none. */
static int norm_after(const gs_digests *d, int l) {
    for (int n = l + 1; n < d->layers; n++) {
        if (strcmp(d->layer[n].op, "batch_norm") == 0) return n;
        for (int p = 0; p < d->params; p++)
            if (d->param[p].layer == n) return -1;
    }
    return -1;
}

/* A bias before batch_norm has the gradient 0: the mean is taken off again. What is computed is rounding alone, and an
 * optimiser that divides by the gradient's size makes whole steps of it, in any direction. They change nothing but this
 * tensor, the y up to the batch_norm, and its running mean. So these are no difference. */
bool gs_is_rounding_alone(const gs_search *s, int p) {
    if (!gs_divides_by_gradient(s->b) || s->b->param[p].state || norm_after(s->b, s->b->param[p].layer) < 0)
        return false;
    gs_search at = *s;
    for (at.step = s->b->first; at.step <= s->step; at.step++) {
        gs_numbers x;
        if (gs_whole_of_run(s->b, at.step, GS_DIGEST_sum, p, &x) &&
            sqrt(x.squares) > 10 * s->tolerance * gs_size_of_all(&at, GS_DIGEST_sum))
            return false;
    }
    return true;
}

/* Likewise the bias of keys, a third of the bias before attention: it moves all scores of a query alike, and softmax
 * takes that off again. */
static bool has_keys(const gs_search *s, int p) {
    const gs_digests *d = s->b;
    const int l = d->param[p].layer;
    const size_t length = strlen(d->param[p].name);
    return gs_divides_by_gradient(d) && length > 5 && strcmp(d->param[p].name + length - 5, ".bias") == 0 &&
           l + 1 < d->layers && strcmp(d->layer[l + 1].op, "attention") == 0;
}

bool gs_is_moved(const gs_search *s, int l, bool state) {
    for (int p = 0; p < s->b->params && !state && s->out->relative < 100 * s->limit; p++)
        if (s->b->param[p].layer == l && has_keys(s, p)) return true;
    for (int p = 0; p < s->b->params; p++) {
        const int of = s->b->param[p].layer, norm = of <= l ? norm_after(s->b, of) : -1;
        if (norm >= 0 && (state ? l == norm : l < norm) && gs_is_rounding_alone(s, p)) return true;
    }
    return false;
}

/* ---- what weights that were moved lead to ---- */

double gs_weights_apart(const gs_search *s, int p) {
    gs_numbers a, b;
    double most = 0;
    if (!gs_weights_read(s->b, s->step, p, &b)) return 0;
    for (int part = 0; part < 2; part++)
        for (int r = 0; r < s->a->workers; r++)
            if (gs_weights_of(s->a, r, s->step, p, part, &a)) most = fmax(most, gs_apart(&a, &b));
    return most;
}

/* As a share of the tensor's norm. */
static double share_apart(const gs_search *s, int p, double least_size) {
    gs_numbers b;
    if (!gs_weights_read(s->b, s->step, p, &b)) return 0;
    return gs_weights_apart(s, p) / fmax(sqrt(b.squares), least_size);
}

double gs_rounding_limit(const gs_search *s) {
    const double least_size = gs_size_of_all(s, GS_DIGEST_weight);
    double most = 0;
    if (s->step == s->b->first) return s->tolerance;
    for (int p = 0; p < s->b->params; p++)
        if (!s->b->param[p].state && !has_keys(s, p) && !gs_is_rounding_alone(s, p))
            most = fmax(most, share_apart(s, p, least_size));
    return fmax(s->tolerance, 10 * most);
}
