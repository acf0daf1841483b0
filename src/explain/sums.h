/* The numbers of a quantity, whole: parts of ranks and passes added up; and what they are made of. */
#pragma once

#include "explain/digests.h"

enum { GS_ALL_PARTS = -1, GS_ALL_RANKS = -1 };

/* A part, or all of them, of a rank, or of all of them, added up. False: there are none. In a pipeline each stage has
 * samples and targets: those of the first stages count, and the targets of the last ones. */
bool gs_digest_total(const gs_digests *, int rank, uint64_t step, int kind, int number, int part,
                     gs_sketch *out);

/* Does the rank hold any of a parameter's array? */
bool gs_digest_rank_holds(const gs_digests *, int rank, uint64_t step, int kind, int param);

/* A parameter's array, whole, as this rank has it: its own if it holds all of it, else put together from the parts of
 * all ranks, or without --zero from those of its tensor group. Of weights it is what forward reads; part 1 is a
 * borrowed table. False: the rank has no such weight, or the parts do not make a whole. */
bool gs_digest_of_rank(const gs_digests *, int rank, uint64_t step, int kind, int param, int part,
                       gs_sketch *out);

/* All of a quantity: of all ranks together, or as the first rank has it that holds it. False: none holds it, or there
 * is no such step. */
bool gs_digest_of_run(const gs_digests *, uint64_t step, int kind, int number, gs_sketch *out);

/* One of GS_DIFFERS_NUMBERS (explain.h). The loss scale of a step that was left out is negative. */
double gs_score_number(const gs_digest_score *, int kind);

static inline bool gs_digest_has_step(const gs_digests *d, uint64_t step) {
    return step >= d->first && step < d->first + d->steps;
}

/* The largest |a.along[k] - b.along[k]|, about the norm of the difference. */
double gs_sketch_distance(const gs_sketch *a, const gs_sketch *b);

/* Are they the same within 1e-5, as arrays? */
bool gs_sketch_alike(const gs_sketch *a, const gs_sketch *b);

/* Is x within 1e-3 of `wanted`? */
bool gs_is_near(double x, double wanted);

/* ---- least squares ----
 *
 * What an array is made of: y = c[0] x[0] + ... + c[count-1] x[count-1] + rest, for arrays that are
 * known by their numbers alone. It is linear, so it holds for `along` too: four equations for each parameter. */
enum { GS_FIT_MOST = 64 };

typedef struct gs_fit {
    int count;
    double xx[GS_FIT_MOST][GS_FIT_MOST], xy[GS_FIT_MOST], yy; /* the normal equations */
    int equations;
} gs_fit;

/* The equations of one parameter: y, and x[0 .. count - 1], zeros for one that has none. */
void gs_fit_add(gs_fit *, const gs_sketch *y, const gs_sketch *x);

/* False: some x are 0 or depend on others, or there are fewer equations than unknowns. *rest: |rest| / |y|. */
bool gs_fit_solve(const gs_fit *, double *c, double *rest);

/* c of a = c b, if no more than 1e-3 of a is left. */
bool gs_sketch_ratio(const gs_sketch *a, const gs_sketch *b, double *c);
