/* --tensor T, alone and in combination with other layouts (tensor.c). */
#pragma once

#include "train/train.h"

/* This worker's tensor group, for gs_model_create. With --exact but without --tensor the worker is alone in its group,
 * and adds its sums in the order of divided ones. size 0: neither option is given. */
gs_tensor_group gs_tensor_group_here(gs_worker *);

/* The tensor group of worker `rank`, for a plan only: it cannot sum. */
gs_tensor_group gs_tensor_group_of(const gs_settings *, int rank);

/* True if sums of gradients over replicas must add in the same order at every offset in the array. If a group's shards
 * differ in size, the tensors that all its ranks hold have different offsets on different ranks, but their sums must
 * have the same bits. With two replicas, any order gives the same bits. */
bool gs_tensor_needs_order(const gs_worker *);

/* ---- messages for --sequence ---- */

/* A shard: n runs of `each` floats. ordered: room for all ranks' floats; only a gather with n = 1 works without. */
typedef struct gs_token_shards {
    gs_comm *tp;
    float *ordered;
    size_t n, each;
} gs_token_shards;

/* These implement gs_tensor_group.gather and reduce. With n = 1 `part` may lie in `whole`. */
gs_status gs_token_shards_gather(const gs_token_shards *, gs_device *, gs_mem whole, gs_mem part);
gs_status gs_token_shards_reduce(const gs_token_shards *, gs_device *, gs_mem part, gs_mem whole);

/* ---- a worker in a group ---- */

/* Create worker->tensor, after worker->strategy. */
gs_status gs_tensor_create(gs_worker *);
void gs_tensor_free(gs_worker *);
void gs_tensor_tell(const gs_worker *, gs_result *);

/* GS_E_USAGE: --tensor or --sequence cannot work with these settings, this model or samples of the shape `in`. */
gs_status gs_tensor_check(const gs_settings *);
gs_status gs_tensor_check_workers(const gs_settings *, gs_shape in);
