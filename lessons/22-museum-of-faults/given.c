/* Lab 22, as given: the student's functions become `explain` of this lab's program. This file lays two records of the
 * same workers out as rows; the student's functions find the first that differs, and name the cause of some. */
#include "tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain/explain.h"
#include "explain/sums.h"
#include "lab.h"

size_t lab_first(size_t rows, const lab_row *row, double tolerance) {
    size_t first = rows;
    for (size_t i = 0; i < rows; i++)
        if (lab_differs(&row[i], tolerance) && (first == rows || lab_before(&row[i], &row[first]))) first = i;
    return first;
}

/* ---- the records as rows ---- */

static const struct {
    int quantity, kind;
    const char *title;
} kinds[] = {{LAB_RATE, GS_DIFFERS_lr, "learning rate"},
             {LAB_SAMPLES, GS_DIGEST_samples, "samples"},
             {LAB_WEIGHT, GS_DIGEST_weight, "weights in forward"},
             {LAB_INPUT, GS_DIGEST_x, "input"},
             {LAB_Y, GS_DIGEST_y, "y"},
             {LAB_DY, GS_DIGEST_dy, "dy of the loss"},
             {LAB_DW, GS_DIGEST_dw, "dw before the sum"},
             {LAB_DX, GS_DIGEST_dx, "dx"},
             {LAB_SUM, GS_DIGEST_sum, "summed dw"},
             {LAB_NORM, GS_DIFFERS_norm, "norm of the gradient"},
             {LAB_FACTOR, GS_DIFFERS_scale, "factor of the gradient"},
             {LAB_VELOCITY, GS_DIGEST_vector0, "velocity"},
             {LAB_UPDATED, GS_DIGEST_updated, "updated weights"}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* The layer of number i of this kind; -1: there is no such number. */
static int layer_of(const gs_digests *d, int kind, int i) {
    if (kind == GS_DIGEST_y || kind == GS_DIGEST_dx) return i < d->layers ? i : -1;
    if (kind >= GS_DIGEST_KINDS_COUNT || kind == GS_DIGEST_samples || kind == GS_DIGEST_x ||
        kind == GS_DIGEST_dy)
        return i == 0 ? 0 : -1;
    return i < d->params && !d->param[i].state ? d->param[i].layer : -1;
}

static bool numbers_of(const gs_digests *d, int rank, uint64_t step, int kind, int i, double *along,
                       double *size) {
    gs_sketch x;
    if (kind < GS_DIGEST_KINDS_COUNT) {
        if (!gs_digest_total(d, rank, step, kind, i, GS_ALL_PARTS, &x)) return false;
        memcpy(along, x.along, sizeof x.along);
        *size = sqrt(x.squares);
        return true;
    }
    const gs_digest_score *s = gs_digests_score(d, rank, step);
    const double value = kind == GS_DIFFERS_lr ? s->lr : kind == GS_DIFFERS_norm ? s->norm : s->scale;
    for (int k = 0; k < LAB_ALONG; k++) along[k] = value;
    *size = fabs(value);
    return !isnan(value);
}

/* Appends the rows of one step of a rank. */
static void rows_of(const gs_digests *a, const gs_digests *b, uint64_t step, int rank, lab_row **row) {
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; layer_of(b, kinds[k].kind, i) >= 0 || i < b->params; i++) {
            const int layer = layer_of(b, kinds[k].kind, i);
            if (layer < 0) continue;
            lab_row r = {.step = (int)step, .quantity = kinds[k].quantity, .layer = layer, .rank = rank};
            double unused;
            const bool in_a = numbers_of(a, rank, step, kinds[k].kind, i, r.a, &unused),
                       in_b = numbers_of(b, rank, step, kinds[k].kind, i, r.b, &r.size);
            if (!in_a && !in_b) continue;
            if (!in_a || !in_b) r.a[0] = (double)NAN;
            *(*row)++ = r;
        }
}

/* ---- what happened ---- */

