/* What lesson 8 asks for, in lab.c: the order in which gradients are added, the mean of unequal parts, and the
 * question who differs. */
#pragma once

#include "lab.h"
#include "core/shard.h"
#include "train/strategy.h"

/* Task 8.1. part[0] = the sum of all parts, `count` floats each, in a binary tree of neighbours:
 *
 *     4 parts:   (part[0] + part[1]) + (part[2] + part[3])
 *     8 parts:   the same of the first four + the same of the last four
 *
 * parts is 1, 2, 4 or 8. The parts but for part[0] may be used as scratch memory. */
void tree_sum(float *const *part, int parts, size_t count);

/* Task 8.2. Each worker brings the sum of its own leaves, which lie beside each other in the tree: worker 0 the first
 * ones, worker 1 those after them, and so on. Afterwards every worker has the whole sum, added in the tree of task 8.1.
 * In log2 N rounds each sends its sum to one other worker and receives that one's. c->size is 1, 2, 4 or 8; `arrived`
 * has room for `count` floats. */
gs_status tree_across(gs_comm *c, float *sum, float *arrived, size_t count);

/* Task 8.3. The leaves of worker `rank`: `count` of the 8 virtual shards, from `first` on, such that those of each
 * worker are a whole subtree. workers is 1, 2, 4 or 8. With it `train --exact` has all that it needs. */
gs_shard leaves_of(int rank, int workers);

/* Task 8.4. This worker has the mean of the gradients of its own `samples` samples in mean[0 .. count - 1]; one that
 * has no samples has 0/0 there, which is not a number. Afterwards all have the mean over all samples of all workers.
 * mean[count] is room for one more float. Some worker has a sample. */
gs_status mean_of_parts(gs_comm *c, float *mean, size_t count, size_t samples);

/* Task 8.5. checksum[r * tensors + t]: of tensor t of worker r. False where all workers agree in all tensors. Else
 * *tensor is the first one in which they do not, and *worker the first worker whose checksum of it is not the one that
 * most workers have; of several that are equally frequent it is the one of the lowest rank. */
bool first_different(const uint32_t *checksum, int workers, int tensors, int *worker, int *tensor);
