/* What lesson 10 asks for, in lab.c:
 *
 *     10.1   gs_buckets_plan   where the gradients are cut: src/train/buckets.h
 *     10.2   accumulate        below
 *     10.3   to_bf16           f32 -> bf16, to nearest even: src/sync/wire.h
 *     10.4   to_f16            f32 -> f16, the same
 */
#pragma once

#include "lab.h"
#include "core/shard.h"
#include "sync/wire.h"
#include "train/buckets.h"

/* Samples whose gradients can be computed, though not all at once. */
typedef struct sample_set {
    size_t params;
    /* gradient[i] += the sum of the gradients of samples first .. first + count - 1, for params elements; count > 0 */
    gs_status (*add_gradient)(void *context, size_t first, size_t count, float *gradient);
    void *context;
} sample_set;

/* Task 10.2. mean[i] = the mean of the gradients of samples 0 .. n - 1, computed in `passes` passes: pass k takes part
 * gs_shard_of(n, k, passes) of them (src/core/shard.h), and is left out where that part is empty. What is in `mean`
 * before does not matter. n > 0. */
gs_status accumulate(const sample_set *, size_t n, int passes, float *mean);
