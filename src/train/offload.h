/* --offload LIST: data that a device does not need all the time is stored elsewhere and fetched just before use: on cpu
 * in files (io/mapped.h), from an OpenCL device in the host's memory. The bits stay the same.
 *
 *     optimizer     the optimiser's vectors for the range that a worker updates, fetched block by block during the
 *                   update (optim/offload.h)
 *     activations   y of the layers, between their forward and their backward (model/offload.h); in a pipeline those of
 *                   each micro-batch
 *     weights       those of a layer are fetched while it computes and while it is updated (model/offload.h)
 *
 * The table of settings.c lists what each cannot be combined with.
 */
#pragma once

#include "train/train.h"

enum { GS_OFFLOAD_TEXT = 40 };

/* Read some of "optimizer,activations,weights" in any order, each once; or "none". */
bool gs_offload_read(const char *text, unsigned *out);
/* The inverse. Returns `text`. */
const char *gs_offload_text(unsigned offload, char *text, size_t size);

/* All zero without --offload. */
gs_status gs_report_offload(gs_worker *, gs_offload_report *);
