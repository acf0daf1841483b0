/* Detects non-finite losses and weights, and reports GS_E_DIVERGED, except with --keep-going (diverged.c). */
#pragma once

#include "train/worker.h"

/* Record the loss of step `step` (from 1), as this worker sees it. True if this loss or an earlier one is not finite,
 * so that the run must end. */
bool gs_watch_loss(gs_worker *, double loss, uint64_t step);

/* The first non-finite value in the model's first `params` parameters and states; *name: its tensor. NULL: none. */
const float *gs_find_bad(const gs_model *, int params, const float *weights, const char **name);

/* Check the weights read from settings->load. Never fails, but records bad values for a later message. */
void gs_look_at_loaded(gs_worker *, const float *weights);

/* Check the final weights of a run, on any worker. */
gs_status gs_check_weights(const gs_worker *, const float *weights);

/* For inference: check the loss on the test set, which is the same on all workers, and one worker's logits of samples
 * first .. first + samples - 1. */
gs_status gs_check_inferred_loss(gs_worker *, double loss);
gs_status gs_check_logits(const gs_worker *, const float *logits, size_t first, size_t samples);
