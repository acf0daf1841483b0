/* What rounding does in a right run, where it is more than the tolerance: Adam, AdamW and LAMB enlarge it.
 *
 * They divide the mean of gradients by its size: w -= lr m' / S with S = sqrt(v') + epsilon (optim/adam.c). Where an
 * element's gradients are near 0, their rounding decides whether it moves up or down. Let A's gradient of an element
 * differ from B's by at most d in each step until now. m' is a mean of gradients and sqrt(v') a norm of them, both with
 * weights of sum 1, so each differs by at most d too. |m'| is about S at most, so the update differs by about
 * 2 lr d / S at most, and by 2 lr where d > S. Of a tensor
 *
 *     D = update_A - update_B:   |D|_1 <= 2 lr sum over i of min(1, d_i / S_i)
 *                                |D|^2 <= (2 lr)^2 sum over i of min(1, d_i / S_i)^2
 *
 * with lr times the trust ratio for LAMB. A record shows  |w_k D| <= min(c |D|_1, 4 |D|)  of it, as in kinks.h. (In the
 * first step of Adam one element that turns has all of 2 lr, and up to c = 1.73 times that is seen.) |d| is known: the
 * summed gradients are compared before the update is, and must be the same within the tolerance. How it is divided
 * among the n elements is not known: d_i = 4 |d| / sqrt(n) is taken. The 4 leaves room for an uneven division, and for
 * |d| itself, of which a record has only four numbers. The S_i are recorded by their size (GS_DIGEST_slope). In a bias
 * before attention few elements of the queries' and the values' parts have a small S_i, but all of the keys' part: it
 * moves all scores of a query alike, and softmax takes that off again, so its gradient is rounding alone.
 *
 * What is computed from weights that were moved apart differs too. gs_rounding_limit is for that. */
#pragma once

#include "explain/explain.h"

/* A comparison, at one step. */
typedef struct gs_search {
    const gs_digests *a, *b;
    double tolerance; /* as it was given */
    double limit;     /* of what is compared now: more, where weights that were moved lead to it */
    uint64_t step;
    bool divided_alike; /* each rank of A has what that rank of B has */
    /* Differences that follow from branches that rounding decided, as shares of a norm (kinks.h): in this step, of
     * each eighth of the batch and of all of it; and the largest of all steps until now. */
    double carried[GS_DIGEST_EIGHTHS], carried_whole, carried_before;
    double rounding;          /* of x, for the layer whose dx is compared now: s of kinks.h */
    bool loose;               /* not the first step: weights may have been moved apart */
    uint64_t parted;          /* the first step whose update branches may have moved apart; 0: none */
    uint64_t switched, blind; /* as in gs_difference */
    double loosest;           /* the largest limit from step `switched` on */
    bool left_out;            /* both left this step's update out, as its gradients in f16 were not finite */
    gs_difference *out;
} gs_search;

/* A hundredth of the norm of all tensors. */
double gs_size_of_all(const gs_search *, int kind);

/* What an eighth of the batch is compared with: its norm, or a share of that of all eighths (its squares). */
double gs_size_of_eighth(const gs_numbers *a, const gs_numbers *b, double squares_of_all);

/* Does the optimiser divide by the gradient's size? */
bool gs_divides_by_gradient(const gs_digests *);

/* The largest |A - B| of p's array after the sum, on the rank where it is largest. */
double gs_whole_apart(const gs_search *, uint64_t step, int kind, int p);

/* The same of the weights that this step's forward reads, in all copies. */
double gs_weights_apart(const gs_search *, int p);

/* How far apart, in what a record shows, rounding may have moved weights p in all updates up to that of step `last`. 0
 * for optimisers that do not enlarge it, and where the record has no slopes. */
double gs_rounding_moved(const gs_search *, uint64_t last, int p);

/* The limit of what is computed from this step's weights: the tolerance, or if that is more, ten times the largest
 * difference of a tensor of weights, as a share of its norm. Measured with gpt: up to 3.5 times. Steps of SGD and LARS
 * that are too long enlarge rounding as well, from one to the next; where they are not, ten times the difference is far
 * below the tolerance. */
double gs_rounding_limit(const gs_search *);

/* Is all of p's gradient rounding? Then what is made of it is no difference. */
bool gs_is_rounding_alone(const gs_search *, int p);

/* Is layer l's y, or its state, moved by such a tensor? */
bool gs_is_moved(const gs_search *, int l, bool state);
