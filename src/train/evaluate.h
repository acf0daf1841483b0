/* Inference: a test without training, and how it cuts a set into blocks. */
#pragma once

#include "core/shard.h"
#include "train/worker.h"

/* The worker's test set, and what gs_eval tells of it: loss, accuracies, speed, and with settings->confusion the matrix
 * and the worst samples. All workers call it. GS_E_DIVERGED: the loss is not a number. */
gs_status gs_evaluate_alone(gs_worker *, gs_result *);

/* Bytes of the outputs of all layers for one sample. */
gs_status gs_output_bytes(const char *model, gs_shape in, double *bytes);

/* `usual` samples, or so many halves of it that each having `bytes` bytes, they have at most `most`; at least 1. */
size_t gs_samples_within(double most, size_t usual, double bytes);

/* How many samples inference handles at once. It follows from the model alone, for any number of
 * workers, since how a set is cut decides the bits of its loss. */
gs_status gs_eval_block(const char *model, gs_shape in, size_t *block);
