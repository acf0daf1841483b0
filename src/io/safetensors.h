/* Weights in a file: the safetensors format.
 *
 * Format: https://github.com/huggingface/safetensors : u64 little-endian length N; N bytes of JSON
 * {"__metadata__": {...}, "0.weight": {"dtype": "F32", "shape": [...], "data_offsets": [begin, end]}, ...};
 * the data. Tensors are named and shaped as PyTorch's Sequential has them, so that Python's safetensors
 * package loads them straight into the same network. The metadata holds "model" (its text), "input"
 * ("1x28x28"), and "mean" and "std": the first layer sees x = (byte / 255 - mean) / std.
 */
#ifndef GS_IO_SAFETENSORS_H
#define GS_IO_SAFETENSORS_H

#include "model/model.h"

/* Write all parameters (model->params floats at `host`), whole or not at all. GS_E_FILE. */
gs_status gs_safetensors_save(const char *path, const gs_model *model, const float *host);

/* The model text, input shape and scaling in a file's metadata (without "mean" and "std": 0 and 1); *text is
 * to be freed. text NULL: only the scaling is wanted. GS_E_FILE; GS_E_FORMAT for a damaged file or one
 * without a model in its metadata. */
gs_status gs_safetensors_model(const char *path, char **text, gs_shape *in, gs_scaling *scaling);

/* Read the parameters of `model` into host[model->params]. GS_E_FORMAT: truncated, absurd header length, bad
 * JSON, offsets that overlap or leave the file, another dtype than F32. GS_E_SHAPE: a tensor that is missing,
 * too many, or of another shape than the model's: the message names it and both shapes. */
gs_status gs_safetensors_load(const char *path, const gs_model *model, float *host);

#endif
