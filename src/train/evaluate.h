/* Inference: a test without training, and the blocks into which a data set is divided. */
#pragma once

#include "train/worker.h"

/* Evaluate the test set for gs_eval: loss, accuracies, speed, and with settings->confusion also the matrix and the
 * worst samples. Call this on all workers. GS_E_DIVERGED: the loss is not finite. */
gs_status gs_evaluate_alone(gs_worker *, gs_result *);

/* Bytes of the outputs of all layers for one sample. */
gs_status gs_output_bytes(const char *model, gs_shape in, double *bytes);

/* How many samples of `bytes` bytes each fit into `most` bytes: `usual`, halved until they do; at least 1. */
size_t gs_samples_within(double most, size_t usual, double bytes);

/* *block: the number of samples that inference computes at once. It depends only on the model, not on the number of
 * workers, because it affects the bits of a data set's loss. */
gs_status gs_eval_block(const char *model, gs_shape in, size_t *block);
