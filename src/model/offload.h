/* --offload activations and weights: what a layer needs while it computes, else lies elsewhere (alloc_offloaded). It
 * goes by the units of layer/memory/offload.h. While one computes, the next one is fetched, and the one before the last
 * is offloaded. On cpu operators work in the mapped file itself, and each step of that is a hint; on a device
 * whose operators work in its own memory alone (cl) copies go beside the operators:
 *
 *     operators   forward 1 | forward 2          | forward 3          | ... | backward 3       | backward 2 | ...
 *     copies      w2        | y1 to the host, w3 | y2 to the host, w4 | ... | w2, y1 come back | w1         | ...
 *
 * There weights lie in two windows, which units take in turns; each is as large as its largest unit. A unit whose
 * weights another one reads too (tied) stays in a window of its own.
 *
 * So nothing is copied on cpu that is in memory anyway: as long as memory is free the system keeps the pages that a
 * worker has offloaded, and reads them again at the cost of a page fault each. Where it is short, it writes them to the
 * disk.
 *
 * Each model has its own: a stage's micro-batches, which are models with activations alone, offload these.
 */
#pragma once

#include "model/model.h"

/* Once the model is bound: hooks are added to its layers. m->offload stays NULL where nothing is to be
 * done. What is made is to be freed, even after a failure. */
gs_status gs_model_offload_create(gs_model *m);
void gs_model_offload_free(gs_model *m);
