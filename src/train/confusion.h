/* How the logits of the test set rank the classes: which class is taken for which, and where the right one stands. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The class of the largest of `classes` logits; the first of equal ones. A NaN is the largest, as in PyTorch's
 * argmax. */
int gs_largest_logit(const float *logits, int classes);

/* The place of `label` when the logits are sorted from the largest: 0 is the first. Of equal ones the first class comes
 * first, and a NaN is larger than all others: so place 0 is gs_largest_logit. */
int gs_place_of_logit(const float *logits, int classes, int label);

/* count[label][largest logit] += 1 for each of n samples; logits (n, classes), count (classes, classes).
 * A label must lie in 0 .. classes - 1. */
void gs_confusion_add(double *count, const float *logits, const int32_t *labels, size_t n, int classes);
