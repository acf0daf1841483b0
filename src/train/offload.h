/* --offload LIST: what need not lie in a device's memory all the time lies elsewhere, and is fetched just before it is
 * needed: on cpu in files (io/mapped.h), from an OpenCL device in the host's memory. The bits stay the same.
 *
 *     optimizer     the optimiser's vectors, block by block during the update: those of the range that a worker updates
 *                   (optim/offload.h)
 *     activations   y of the layers, from their forward to their backward (model/offload.h); in a pipeline those of
 *                   each micro-batch
 *     weights       those of a layer, while it computes and while it is updated (there too)
 *
 * What each does not go with is in the table of settings.c.
 */
#pragma once

#include "train/train.h"

enum { GS_OFFLOAD_TEXT = 40 };

/* "optimizer,activations,weights", some of them in any order, each once; "optimiser" too; or "none". */
bool gs_offload_read(const char *text, unsigned *out);
/* The same as text. Returns `text`. */
const char *gs_offload_text(unsigned offload, char *text, size_t size);

/* All zero without --offload. */
gs_status gs_report_offload(gs_worker *, gs_offload_report *);
