/* How the logits of the test set rank the classes: which class is taken for which, where the right one stands, and
 * which samples a model gets most wrong. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include "comm/comm.h"

/* The class of the largest of `classes` logits; the first of equal ones. A NaN is the largest, as in PyTorch. */
int gs_largest_logit(const float *logits, int classes);

/* The rank of `label` when the logits are sorted from the largest: 0 is the first. Of equal ones the first class comes
 * first, and a NaN is larger than all others: so rank 0 is gs_largest_logit. */
int gs_rank_of_label(const float *logits, int classes, int label);

/* count[label][largest logit] += 1 for each of n samples; logits (n, classes), count (classes, classes).
 * A label must lie in 0 .. classes - 1. */
void gs_confusion_add(double *count, const float *logits, const int32_t *labels, size_t n, int classes);

/* ---- the samples with the largest loss, for a person to look at ---- */

enum { GS_WORST = 24 }; /* how many are kept */

typedef struct gs_wrong {
    size_t sample;    /* its number in the set */
    int label, taken; /* what it is, and what it was taken for */
    double loss;      /* -log p(label), p the softmax of its logits; infinite where a logit is not finite */
    double sure;      /* p(taken) */
} gs_wrong;

/* From the largest loss to the smallest; of equal ones the first in the set comes first. */
typedef struct gs_worst {
    int count;
    gs_wrong of[GS_WORST];
} gs_worst;

/* Take one into the list, if it belongs there. The result does not depend on the order of the calls. */
void gs_worst_add(gs_worst *, gs_wrong);

/* Of n samples, numbers `first` and on: logits (n, classes), a label in 0 .. classes - 1 for each. */
void gs_worst_add_logits(gs_worst *, size_t first, const float *logits, const int32_t *labels, size_t n,
                         int classes);

/* The list over the samples of all workers, on each of them. Errors: those of an all-reduce; GS_E_MEMORY. */
gs_status gs_worst_of_all(gs_comm *, gs_worst *);
