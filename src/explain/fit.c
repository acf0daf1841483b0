#include "explain/fit.h"

#include <math.h>

void gs_fit_add(gs_fit *f, const gs_numbers *y, const gs_numbers *const *x) {
    for (int k = 0; k < GS_ALONG; k++) {
        f->yy += y->along[k] * y->along[k];
        for (int i = 0; i < f->count; i++) {
            if (!x[i]) continue;
            f->xy[i] += x[i]->along[k] * y->along[k];
            for (int j = 0; j < f->count; j++)
                if (x[j]) f->xx[i][j] += x[i]->along[k] * x[j]->along[k];
        }
    }
    f->equations += GS_ALONG;
}

/* Gauss, with the equation of the largest pivot first. */
static bool solve(int n, double a[GS_FIT_MOST][GS_FIT_MOST + 1], double *c) {
    for (int i = 0; i < n; i++) {
        int best = i;
        for (int r = i + 1; r < n; r++)
            if (fabs(a[r][i]) > fabs(a[best][i])) best = r;
        if (!(fabs(a[best][i]) > 1e-9)) return false;
        for (int k = 0; k <= n; k++) {
            const double kept = a[i][k];
            a[i][k] = a[best][k];
            a[best][k] = kept;
        }
        for (int r = i + 1; r < n; r++) {
            const double factor = a[r][i] / a[i][i];
            for (int k = i; k <= n; k++) a[r][k] -= factor * a[i][k];
        }
    }
    for (int i = n - 1; i >= 0; i--) {
        c[i] = a[i][n];
        for (int k = i + 1; k < n; k++) c[i] -= a[i][k] * c[k];
        c[i] /= a[i][i];
    }
    return true;
}

bool gs_fit_solve(const gs_fit *f, double *c, double *rest) {
    double a[GS_FIT_MOST][GS_FIT_MOST + 1], size[GS_FIT_MOST];
    const int n = f->count;
    if (f->equations < n || !(f->yy > 0)) return false;
    for (int i = 0; i < n; i++)
        if (!((size[i] = sqrt(f->xx[i][i])) > 0)) return false;
    for (int i = 0; i < n; i++) { /* of unknowns of one size */
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
