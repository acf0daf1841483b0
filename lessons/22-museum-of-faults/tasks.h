/* Lesson 22: the functions of lab.c. With given.c they are the parts of your own `explain`, which compares two records
 * of `train --digest` that are of the same workers: the run that is asked about, and one that is right. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

/* What is recorded of a step. First comes what is computed first, except dw and dx: see lab_before. */
typedef enum lab_quantity {
    LAB_RATE,    /* the learning rate */
    LAB_SAMPLES, /* as the loader brings them */
    LAB_WEIGHT,  /* as forward reads it, of a layer */
    LAB_INPUT,   /* of the first layer */
    LAB_Y,       /* of a layer, in forward */
    LAB_DY,      /* of the loss */
    LAB_DW,      /* of a layer, in backward: what this rank has to add to the sum */
    LAB_DX,      /* of a layer, in backward */
    LAB_SUM,     /* dw, summed over the ranks */
    LAB_NORM,    /* with --clip: of the mean gradient */
    LAB_FACTOR,  /* by which summed gradients are multiplied: 1 / samples, and less if they were clipped */
    LAB_VELOCITY,
    LAB_UPDATED, /* weights, after the update */
    LAB_QUANTITIES
} lab_quantity;

enum { LAB_ALONG = 4 };

/* One array that a rank has computed in a step, in both runs. An array x is known by four numbers, x[0] w(0) + x[1]
 * w(1) + ..., each with other weights w(i) of mean 0 and variance 1; if an array changes by d, each of them changes by
 * about the norm of d. A quantity that is one number has it four times. */
typedef struct lab_row {
    int step, quantity, layer, rank; /* layer 0: the first, or none */
    double a[LAB_ALONG];             /* in the run that is asked about */
    double b[LAB_ALONG];             /* in the right run */
    double size;                     /* the norm of the right array */
} lab_row;

/* Task 22.1. Are the two arrays of this row different? They are the same if none of the four numbers of a is further
 * from that of b than tolerance * size. A number that is NaN is the same as none, not even as NaN. */
bool lab_differs(const lab_row *, double tolerance);

/* Is it of backward? */
static inline bool lab_is_backward(const lab_row *x) {
    return x->quantity == LAB_DW || x->quantity == LAB_DX;
}

/* Task 22.2. Was x computed before y? In this order:
 *
 *     the earlier step
 *     in a step, the quantity that comes first in lab_quantity; but dw and dx are computed together, layer by layer
 *     of one quantity, the layer that is computed first
 *     of one layer in backward, dw before dx
 *     else the lower rank; all ranks compute a row at the same time, but one of them must be told first
 *
 * Only dw and dx are of backward: for this order the sum is not, although buckets are often summed as backward makes
 * them. A row is not before itself. */
bool lab_before(const lab_row *x, const lab_row *y);

/* given.c: the first row that differs, in the order of lab_before; `rows` if none does. The rows may come in any order.
 */
size_t lab_first(size_t rows, const lab_row *row, double tolerance);

/* Is x what was wanted, up to rounding? NaN is not. */
static inline bool lab_near(double x, double wanted) {
    return fabs(x - wanted) <= 0.01 * fmax(1, fabs(wanted));
}

typedef enum lab_sum {
    LAB_SUM_RIGHT,
    LAB_SUMMED_TWICE,  /* what is a sum already was summed over all ranks again */
    LAB_AVERAGED,      /* the sum was divided by the number of ranks */
    LAB_NOT_SUMMED,    /* each rank has its own gradient alone */
    LAB_WITHIN_GROUPS, /* each has the sum of some ranks, with its own; not all the same, nor each alone */
    LAB_RANK_MISSING,  /* all ranks have the same sum; the gradient of one rank is not in it */
    LAB_RANK_TWICE,    /* all ranks have the same sum; the gradient of one rank is in it twice */
    LAB_SUM_OTHERWISE
} lab_sum;

/* Task 22.3. What happened to the sum? Each rank's own gradient is right. share[r * ranks + q] says how often the
 * gradient of rank q is in what rank r has after the sum; all 1 is right. ranks >= 2. No two names of the list fit the
 * same shares, so the order of your questions is your own. */
lab_sum lab_of_sum(int ranks, const double *share);

typedef enum lab_loss {
    LAB_LOSS_RIGHT,
    LAB_BY_RANKS,      /* each rank has divided its loss by the number of ranks */
    LAB_TIMES_RANKS,   /* each rank has multiplied its loss by the number of ranks */
    LAB_MEAN_OF_MEANS, /* each rank takes the mean over its own samples, and the mean of these means is taken */
    LAB_MASKED, /* the samples of some ranks, or all, have no gradient; those of others the right one */
    LAB_LOSS_OTHERWISE
} lab_loss;

/* Task 22.4. What happened to the loss? Right is a sum over samples, divided by all samples of the batch later, once.
 * The gradient of each of rank r's n[r] samples is factor[r] times what it should be; factor[r] is NaN where n[r] is 0.
 * If several names fit, the first of the list. Some rank has samples. */
lab_loss lab_of_loss(int ranks, const size_t *n, const double *factor);

/* An array of n numbers, known by four. */
typedef struct lab_numbers {
    size_t n;
    double along[LAB_ALONG];
} lab_numbers;

static inline bool lab_equal(const lab_numbers *x, const lab_numbers *y) {
    bool equal = x->n == y->n;
    for (int k = 0; k < LAB_ALONG; k++)
        equal = equal && x->along[k] >= y->along[k] && x->along[k] <= y->along[k];
    return equal;
}

enum { LAB_SAME_ON_RANKS = 1, LAB_SAME_IN_STEPS = 2 };

/* Task 22.5. What was drawn twice? x[s * ranks + r] is what rank r drew in step s: the samples of its part, or a mask
 * of dropout; n is 0 for a rank that has no samples in this step. Returns the sum of
 *
 *     LAB_SAME_ON_RANKS     in some step two ranks have drawn the same
 *     LAB_SAME_IN_STEPS     some rank has drawn the same in two steps, which need not follow each other
 *
 * each at most once, or 0. Who has drawn nothing has not drawn the same as anybody. */
int lab_of_draws(int steps, int ranks, const lab_numbers *x);

/* Task 22.6. Find the bugs: two. By what is the mean gradient multiplied to clip it to the norm `clip`: clip / norm, or
 * 1 if its norm is not above `clip`. The ranks divide the summed gradient (--zero): own[r] is the sum of the squares of
 * the part that rank r alone holds, and `common` that of the part which all ranks hold alike, as what is too small to
 * be divided. `samples` > 0 were summed over. */
double lab_shrink(int ranks, const double *own, double common, double samples, double clip);
