/* What the optimisers with a rate for each tensor share (lars.c, lamb.c). */
#pragma once

#include "optim/optimizer.h"

/* Has this parameter a rate of its own, and weight decay? Weights do. Parameters of one dimension do not: biases, and
 * scale and shift of a normalisation. They are few, their norms say little about how far they may move, and many begin
 * at 0. So did the authors' programs, and so does what trains large batches since. */
static inline bool gs_is_adapted(const gs_param *p) {
    return p->ndim > 1;
}
