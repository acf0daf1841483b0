/* Which class is taken for which: the confusion matrix of the test set. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The class of the largest of `classes` logits; the first of equal ones. A NaN is the largest, as in PyTorch's
 * argmax. */
int gs_largest_logit(const float *logits, int classes);

/* count[label][largest logit] += 1 for each of n samples; logits (n, classes), count (classes, classes).
 * A label must lie in 0 .. classes - 1. */
void gs_confusion_add(double *count, const float *logits, const int32_t *labels, size_t n, int classes);
