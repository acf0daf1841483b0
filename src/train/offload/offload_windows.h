/* --offload activations and weights on a device whose operators work in its own memory alone (cl): copies go to the
 * host's memory, and come back before they are needed, while operators compute (alloc_away in backend.h). They go by
 * the units of layer/memory/away.h, which says when a y is there.
 *
 *     operators   forward 0 | forward 1          | forward 2          | ... | backward 2       | backward 1 | ...
 *     copies      w1        | y0 to the host, w2 | y1 to the host, w3 | ... | w1, y0 come back | w0         | ...
 *
 * Weights lie in two windows, which units take in turns; each is as large as its largest unit. A unit whose weights
 * another one reads too (tied) stays in a window of its own.
 */
#pragma once

#include "layer/memory/away.h"
#include "model/model.h"

typedef struct gs_offload_windows gs_offload_windows;

/* After the model is bound. GS_E_MEMORY, GS_E_OPENCL. */
gs_status gs_offload_windows_create(gs_model *, gs_offload_windows **out);
void gs_offload_windows_free(gs_offload_windows *); /* NULL is allowed; the model must still be there */
