/* --tensor T: what of it the worker needs before it has met the others, and what tells of it. See tensor.c. */
#pragma once

#include "train/train.h"

/* This worker's place in its group, for gs_model_create_tensor; with --exact without --tensor it is alone, and its sums
 * have the order of those that are divided. size 0: neither of the two. */
gs_tensor_group gs_tensor_place(gs_worker *);

/* The same of worker `rank`, for a plan: nothing can be summed. */
gs_tensor_group gs_tensor_group_of(const gs_settings *, int rank);
