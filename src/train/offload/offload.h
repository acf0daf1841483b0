/* --offload LIST: what need not lie in a device's memory all the time lies elsewhere, and is brought just before it is
 * needed: on cpu in files (io/mapped.h), from an OpenCL device in the host's memory. The training computes the same
 * bits.
 *
 *     optimizer     the optimiser's vectors, block by block during the update (optim/away.h)
 *     activations   y of the layers, from their forward to their backward (below)
 *     weights       those of a layer, while it computes and while it is updated (below)
 *
 * The last two go by units, which are the layers of the model's outermost sequence that have something to be put away;
 * with --recompute also its segments, of which only the y that are kept are put away.
 * While one computes, the next one is brought, and the one before the last is put away:
 *
 *     worker       forward 0 | forward 1     | forward 2 | ... | backward 2 | backward 1    | backward 0
 *     its thread   bring 1   | bring 2       | put 0     | ... | bring 1    | bring 0, put 2 | put 1
 *
 * On OpenCL devices copies do that, in a queue of their own (offload_windows.c; memory/away.h says which y go). On cpu
 * operators work in the mapped file itself. So nothing is copied that is in memory anyway: as long as memory is
 * free the system keeps the pages that a worker has put away, and brings them back at the cost of a page fault each.
 * Where it is short, it writes them to the disk.
 */
#pragma once

#include "train/train.h"

enum { GS_OFFLOAD_TEXT = 40 };

/* "optimizer,activations,weights", some of them in any order, each once; "optimiser" too; or "none". */
bool gs_offload_read(const char *text, unsigned *out);
/* The same as text. Returns `text`. */
const char *gs_offload_text(unsigned offload, char *text, size_t size);

/* GS_E_USAGE: it does not go with other settings. */
gs_status gs_check_offload(const gs_settings *);

/* All zero without --offload. */
gs_status gs_report_offload(gs_worker *, gs_offload_report *);

/* ---- offload_layers.c: activations and weights ---- */

/* After the model is bound: what its layers need when. *out is told of their turns from now on; NULL: there is nothing
 * to be done. */
struct gs_offload_layers;
gs_status gs_offload_layers_create(gs_model *, struct gs_offload_layers **out);
void gs_offload_layers_free(struct gs_offload_layers *); /* NULL is allowed; the model must still be there */

/* ---- offload_windows.c: the same on a device whose operators work in its own memory alone (cl) ---- */

typedef struct gs_offload_windows gs_offload_windows;
gs_status gs_offload_windows_create(gs_model *, gs_offload_windows **out);
void gs_offload_windows_free(gs_offload_windows *);
