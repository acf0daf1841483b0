/* How the logits on the test set rank the classes: the confusion matrix, the rank of the label, and the samples with
 * the largest loss. */
#pragma once

#include "comm/comm.h"

/* The class of the largest of `classes` logits; of equal ones, the first. A NaN counts as largest, as in PyTorch. */
int gs_largest_logit(const float *logits, int classes);

/* The rank of `label` among the logits; 0: it is gs_largest_logit. Of equal logits the lower class comes first; a NaN
 * is larger than any number. */
int gs_rank_of_label(const float *logits, int classes, int label);

/* count[label][class of the largest logit] += 1 for each of n samples; logits (n, classes), count (classes, classes),
 * labels from 0 to classes - 1. */
void gs_confusion_add(double *count, const float *logits, const int32_t *labels, size_t n, int classes);

/* ---- the samples with the largest loss, for a person to inspect ---- */

enum { GS_WORST = 24 }; /* number of samples kept */

typedef struct gs_wrong {
    size_t sample;    /* its index in the data set */
    int label, taken; /* its true class, and the predicted one */
    double loss; /* -log p(label), where p is the softmax of its logits; infinite if a logit is not finite */
    double sure; /* p(taken) */
} gs_wrong;

/* Sorted by decreasing loss; samples of equal loss by index. */
typedef struct gs_worst {
    int count;
    gs_wrong of[GS_WORST];
} gs_worst;

/* Insert a sample if it is among the GS_WORST worst. The resulting list does not depend on the order of the calls. */
void gs_worst_add(gs_worst *, gs_wrong);

/* Insert samples first .. first + n - 1: logits (n, classes), labels from 0 to classes - 1. */
void gs_worst_add_logits(gs_worst *, size_t first, const float *logits, const int32_t *labels, size_t n,
                         int classes);

/* Merge the lists of all workers, and give the result to each. GS_E_MEMORY; also fails as an all-gather does. */
gs_status gs_worst_of_all(gs_comm *, gs_worst *);
