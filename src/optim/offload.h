/* --offload optimizer: the optimiser's vectors are stored outside of the device's memory (alloc_offloaded). An update
 * needs each element once, in order, so they arrive in blocks; two are fetched ahead of the one that is updated:
 *
 *     block        | 0 | 1 | 2 | 3 | ...                             of each vector GS_OFFLOAD_BLOCK floats
 *
 *     worker       forward, backward | update 0    | update 1            | update 2            | ...
 *     beside it    fetch 0           | fetch 1, 2  | put 0 back, fetch 3 | put 1 back, fetch 4 |
 *
 * With --offload weights these arrive in the same blocks, whether the vectors do or not.
 *
 * Elements are updated as in one piece, so the bits are the same. Blocks, not tensors: a tensor may be most of a model.
 * An optimiser that needs whole tensors (gs_optimizer_ops.whole) keeps its vectors.
 *
 * Source: Ren et al., "ZeRO-Offload: democratizing billion-scale model training" (USENIX ATC 2021); Rajbhandari et al.,
 * "ZeRO-Infinity: breaking the GPU memory wall for extreme scale deep learning" (SC 2021). There the update is made by
 * the host's processor; here the device makes it.
 */
#pragma once

#include "optim/optimizer.h"

enum { GS_OFFLOAD_BLOCK = 1 << 18 /* floats */ };

/* Does this optimiser offload on this device? */
bool gs_optimizer_offloads(const gs_optimizer_ops *, const gs_device *);

/* Instead of o->vector: o->vectors of them, o->held floats in each. GS_E_FILE, GS_E_MEMORY, GS_E_OPENCL. */
gs_status gs_optimizer_offload_create(gs_optimizer *o);
void gs_optimizer_offload_free(gs_optimizer *o);

/* As o->ops->update. */
gs_status gs_optimizer_offload_update(gs_optimizer *o, size_t first, size_t count, float scale);

/* Fetch the first block of the next update during forward and backward. */
gs_status gs_optimizer_offload_fetch_first(gs_optimizer *o);

/* Are the vectors offloaded? */
bool gs_optimizer_is_offloaded(const gs_optimizer *o);
