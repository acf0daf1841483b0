/* Branches that rounding decides. relu and max_pool2d have kinks:
 *
 *     relu         dx_i = dy_i where x_i > 0, else 0
 *     max_pool2d   dx_i = the sum of dy_w over the windows w whose largest x is x_i
 *
 * Let x of run A differ from x of run B by d_i, which is rounding. Where x_i is near a kink the two may choose
 * differently. y hardly differs then, but dx does, by all of dy. That is right in both runs. How large it may be
 * follows from the gaps that both have recorded (train/digest/digest.h):
 *
 * 1. Who can choose differently? relu: x_i <= 0 in one run and x_i > 0 in the other, where 0 < y_i = x_i <= |d_i|.
 * max_pool2d: in A x_i is the largest of a window, and in B x_j. So 0 <= x_i - x_j <= |d_i| + |d_j| in A, and in B
 * the same of x_j - x_i; and both runs take the first of equals, so the gap is not 0 in both. If |d| <= delta, all are
 * among
 *
 *     elements of A, and elements of B, with 0 < gap <= k delta;     k = 1 for relu, 2 for max_pool2d
 *
 * An x of exactly 0 in both runs, or a window of equals, is in neither: the gradient there must be the same.
 *
 * 2. delta. y is compared before dx is, and is the same within the tolerance. Its difference, divided by the root of
 * how many elements pass, is the root mean square s of their d_i. delta = 16 s is taken. Some |d_i| may be larger: let
 * p be the density of x at its kink. Elements that choose differently, and whose |d_i| > delta, are at most
 * p E[|d|; |d| > delta] <= p E[d^2] / delta = p s / 16 of all, whatever the distribution of d. Those that are counted
 * are 2 p delta = 32 p s: so at most one is missed where 512 are counted.
 *
 * 3. How many do? On average p E|d| <= p s of all: one where 32 are counted. Of n counted ones, at most n / 8 + 8 are
 * taken to do so. (If each chose independently, the probability of more would be below 1e-8 for any n.)
 *
 * 4. How much is that? With D, the difference of dx,  |D|_1 <= the sum of all their |D|_1,  and
 *
 *     |D|^2 <= min(1, (n / 8 + 8) / n) sum of all their |D|^2
 *
 * (An element may lie in c windows; then  |sum of c numbers|^2 <= c sum of their squares,  and the record includes that
 * factor.) A record knows dx by sums with weights, w_k dx (train/digest/numbers.h), and  |w_k D| <= c |D|_1  with
 * c = 1.73, the largest weight. It exceeds 4 |D| with a probability of 6e-5 if D has many elements, and with a smaller
 * one if it has few. So dx of this layer and this eighth of the batch may differ by
 *
 *     min(c |D|_1, 4 |D|)
 *
 * besides the tolerance. Where no gap is that small, that is 0, and the tolerance is as strict as without kinks.
 *
 * 5. What follows. If dx of that layer does differ, by a share r of its norm, then so do the dx and dw that are
 * computed from it. Each layer may enlarge the largest share that was measured before it in this step by a factor of
 * GS_KINK_GAIN, and no more. (A product weakens a difference in few elements as much as all of dx, or less; batch_norm
 * takes the mean off, and so enlarges what is left. gpt: 3.5 at most, rounding.h.) What is measured is the largest
 * |w_k D|, and not |D|. Where it shows only a part f of |D|, a right layer that enlarges D by more than 10 f is blamed.
 * For a layer that doubles D that means f < 1/5, which has a probability of 6e-4; for one that keeps its size f < 1/10,
 * with 4e-5 (train/digest/numbers.h). A share r counts from a tenth of the tolerance on: below that 10 r is within the
 * tolerance anyway. Such an r may be rounding alone; then what follows is held to as much as 11 times the tolerance, in
 * eighths with a small gap.
 *
 * An eighth has its own share in all that follows. Others are concerned only by a layer that takes statistics over
 * samples: what the whole batch's difference has become is spread evenly over the eighths. dw has the share of the
 * whole batch, and so have norm and factor; the optimiser's vectors have that of earlier steps too. The sum is still
 * held to the tolerance: to what A's own ranks have to add.
 *
 * 6. The weights. An update is as far off as its vectors are, as a share of itself (Adam's: rounding.h). So weights
 * differ by what they differed by before, and by that share of what the update changes. What later steps compute from
 * such weights is held to gs_rounding_limit, and from layer to layer to 5, in forward too. x then differs by more, so
 * s in 2 is larger.
 *
 * All steps but the first are treated so, in all eighths, whether or not a choice was seen: choices that change dx by
 * less than the tolerance move weights apart too, and so does rounding itself, without any kink. (gpt, after some steps
 * of LARS or Adam: dx of a layer came to 1.2 times what is allowed otherwise.)
 *
 * So runs that have once chosen differently may part ever further; gs_difference tells how far they were allowed to. A
 * mistake that is smaller than what rounding has already made of such a step is not seen there. It is seen in the first
 * step, where weights are the same. */
#pragma once

#include "explain/rounding.h"

enum { GS_KINK_GAIN = 10 };

/* dx of layer l is compared next, in all eighths: s of 2 is computed for it, once. */
void gs_kinks_begin_dx(gs_search *, int l);

/* By how much y or dx of layer l may differ in that eighth of the batch, in addition to gs_kinks_share: by other
 * choices, as in 4, and by what was carried to it from other eighths. */
double gs_kinks_more(const gs_search *, int kind, int l, int eighth);

/* y or dx of layer l was compared: what differs in it is in all that follows in this step. */
void gs_kinks_carry(gs_search *, int kind, int l);
/* dw of a parameter was compared, and differs by that share. */
void gs_kinks_carry_dw(gs_search *, double share);

/* The limit of what is compared, as a share, with what is carried to it. */
double gs_kinks_share(const gs_search *, int kind, int eighth);

/* How far apart, as a norm, such choices have moved weights p, this step's update included. */
double gs_kinks_moved(const gs_search *, int p);

/* The same up to the update of the step before: so far may they be apart in this step's forward. */
double gs_kinks_left(const gs_search *, int p);

/* A step begins, or has ended. */
void gs_kinks_begin(gs_search *);
void gs_kinks_end(gs_search *);
