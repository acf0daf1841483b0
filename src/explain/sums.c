#include "explain/sums.h"

#include <math.h>

#include "explain/explain.h"

static bool counts(const gs_digests *d, int rank, int kind) {
    const int stages = gs_digests_count(d, "pipeline");
    if (stages < 2 || stages > d->workers) return true;
    const int stage = rank / (d->workers / stages); /* as in parallel/layout.h */
    if (kind == GS_DIGEST_samples || kind == GS_DIGEST_own) return stage == 0;
    return kind != GS_DIGEST_answers || stage == stages - 1;
}

bool gs_digest_total(const gs_digests *d, int rank, uint64_t step, int kind, int number, int part,
                     gs_sketch *out) {
    bool found = false;
    *out = (gs_sketch){0};
    for (int r = 0; r < d->workers; r++) {
        const bool asked = (rank == GS_ALL_RANKS || rank == r) && counts(d, r, kind);
        for (int p = 0; p < GS_DIGEST_PARTS && asked; p++) {
            const gs_sketch *x =
                part == GS_ALL_PARTS || part == p ? gs_digests_find(d, r, step, kind, number, p) : NULL;
            if (!x) continue;
            gs_sketch_add_scaled(out, 1, x);
            found = true;
        }
    }
    return found;
}

bool gs_digest_rank_holds(const gs_digests *d, int rank, uint64_t step, int kind, int param) {
    return gs_digests_find(d, rank, step, kind, param, 0) || gs_digests_find(d, rank, step, kind, param, 1);
}

bool gs_digest_of_rank(const gs_digests *d, int rank, uint64_t step, int kind, int param, int part,
                       gs_sketch *out) {
    const double count = (double)d->param[param].count;
    const gs_sketch *own = gs_digests_find(d, rank, step, kind, param, part);
    const int tensor = gs_digests_count(d, "tensor"), /* workers per tensor group, as in parallel/layout.h */
        size = tensor > 1 && tensor <= d->workers ? tensor : 1;
    bool added[GS_DIGEST_RANKS] = {false}; /* indexed by member of a group */
    /* Forward reads whole weights. With --zero, replicas divide the updated arrays but not the layers' state. */
    const bool weight = kind == GS_DIGEST_weight,
               among_all =
                   !weight && (size == 1 || (kind != GS_DIGEST_state && gs_digests_number(d, "zero") > 0));
    *out = own ? *own : (gs_sketch){0};
    if (out->n >= count) return true;
    for (int r = 0; r < d->workers; r++) {
        const bool adds = r != rank && (among_all || r / size == rank / size);
        const gs_sketch *other = adds ? gs_digests_find(d, r, step, kind, param, part) : NULL;
        if (other && other->n < count) gs_sketch_add_scaled(out, 1, other);
    }
    /* An array that several ranks hold is added only once for each position in a tensor group. */
    for (int i = 0; i < d->workers && !weight; i++) {
        const int r = (rank + i) % d->workers;
        const gs_sketch *x = added[r % size] ? NULL : gs_digests_find(d, r, step, kind, param, 1);
        if (!x) continue;
        gs_sketch_add_scaled(out, 1, x);
        added[r % size] = true;
    }
    return weight ? own != NULL : out->n >= count;
}

bool gs_digest_of_run(const gs_digests *d, uint64_t step, int kind, int number, gs_sketch *out) {
    *out = (gs_sketch){0};
    if (!gs_digest_has_step(d, step)) return false;
    if (kind != GS_DIGEST_weight && kind < GS_DIGEST_sum)
        return gs_digest_total(d, GS_ALL_RANKS, step, kind, number, GS_ALL_PARTS, out);
    for (int part = 0; part < (kind == GS_DIGEST_weight ? 2 : 1); part++)
        for (int r = 0; r < d->workers; r++)
            if (gs_digest_of_rank(d, r, step, kind, number, part, out)) return true;
    return false;
}

double gs_score_number(const gs_digest_score *s, int kind) {
    const double numbers[] = {
#define GS_NUMBER(name, title) s->name,
        GS_DIFFERS_NUMBERS(GS_NUMBER)
#undef GS_NUMBER
    };
    const double x = numbers[kind - GS_DIGEST_KINDS_COUNT];
    return kind == GS_DIFFERS_loss_scale && s->skipped > 0 ? -x : x;
}

double gs_sketch_distance(const gs_sketch *a, const gs_sketch *b) {
    double most = 0;
    for (int k = 0; k < GS_ALONG; k++) {
        const double d = fabs(a->along[k] - b->along[k]);
        if (isnan(d)) return d;
        if (d > most) most = d;
    }
    return most;
}

bool gs_sketch_alike(const gs_sketch *a, const gs_sketch *b) {
    return fabs(a->n - b->n) < 0.5 && gs_sketch_distance(a, b) <= 1e-5 * sqrt(b->squares) && b->squares > 0;
}

bool gs_is_near(double x, double wanted) {
    return fabs(x - wanted) <= 1e-3 * fabs(wanted);
}

/* ---- least squares ---- */

void gs_fit_add(gs_fit *f, const gs_sketch *y, const gs_sketch *x) {
    for (int k = 0; k < GS_ALONG; k++) {
        f->yy += y->along[k] * y->along[k];
        for (int i = 0; i < f->count; i++) {
            f->xy[i] += x[i].along[k] * y->along[k];
            for (int j = 0; j < f->count; j++) f->xx[i][j] += x[i].along[k] * x[j].along[k];
        }
    }
    f->equations += GS_ALONG;
}

/* Gauss-Jordan elimination. The normal equations are symmetric and positive definite, so it works without pivoting. */
static bool solve(int n, double a[GS_FIT_MOST][GS_FIT_MOST + 1], double *c) {
    for (int i = 0; i < n; i++) {
        if (!(a[i][i] > 1e-9)) return false;
        for (int r = 0; r < n; r++) {
            const double factor = r == i ? 0 : a[r][i] / a[i][i];
            for (int k = i; k <= n; k++) a[r][k] -= factor * a[i][k];
        }
    }
    for (int i = 0; i < n; i++) c[i] = a[i][n] / a[i][i];
    return true;
}

bool gs_fit_solve(const gs_fit *f, double *c, double *rest) {
    double a[GS_FIT_MOST][GS_FIT_MOST + 1], size[GS_FIT_MOST];
    const int n = f->count;
    if (f->equations < n || !(f->yy > 0)) return false;
    for (int i = 0; i < n; i++)
        if (!((size[i] = sqrt(f->xx[i][i])) > 0)) return false;
    for (int i = 0; i < n; i++) { /* scaled, so that all unknowns have the same magnitude */
        for (int j = 0; j < n; j++) a[i][j] = f->xx[i][j] / (size[i] * size[j]);
        a[i][n] = f->xy[i] / size[i];
    }
    if (!solve(n, a, c)) return false;
    double left = f->yy;
    for (int i = 0; i < n; i++) c[i] /= size[i];
    for (int i = 0; i < n; i++) {
        left -= 2 * c[i] * f->xy[i];
        for (int j = 0; j < n; j++) left += c[i] * c[j] * f->xx[i][j];
    }
    *rest = sqrt(fmax(left, 0) / f->yy);
    return true;
}

bool gs_sketch_ratio(const gs_sketch *a, const gs_sketch *b, double *c) {
    gs_fit fit = {.count = 1};
    double rest;
    gs_fit_add(&fit, a, b);
    *c = 0;
    if (fit.yy <= 0) return fit.xx[0][0] > 0;
    return gs_fit_solve(&fit, c, &rest) && rest <= 1e-3;
}
