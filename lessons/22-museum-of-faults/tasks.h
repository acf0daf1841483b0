/* Lesson 22: the functions of lab.c. With given.c they form your own `explain`, which compares two records of `train
 * --digest` with the same workers: the run in question, and a right one. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

/* The recorded quantities of a step, in the order of their computation, except dw and dx: see lab_before. */
typedef enum lab_quantity {
    LAB_RATE,    /* the learning rate */
    LAB_SAMPLES, /* from the loader */
    LAB_WEIGHT,  /* of a layer, as forward reads it */
    LAB_INPUT,   /* of the first layer */
    LAB_Y,       /* of a layer, in forward */
    LAB_DY,      /* of the loss */
    LAB_DW,      /* of a layer, in backward: this rank's part of the sum */
    LAB_DX,      /* of a layer, in backward */
    LAB_SUM,     /* dw, summed over the ranks */
    LAB_NORM,    /* with --clip: of the mean gradient */
    LAB_FACTOR,  /* multiplies summed gradients: 1 / samples, or less if they are clipped */
    LAB_VELOCITY,
    LAB_UPDATED, /* weights, after the update */
    LAB_QUANTITIES
} lab_quantity;

enum { LAB_ALONG = 4 };

/* One array that a rank has computed in a step, in both runs. Four numbers represent an array x: x[0] w(0) + x[1] w(1)
 * + ..., each with other weights w(i) of mean 0 and variance 1. If an array changes by d, each number changes by about
 * the norm of d. A quantity that is a single number has it four times. */
typedef struct lab_row {
    int step, quantity, layer, rank; /* layer 0: the first, or none */
    double a[LAB_ALONG];             /* in the run in question */
    double b[LAB_ALONG];             /* in the right run */
    double size;                     /* the norm of the right array */
} lab_row;

/* Task 22.1. Returns whether the two arrays of this row differ: one of the four numbers of a is further from that of b
 * than tolerance * size. NaN differs from every number, even from NaN. */
bool lab_differs(const lab_row *, double tolerance);

static inline bool lab_is_backward(const lab_row *x) {
    return x->quantity == LAB_DW || x->quantity == LAB_DX;
}

/* Task 22.2. Returns whether x comes before y, in this order:
 *
 *     the earlier step
 *     in a step, the quantity that comes first in lab_quantity; but dw and dx are computed together, layer by layer
 *     of one quantity, the layer that is computed first
 *     of one layer in backward, dw before dx
 *     otherwise the lower rank: all ranks compute a row at the same time, but one must come first
 *
 * Only dw and dx belong to backward. The sum does not, although buckets are often summed during backward. A row does
 * not come before itself. */
bool lab_before(const lab_row *x, const lab_row *y);

/* given.c: the first row that differs, in the order of lab_before; `rows` if none does. The rows have any order. */
size_t lab_first(size_t rows, const lab_row *row, double tolerance);

/* Equal up to rounding. NaN never is. */
static inline bool lab_near(double x, double wanted) {
    return fabs(x - wanted) <= 0.01 * fmax(1, fabs(wanted));
}

typedef enum lab_sum {
    LAB_SUM_RIGHT,
    LAB_SUMMED_TWICE, /* the sum was summed over all ranks again */
    LAB_AVERAGED,     /* the sum was divided by the number of ranks */
    LAB_NOT_SUMMED,   /* each rank has only its own gradient */
    LAB_WITHIN_GROUPS, /* each has the sum of some ranks, including its own; not all the same, nor each alone */
    LAB_RANK_MISSING, /* all ranks have the same sum, without the gradient of one rank */
    LAB_RANK_TWICE,   /* all ranks have the same sum, with the gradient of one rank twice */
    LAB_SUM_OTHERWISE
} lab_sum;

/* Task 22.3. Names what happened to the sum. Each rank's own gradient is right. share[r * ranks + q] says how often the
 * result of rank r contains the gradient of rank q; all 1 is right. ranks >= 2. No two names fit the same shares, so
 * you may test them in any order. */
lab_sum lab_of_sum(int ranks, const double *share);

typedef enum lab_loss {
    LAB_LOSS_RIGHT,
    LAB_BY_RANKS,      /* each rank has divided its loss by the number of ranks */
    LAB_TIMES_RANKS,   /* each rank has multiplied its loss by the number of ranks */
    LAB_MEAN_OF_MEANS, /* the mean of each rank's mean over its own samples */
    LAB_MASKED,        /* samples of some ranks, or all, have no gradient; others have the right one */
    LAB_LOSS_OTHERWISE
} lab_loss;

/* Task 22.4. Names what happened to the loss. Right is a sum over samples, later divided once by all samples of the
 * batch. The gradient of each of rank r's n[r] samples is factor[r] times what it should be; factor[r] is NaN if n[r]
 * is 0. If several names fit, returns the first of the list. Some rank has samples. */
lab_loss lab_of_loss(int ranks, const size_t *n, const double *factor);

/* An array of n numbers, represented by four. */
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

/* Task 22.5. Names what was drawn twice. x[s * ranks + r] is what rank r drew in step s: the samples of its part, or a
 * mask of dropout; n is 0 for a rank without samples in this step. Returns the sum of
 *
 *     LAB_SAME_ON_RANKS     in some step two ranks drew the same
 *     LAB_SAME_IN_STEPS     some rank drew the same in two steps, which need not be neighbours
 *
 * each at most once, or 0. Empty draws never count as the same. */
int lab_of_draws(int steps, int ranks, const lab_numbers *x);

/* Task 22.6. Find the two bugs. Returns the factor that clips the mean gradient to the norm `clip`: clip / norm, or 1
 * if its norm is at most `clip`. The summed gradient is sharded (--zero): own[r] is the sum of squares of rank r's
 * shard, and `common` that of the part which all ranks hold, because it is too small to shard. The
 * gradient is summed over `samples` > 0. */
double lab_shrink(int ranks, const double *own, double common, double samples, double clip);
