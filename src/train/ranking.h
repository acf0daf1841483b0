/* How the logits of the test set rank the classes: the confusion matrix, the rank of the label, and the samples with
 * the largest loss. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include "comm/comm.h"

/* The class of the largest of `classes` logits; the first if several are equal. A NaN is the largest, as in PyTorch. */
int gs_largest_logit(const float *logits, int classes);

/* The rank of `label` among the logits, from 0 for gs_largest_logit: of equal logits the lower class comes first, and a
 * NaN is larger than all numbers. */
int gs_rank_of_label(const float *logits, int classes, int label);

/* count[label][largest logit] += 1 for each of n samples; logits (n, classes), count (classes, classes), labels from 0
 * to classes - 1. */
void gs_confusion_add(double *count, const float *logits, const int32_t *labels, size_t n, int classes);

/* ---- the samples with the largest loss, for a person to inspect ---- */

enum { GS_WORST = 24 }; /* how many are kept */

typedef struct gs_wrong {
    size_t sample;    /* its index in the set */
    int label, taken; /* its class, and the predicted one */
    double loss;      /* -log p(label), p the softmax of its logits; infinite if a logit is not finite */
    double sure;      /* p(taken) */
} gs_wrong;

/* By decreasing loss; of equal losses, by index. */
typedef struct gs_worst {
    int count;
    gs_wrong of[GS_WORST];
} gs_worst;

/* Insert a sample if it is among the GS_WORST worst. The order of the calls does not change the list. */
void gs_worst_add(gs_worst *, gs_wrong);

/* Insert samples first .. first + n - 1: logits (n, classes), labels from 0 to classes - 1. */
void gs_worst_add_logits(gs_worst *, size_t first, const float *logits, const int32_t *labels, size_t n,
                         int classes);

/* Merge the lists of all workers, on each of them. Errors: those of an all-gather; GS_E_MEMORY. */
gs_status gs_worst_of_all(gs_comm *, gs_worst *);
