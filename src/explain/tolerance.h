/* How far rounding takes right runs apart that are not exact: a difference up to the tolerance of its quantity is
 * called rounding. --exact needs none of this: there the bits are compared. One rule for each kind of quantity, as a
 * share of the right run's norm:
 *
 *     samples, answers, rates, counts                  GS_AS_WRITTEN, as a record writes them
 *     x, y, dy, loss, state                            forward
 *     dx, dw, norm, factor, vectors                    backward; the second vector, of squares, twice that
 *     summed dw                                        rounding, from what the ranks of the same run have to add
 *     weight, updated weights                          rounding, plus a share of the path that the right run's weights
 *                                                      took: backward, or 2 with Adam, AdamW and LAMB
 *
 *     rounding   1e-4 in f32, a hundred times what sums in another order differ by; 3e-3 with f16 and 2e-2 with bf16,
 *                sent or multiplied, about 6 roundings
 *     forward    rounding, or 10 d if that is more, with d the largest difference that was seen in this step until now,
 *                of weights, x, y and dy
 *     backward   where no layer has kinks, as forward, with dx and dw in d; else max(forward, 1/4, 4 sqrt(K d / 3)),
 *                with K layers of relu or max_pool2d; and no less than in the steps before, of which vectors are made
 *
 * Why 10 d: a layer enlarges what it gets. An update of W is made of inputs x, so what differs in it is aligned with
 * them, as W itself is not: y = W x can differ by up to sqrt(n) times the share that W does, where n terms make a sum.
 * Seen: at most 5.4 d, with mlp, lenet, resnet20 and gpt.
 *
 * Why sqrt: relu and max_pool2d have kinks, and where rounding puts an input on the other side, dx differs by all of
 * dy, in runs that are both right. Where y differs by a share d, a share of about d / 3 of relu's elements pass in one
 * run alone, which changes 2 d / 3 of dx's squares. Through K layers, along which d grows, that is K d / 3, and the
 * projections of a record show up to 4 times a difference. A few elements are not as even as that: one of the 84 of
 * lenet's last relu, of a batch with two samples in an eighth, may show 1.73 sqrt(2 / 84), about 1/4, of dx.
 *
 * Why 2: these three divide by the gradient's size. An element whose gradient is near 0 makes a whole step up or down,
 * as rounding decides, and a whole tensor may be so: a bias before batch_norm, or of attention's keys. */
#pragma once

#include "explain/digests.h"

#define GS_AS_WRITTEN 1e-8

typedef struct gs_tolerance {
    double rounding;
    double forward, backward; /* d in this step: of weights, x, y and dy; of dx and dw, without kinks */
    double before;            /* the largest tolerance of backward in the steps before */
    int kinks;                /* K */
    bool divides;             /* by the gradient's size */
} gs_tolerance;

/* Of two runs, before their first step. */
void gs_tolerance_begin(gs_tolerance *, const gs_digests *a, const gs_digests *b);

/* The next step begins. */
void gs_tolerance_next(gs_tolerance *);

/* A quantity of explain.h differs by that share, which is within its tolerance. */
void gs_tolerance_saw(gs_tolerance *, int kind, double share);

/* The tolerance of a quantity; of weights that took no path. */
double gs_tolerance_of(const gs_tolerance *, int kind);

/* What is added to that of weights p of run b, as a norm; 0 of other kinds. */
double gs_tolerance_of_path(const gs_tolerance *, const gs_digests *b, uint64_t step, int kind, int p);