/* Least squares over all parameters: how often the result of `rank` contains each rank's gradient. */
static bool shares_of(const gs_digests *a, uint64_t step, int rank, double *share) {
    gs_fit fit = {.count = a->workers};
    gs_sketch x[GS_FIT_MOST], sum;
    double rest;
    if (a->workers > GS_FIT_MOST) return false;
    for (int p = 0; p < a->params; p++) {
        if (a->param[p].state || !gs_digest_of_rank(a, rank, step, GS_DIGEST_sum, p, 0, &sum)) continue;
        for (int q = 0; q < a->workers; q++)
            (void)gs_digest_total(a, q, step, GS_DIGEST_dw, p, GS_ALL_PARTS, &x[q]);
        gs_fit_add(&fit, &sum, x);
    }
    return gs_fit_solve(&fit, share, &rest) && rest < 1e-2;
}

static const char *name_sum(const gs_digests *a, const gs_difference *d, char *why, size_t size) {
    static const char *const names[] = {"right",
                                        "summed twice",
                                        "averaged",
                                        "not summed",
                                        "summed within groups",
                                        "a rank is missing",
                                        "a rank is in it twice",
                                        "otherwise"};
    static double share[GS_DIGEST_RANKS * GS_DIGEST_RANKS];
    for (int r = 0; r < a->workers; r++)
        if (!shares_of(a, d->step, r, share + r * a->workers))
            return "it is no sum of what the ranks have to add";
    snprintf(why, size, "rank 0 has");
    for (int q = 0; q < a->workers; q++)
        lab_append(why, size, "%s %.3g times that of rank %d", q ? "," : "",
                   fabs(share[q]) < 1e-6 ? 0 : share[q], q);
    const lab_sum found = lab_of_sum(a->workers, share);
    return (unsigned)found < sizeof names / sizeof *names ? names[found] : "no name of the list";
}

static const char *name_loss(const gs_digests *a, const gs_digests *b, const gs_difference *d, char *why,
                             size_t size) {
    static const char *const names[] = {
        "right", "divided by the ranks", "multiplied by the ranks", "mean of means", "masked", "otherwise"};
    size_t n[GS_DIGEST_RANKS];
    double factor[GS_DIGEST_RANKS];
    snprintf(why, size, "samples x factor:");
    for (int r = 0; r < a->workers; r++) {
        gs_sketch x = {0}, y = {0};
        n[r] = (size_t)gs_digests_score(b, r, d->step)->held;
        if (!gs_digest_total(a, r, d->step, GS_DIGEST_dy, 0, GS_ALL_PARTS, &x) ||
            !gs_digest_total(b, r, d->step, GS_DIGEST_dy, 0, GS_ALL_PARTS, &y) ||
            !gs_sketch_ratio(&x, &y, &factor[r]))
            factor[r] = (double)NAN;
        lab_append(why, size, " %zu x %.4g", n[r], factor[r]);
    }
    const lab_loss found = lab_of_loss(a->workers, n, factor);
    return (unsigned)found < sizeof names / sizeof *names ? names[found] : "no name of the list";
}

/* The samples by their indices, or the masks of the first pass. */
static const char *name_draws(const gs_digests *a, int kind, char *why, size_t size) {
    static const char *const names[] = {"nothing was drawn twice", "the same on several ranks",
                                        "the same in several steps",
                                        "the same on several ranks, and in several steps"};
    lab_numbers *x = calloc((size_t)a->workers * a->steps + 1, sizeof *x);
    snprintf(why, size, "what %d ranks drew in %d steps, compared", a->workers, (int)a->steps);
    if (!x) return "no memory";
    for (uint64_t s = 0; s < a->steps; s++)
        for (int r = 0; r < a->workers; r++)
            for (int i = 0; i < a->layers; i++) { /* masks: i is a layer; the first one that has any */
                const gs_sketch *m = gs_digests_find(a, r, a->first + s, kind, i, 0);
                if (!m) continue;
                lab_numbers *to = &x[s * (uint64_t)a->workers + (uint64_t)r];
                to->n = (size_t)m->n;
                memcpy(to->along, m->along, sizeof m->along);
                break;
            }
    const int found = lab_of_draws((int)a->steps, a->workers, x);
    free(x);
    return found >= 0 && found < 4 ? names[found] : "no name of the list";
}

