/* For optimisers with a rate for each tensor (lars.c, lamb.c): the shards of tensors that this worker updates, and the
 * norms of whole tensors, even if other workers hold the other shards (gs_held). */
#pragma once

#include "optim/optimizer.h"

/* Does this parameter have its own rate, and weight decay? Weights do. One-dimensional parameters do not: biases, and
 * the scale and shift of a normalisation. They are few, their norms say little about how far they may move, and many
 * start at 0. The programs of the authors of LARS and LAMB did the same, and so do later programs for large batches. */
static inline bool gs_is_adapted(const gs_param *p) {
    return p->ndim > 1;
}

/* A shard of a tensor, or the whole tensor. */
typedef struct gs_tensor_shard {
    const gs_param *param;
    int number; /* the parameter's index: model->param[number] */
    size_t count;
    gs_mem weights, gradients;
    size_t vector_at; /* its offset in the optimiser's vectors */
    bool counted;     /* see gs_held_shard */
    int in;           /* the index of the gs_held part that contains it */
} gs_tensor_shard;

/* Advance to the next shard, or to the first one if *t is all zero. False: there are no more. */
bool gs_next_tensor_shard(const gs_optimizer *, gs_tensor_shard *);

/* norm[i] = the Euclidean norm of the weights of model->param[i], or of its stored gradients. The bits are the same for
 * any division of the tensors (optim/norm.h). One-dimensional parameters are skipped. */
gs_status gs_tensor_norms(gs_optimizer *, bool of_gradients, double *norm);
