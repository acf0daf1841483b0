/* --offload activations and weights: data that layers need only while they compute are stored elsewhere in between
 * (alloc_offloaded), in the units of layer/memory/offload.h. While a unit computes, the next one is fetched, and the
 * one before the previous one is offloaded. On cpu, operators work in the mapped file itself, and fetching and
 * offloading are hints. On a device whose operators need its own memory (cl), copies run concurrently with the
 * operators:
 *
 *     operators   forward 1 | forward 2          | forward 3          | ... | backward 3       | backward 2 | ...
 *     copies      w2        | y1 to the host, w3 | y2 to the host, w4 | ... | w2, y1 returned  | w1         | ...
 *
 * There, weights use two windows alternately, each as large as its largest unit. A unit whose weights another unit
 * reads too (tied) stays in a separate window.
 *
 * On cpu nothing is copied: while memory is free, the system keeps offloaded pages, and reading them again costs a page
 * fault each; when memory is short, it writes them to disk.
 *
 * Each model offloads its own data: a stage's micro-batches, which are models with only activations, offload only
 * these. */
#pragma once

#include "model/model.h"

/* Call after binding: adds hooks to the layers. m->offload stays NULL if nothing is offloaded. Free it even after a
 * failure. */
gs_status gs_model_offload_create(gs_model *m);
void gs_model_offload_free(gs_model *m);
