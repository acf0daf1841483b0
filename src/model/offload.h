/* --offload activations and --offload weights: data that layers need only while they compute are stored elsewhere the
 * rest of the time (alloc_offloaded), in the units of layer/memory/offload.h. While a unit computes, the next one is
 * fetched, and the one before the previous one is offloaded. On cpu, operators work in the mapped file itself, and
 * fetching and offloading are hints. On a device whose operators need its own memory (cl), copies run concurrently with
 * the operators:
 *
 *     operators   forward 1 | forward 2          | forward 3          | ... | backward 3       | backward 2 | ...
 *     copies      w2        | y1 to the host, w3 | y2 to the host, w4 | ... | w2, y1 returned  | w1         | ...
 *
 * On such a device, weights use two windows alternately, each as large as the largest unit it holds. A unit whose
 * weights are also read by another one (tied) stays in a window of its own.
 *
 * On cpu nothing is copied. While memory is free, the system keeps offloaded pages in it, and reading one again costs a
 * page fault; when memory is short, it writes them to disk.
 *
 * Each model offloads its own data. A stage's micro-batches are models with only activations, so they offload only
 * those. */
#pragma once

#include "model/model.h"

/* Create m->offload, and add hooks to the layers; call it after binding. m->offload stays NULL if nothing is offloaded.
 * Free it even after a failure. */
gs_status gs_model_offload_create(gs_model *m);
void gs_model_offload_free(gs_model *m);
