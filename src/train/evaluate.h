/* Inference: a test without training, and the blocks of a set. */
#pragma once

#include "core/shard.h"
#include "train/worker.h"

/* Evaluate the test set for gs_eval: loss, accuracies, speed, and with settings->confusion the matrix and the worst
 * samples. All workers call it. GS_E_DIVERGED: the loss is not finite. */
gs_status gs_evaluate_alone(gs_worker *, gs_result *);

/* Bytes of the outputs of all layers for one sample. */
gs_status gs_output_bytes(const char *model, gs_shape in, double *bytes);

/* `usual` samples, halved until they take at most `most` bytes, at `bytes` each; at least 1. */
size_t gs_samples_within(double most, size_t usual, double bytes);

/* Samples that inference handles at once. The block depends on the model alone, not on the number of workers, since it
 * decides the bits of a set's loss. */
gs_status gs_eval_block(const char *model, gs_shape in, size_t *block);
