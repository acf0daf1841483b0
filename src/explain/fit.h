/* Least squares: what an array is made of. y = c[0] x[0] + ... + c[count-1] x[count-1] + rest, for arrays that are
 * known by their numbers alone. It is linear, so it holds for `along` too: four equations for each parameter. */
#pragma once

#include <stdbool.h>
#include "train/digest/numbers.h"

enum { GS_FIT_MOST = 64 };

typedef struct gs_fit {
    int count;
    double xx[GS_FIT_MOST][GS_FIT_MOST], xy[GS_FIT_MOST], yy; /* the normal equations */
    int equations;
} gs_fit;

/* Of one parameter: y, and x[i] or NULL for one that has none. */
void gs_fit_add(gs_fit *, const gs_numbers *y, const gs_numbers *const *x);

/* False: some x are 0 or depend on others, or there are fewer equations than unknowns. *rest: |rest| / |y|. */
bool gs_fit_solve(const gs_fit *, double *c, double *rest);
