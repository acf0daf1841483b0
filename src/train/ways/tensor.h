/* --tensor T, alone and with the other layouts: what the files share. The way itself is tensor.c; ../tensor/ has
 *
 *     inner.c     the ways to train that a group goes with: stages of a pipeline, ZeRO
 *     sequence.c  messages of --sequence
 */
#pragma once

#include "optim/optimizer.h"
#include "train/train.h"

struct gs_way;

/* This worker's place in its group, for gs_model_create_tensor; with --exact without --tensor it is alone, and its sums
 * have the order of those that are divided. size 0: neither of the two. */
gs_tensor_group gs_tensor_place(gs_worker *);

/* The same of worker `rank`, for a plan: nothing can be summed. */
gs_tensor_group gs_tensor_group_of(const gs_settings *, int rank);

/* ---- inner.c ---- */

/* How these settings would train without --tensor, if that is another way than the synchronous one; else NULL. It sums
 * over GS_DP. */
const struct gs_way *gs_tensor_inner(const gs_settings *);

/* Must the sums of gradients over replicas have one order for all elements, wherever they lie in the array? Where a
 * group's parts are not of one size, what all of it hold lies at another place on each of them; but its sums must have
 * the same bits. Of two replicas any sum has. */
bool gs_tensor_needs_order(const gs_worker *);
bool gs_tensor_part_needs_order(const gs_model *part, int replicas);

/* ---- sequence.c ---- */

/* A part: n pieces of `each` floats. ordered: room for those of all ranks, where n is more than 1. */
typedef struct gs_token_parts {
    gs_comm *group;
    float *ordered;
    size_t n, each;
} gs_token_parts;

/* gs_tensor_group.gather and reduce; with n 1 the part may be its place in the whole. summed: whole is the sum already.
 */
gs_status gs_token_parts_gather(const gs_token_parts *, gs_device *, gs_mem whole, gs_mem part);
gs_status gs_token_parts_reduce(const gs_token_parts *, gs_device *, gs_mem part, gs_mem whole, bool summed);

/* ---- tensor.c: of gs_way ---- */

gs_status gs_tensor_create(gs_worker *);
void gs_tensor_free(gs_worker *);
gs_status gs_tensor_step(gs_worker *, gs_score *);
gs_status gs_tensor_check(const gs_settings *, bool chosen);
gs_status gs_tensor_check_workers(const gs_settings *, const gs_dataset *, int workers);
/* GS_E_USAGE: --sequence, and the model, of which this is a part, takes no sequences. */
gs_status gs_tensor_check_part(const gs_settings *, const gs_model *part);
void gs_tensor_describe(const gs_settings *, char *text, size_t size);
gs_status gs_tensor_tell(gs_worker *, gs_result *);

/* What all ways of a group have in common. */
#define GS_TENSOR_SHARED                                                                                     \
    .option = "--tensor",                                                                                    \
    .no_bucket = "sums within a group during backward, and other sums would come in between",                \
    .no_wire = "sends activations too, which are not rounded", .check = gs_tensor_check,                     \
    .check_workers = gs_tensor_check_workers, .describe = gs_tensor_describe,                                \
    .no_gradient = true /* but a part */, .create = gs_tensor_create, .free = gs_tensor_free,                \
    .step = gs_tensor_step, .report = gs_tensor_tell