/* The result of the student's lab_shrink for the recorded sums. */
static const char *name_norm(const gs_digests *a, const gs_difference *d, char *why, size_t size) {
    double own[GS_DIGEST_RANKS] = {0}, common = 0;
    const bool divided = gs_digests_number(a, "zero") > 0; /* otherwise all ranks hold the whole sum */
    for (int r = 0; r < a->workers; r++)
        for (int p = 0; p < a->params; p++) {
            const gs_sketch *mine = gs_digests_find(a, r, d->step, GS_DIGEST_sum, p, 0),
                            *alike = gs_digests_find(a, r, d->step, GS_DIGEST_sum, p, 1);
            if (mine && divided) own[r] += mine->squares;
            if (mine && !divided && r == 0) common += mine->squares;
            if (alike && r == 0) common += alike->squares;
        }
    const gs_digest_score *s = gs_digests_score(a, 0, d->step);
    const double clip = gs_digests_number(a, "clip"),
                 shrink = lab_shrink(a->workers, own, common, s->samples, clip);
    snprintf(why, size,
             "its norm, %.4g, gives the factor %.4g; lab_shrink returns %.4g, which is a norm of %.4g",
             s->norm, fmin(1, clip / s->norm), shrink, clip / shrink);
    return "the norm is not that of the summed gradient";
}

/* ---- these replace the library's ---- */

gs_status gs_explain_check(const gs_digests *a, const gs_digests *b) {
    if (a->workers != b->workers || a->layers != b->layers || a->params != b->params || a->first != b->first)
        return gs_fail(
            GS_E_USAGE,
            "lab 22 compares records of the same net on the same workers; %s has %d workers, %s has %d",
            a->folder, a->workers, b->folder, b->workers);
    return GS_OK;
}

static void name_difference(const gs_digests *a, const gs_digests *b, gs_difference *d) {
    const bool of_dropout = d->kind == GS_DIGEST_y && strcmp(b->layer[d->number].op, "dropout") == 0;
    d->cause = d->kind == GS_DIGEST_sum       ? name_sum(a, d, d->sentence, sizeof d->sentence)
               : d->kind == GS_DIGEST_dy      ? name_loss(a, b, d, d->sentence, sizeof d->sentence)
               : d->kind == GS_DIGEST_samples ? name_draws(a, GS_DIGEST_own, d->sentence, sizeof d->sentence)
               : of_dropout                   ? name_draws(a, GS_DIGEST_mask, d->sentence, sizeof d->sentence)
               : d->kind == GS_DIFFERS_norm   ? name_norm(a, d, d->sentence, sizeof d->sentence)
                                              : "yours to find";
    if (!*d->sentence) snprintf(d->sentence, sizeof d->sentence, "this lab has no function for it");
}

void gs_explain(const gs_digests *a, const gs_digests *b, gs_difference *d) {
    const double tolerance = 1e-4;
    const uint64_t steps = a->steps < b->steps ? a->steps : b->steps;
    const size_t most = (size_t)steps * (size_t)a->workers * KINDS * (size_t)(a->params + a->layers + 1);
    lab_row *rows = calloc(most + 1, sizeof *rows), *end = rows;
    *d = (gs_difference){.first = a->first, .end = a->first + steps, .rounded = true, .allowed = tolerance};
    if (!rows) return;
    for (int r = 0; r < a->workers; r++)
        for (uint64_t s = a->first; s < a->first + steps; s++) rows_of(a, b, s, r, &end);
    const size_t count = (size_t)(end - rows), first = lab_first(count, rows, tolerance);
    if (first < count) {
        const lab_row *x = &rows[first];
        double most_apart = 0;
        for (int k = 0; k < LAB_ALONG; k++) most_apart = fmax(most_apart, fabs(x->a[k] - x->b[k]));
        for (size_t i = 0; i < count; i++) /* this quantity on the other ranks */
            if (rows[i].step == x->step && rows[i].quantity == x->quantity && rows[i].layer == x->layer)
                d->rank[rows[i].rank] |= lab_differs(&rows[i], tolerance);
        d->found = true;
        d->step = d->end = (uint64_t)x->step;
        d->kind = kinds[x->quantity].kind;
        d->number = x->layer;
        d->relative = most_apart / x->size;
        d->rank[x->rank] = true;
        snprintf(d->quantity, sizeof d->quantity, "%s", kinds[x->quantity].title);
        if (d->kind < GS_DIGEST_KINDS_COUNT && d->kind != GS_DIGEST_samples && d->kind != GS_DIGEST_dy)
            snprintf(d->where, sizeof d->where, "layer %s (%s)", b->layer[x->layer].name,
                     b->layer[x->layer].op);
        name_difference(a, b, d);
    }
    free(rows);
}
