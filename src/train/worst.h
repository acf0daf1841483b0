/* The samples that a model gets most wrong: those with the largest loss, for a person to look at. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include "comm/comm.h"

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
