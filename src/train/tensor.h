/* --tensor T, alone and with the other layouts. */
#pragma once

#include "optim/optimizer.h"
#include "train/train.h"

/* This worker's place in its group, for gs_model_create; with --exact without --tensor it is alone, and its sums
 * have the order of those that are divided. size 0: neither of the two. */
gs_tensor_group gs_tensor_group_here(gs_worker *);

/* The same of worker `rank`, for a plan: nothing can be summed. */
gs_tensor_group gs_tensor_group_of(const gs_settings *, int rank);

/* Must the sums of gradients over replicas have one order for all elements, wherever they lie in the array? Where a
 * group's parts are not of one size, what all of it hold lies at another place on each of them; but its sums must have
 * the same bits. Of two replicas any sum has. */
bool gs_tensor_needs_order(const gs_worker *);

/* ---- the messages of --sequence ---- */

/* A shard: n runs of `each` floats. ordered: room for those of all ranks, where n is more than 1. */
typedef struct gs_token_shards {
    gs_comm *tp;
    float *ordered;
    size_t n, each;
} gs_token_shards;

/* gs_tensor_group.gather and reduce; with n 1 the part may lie in the whole. summed: whole is the sum already. */
gs_status gs_token_shards_gather(const gs_token_shards *, gs_device *, gs_mem whole, gs_mem part);
gs_status gs_token_shards_reduce(const gs_token_shards *, gs_device *, gs_mem part, gs_mem whole,
                                 bool summed);

/* ---- a worker of a group ---- */

/* worker->tensor, after its strategy is made. */
gs_status gs_tensor_create(gs_worker *);
void gs_tensor_free(gs_worker *);
void gs_tensor_tell(const gs_worker *, gs_result *);

/* GS_E_USAGE: --tensor or --sequence with settings, a model or samples (of the shape `in`) that do not go with it. */
gs_status gs_tensor_check(const gs_settings *);
gs_status gs_tensor_check_workers(const gs_settings *, gs_shape in);
