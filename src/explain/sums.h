/* Computes whole quantities as sums over the parts of ranks and passes, and finds which arrays sum to another one. */
#pragma once

#include "explain/digests.h"

enum { GS_ALL_PARTS = -1, GS_ALL_RANKS = -1 };

/* The sum over one part or all parts, of one rank or all ranks. False: there are no such parts. In a pipeline every
 * stage has samples and targets, but only the first stages' samples and last stages' targets count. */
bool gs_digest_total(const gs_digests *, int rank, uint64_t step, int kind, int number, int part,
                     gs_sketch *out);

/* True if the rank holds any part of a parameter's array. */
bool gs_digest_rank_holds(const gs_digests *, int rank, uint64_t step, int kind, int param);

/* A parameter's whole array, as this rank sees it: the rank's own array if that is whole, else the sum of the parts of
 * all ranks (with --zero) or of its tensor group (without). `weight` means the weights that forward reads; part 1 is a
 * borrowed table. False: the rank has no such weight, or the parts do not make up a whole. */
bool gs_digest_of_rank(const gs_digests *, int rank, uint64_t step, int kind, int param, int part,
                       gs_sketch *out);

/* A whole quantity: the sum over all ranks, or the array of the first rank that holds it. False: no rank holds it, or
 * there is no such step. */
bool gs_digest_of_run(const gs_digests *, uint64_t step, int kind, int number, gs_sketch *out);

/* The value of one of GS_DIFFERS_NUMBERS (explain.h). The loss scale of a step without an update is negative. */
double gs_score_number(const gs_digest_score *, int kind);

static inline bool gs_digest_has_step(const gs_digests *d, uint64_t step) {
    return step >= d->first && step < d->first + d->steps;
}

/* The largest |a.along[k] - b.along[k]|, which is about the norm of the difference. */
double gs_sketch_distance(const gs_sketch *a, const gs_sketch *b);

/* True if the arrays are equal within 1e-5. */
bool gs_sketch_alike(const gs_sketch *a, const gs_sketch *b);

/* True if x is within 1e-3 of `wanted`. */
bool gs_is_near(double x, double wanted);

/* ---- least squares ----
 *
 * y = c[0] x[0] + ... + c[count-1] x[count-1] + rest is linear, so it also holds for `along`, and the arrays' sketches
 * are enough to find c: each parameter gives four equations. */
enum { GS_FIT_MOST = 64 };

typedef struct gs_fit {
    int count;
    double xx[GS_FIT_MOST][GS_FIT_MOST], xy[GS_FIT_MOST], yy; /* the normal equations */
    int equations;
} gs_fit;

/* Adds the equations of one parameter: y and x[0 .. count - 1]; a missing array is 0. */
void gs_fit_add(gs_fit *, const gs_sketch *y, const gs_sketch *x);

/* False: some x are 0 or linearly dependent, or there are fewer equations than unknowns. *rest: |rest| / |y|. */
bool gs_fit_solve(const gs_fit *, double *c, double *rest);

/* Finds c in a = c b. False: the rest exceeds 1e-3 of a. */
bool gs_sketch_ratio(const gs_sketch *a, const gs_sketch *b, double *c);
