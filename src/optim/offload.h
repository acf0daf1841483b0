/* --offload optimizer: the optimiser's vectors are stored outside the device's memory (alloc_offloaded). An update
 * needs each element once, in order, so the vectors are fetched in blocks, two ahead of the block being updated:
 *
 *     block        | 0 | 1 | 2 | 3 | ...                             GS_OFFLOAD_BLOCK floats of each vector
 *
 *     worker       forward, backward | update 0    | update 1            | update 2            | ...
 *     meanwhile    fetch 0           | fetch 1, 2  | put 0 back, fetch 3 | put 1 back, fetch 4 |
 *
 * With --offload weights, the weights are fetched in the same blocks, with or without the vectors.
 *
 * The blocks do not change how elements are updated, so the bits are the same. Tensors would not do: one may be most of
 * a model. The vectors of an optimiser that needs whole tensors (gs_optimizer_ops.whole) are not offloaded.
 *
 * Source: Ren et al., "ZeRO-Offload: democratizing billion-scale model training" (USENIX ATC 2021); Rajbhandari et al.,
 * "ZeRO-Infinity: breaking the GPU memory wall for extreme scale deep learning" (SC 2021). There the host's processor
 * computes the update; here the device does. */
#pragma once

#include "optim/optimizer.h"

enum { GS_OFFLOAD_BLOCK = 1 << 18 /* floats */ };

/* Are this optimiser's vectors offloaded on this device? */
bool gs_optimizer_offloads(const gs_optimizer_ops *, const gs_device *);

/* Replaces o->vector: allocates o->vectors vectors of o->held floats each. GS_E_FILE, GS_E_MEMORY, GS_E_OPENCL. */
gs_status gs_optimizer_offload_create(gs_optimizer *o);
void gs_optimizer_offload_free(gs_optimizer *o);

/* Like o->ops->update. */
gs_status gs_optimizer_offload_update(gs_optimizer *o, size_t first, size_t count, float scale);

/* Fetch the first block of the next update during forward and backward. */
gs_status gs_optimizer_offload_fetch_first(gs_optimizer *o);

/* Are the vectors offloaded? */
bool gs_optimizer_is_offloaded(const gs_optimizer *o);
