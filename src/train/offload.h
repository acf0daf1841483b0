/* --offload LIST: data that a device does not need all the time is stored elsewhere and fetched just before use: for
 * cpu in files (io/mapped.h), for an OpenCL device in host memory. The bits do not change.
 *
 *     optimizer     the optimiser's vectors for the range that a worker updates, fetched block by block during the
 *                   update (optim/offload.h)
 *     activations   the layers' y, between a layer's forward and its backward (model/offload.h); in a pipeline, the y
 *                   of each micro-batch
 *     weights       a layer's weights, fetched while it computes and while it is updated (model/offload.h)
 *
 * The table in settings.c lists what each kind cannot be combined with.
 */
#pragma once

#include "train/train.h"

enum { GS_OFFLOAD_TEXT = 40 };

/* Read any of "optimizer,activations,weights" in any order, each at most once; or "none". */
bool gs_offload_read(const char *text, unsigned *out);
/* The inverse. Returns `text`. */
const char *gs_offload_text(unsigned offload, char *text, size_t size);

/* Fill in the report, which is all zero without --offload. */
gs_status gs_report_offload(gs_worker *, gs_offload_report *);
