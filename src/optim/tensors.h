/* What optimisers with a rate for each tensor need (lars.c, lamb.c): the shards of tensors that this worker updates,
 * and the norms of whole tensors, whose other shards other workers may hold (gs_held). */
#pragma once

#include "optim/optimizer.h"

/* Does this parameter have its own rate, and weight decay? Weights do. Parameters of one dimension do not: biases, and
 * scale and shift of a normalisation. They are few, their norms say little about how far they may move, and many begin
 * at 0. The authors' programs did the same, and so do later ones for large batches. */
static inline bool gs_is_adapted(const gs_param *p) {
    return p->ndim > 1;
}

/* A part of a tensor, or all of it. */
typedef struct gs_tensor_shard {
    const gs_param *param;
    int number; /* of the parameter: model->param[number] */
    size_t count;
    gs_mem weights, gradients;
    size_t vector_at; /* where it begins in the optimiser's vectors */
    bool counted;     /* see gs_held_shard */
    int in;           /* the part of gs_held that it lies in */
} gs_tensor_shard;

/* Move to the next one; all zero: to the first. False: no more. */
bool gs_next_tensor_shard(const gs_optimizer *, gs_tensor_shard *);

/* norm[i] = the Euclidean norm of the weights of model->param[i], or of its stored gradients: the same bits however the
 * tensors are divided (optim/norm.h). Parameters of one dimension are skipped. */
gs_status gs_tensor_norms(gs_optimizer *, bool of_gradients, double *norm);
