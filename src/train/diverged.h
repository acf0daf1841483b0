/* Is the loss still a number? GS_E_DIVERGED, or with --keep-going nothing. */
#pragma once

#include "train/worker.h"

/* The loss of step `step` (from 1), as this worker knows it. True if this one or an earlier one is not finite: the run
 * must end. */
bool gs_watch_loss(gs_worker *, double loss, uint64_t step);

/* The first value of so many of the model's parameters and states that is not finite, and the name of the tensor that
 * holds it; NULL: there is none. */
const float *gs_find_bad(const gs_model *, int params, const float *weights, const char **name);

/* Checks what was read from settings->load. Never fails; if the run diverges, the message then blames the file. */
void gs_look_at_loaded(gs_worker *, const float *weights);

/* On any worker: checks the weights that the run ends with. */
gs_status gs_check_weights(const gs_worker *, const float *weights);

/* The same in inference: the loss on the test set, which is the same on all workers, and a worker's logits of samples
 * first .. first + samples - 1. */
gs_status gs_check_inferred_loss(gs_worker *, double loss);
gs_status gs_check_logits(const gs_worker *, const float *logits, size_t first, size_t samples);
