/* Weights in a file: the safetensors format.
 *
 * Format: https://github.com/huggingface/safetensors : u64 little-endian length N; N bytes of JSON
 * {"__metadata__": {...}, "0.weight": {"dtype": "F32", "shape": [...], "data_offsets": [begin, end]}, ...};
 * the data. Tensors are named and shaped as PyTorch's Sequential has them, so that Python's safetensors
 * package loads them straight into the same network. The metadata holds "model" (its text), "input"
 * ("1x28x28"), and "mean" and "std": the first layer sees x = (byte / 255 - mean) / std. Both are a number for all
 * channels of an image, or one for each with commas ("0.49,0.48,0.45"). Of a model of text it also holds "tokens"
 * ("chars", "bytes" or "bpe") and, of chars, "vocabulary": all characters, where number i is token i
 * (data/vocabulary.h); of bpe, "vocabulary": all tokens, with spaces between, and "merges": a line for each
 * (data/bpe.h). The length of its windows is in "input" ("64x1x1x1").
 */
#pragma once

#include "data/vocabulary.h"
#include "model/model.h"

/* Write all parameters and state (model->saved floats at `host`), whole or not at all. GS_E_FILE. */
gs_status gs_safetensors_save(const char *path, const gs_model *model, const float *host);

/* What else lies in the same file: the state of a run (persist/state_file.h), which readers of weights pass over. */
enum { GS_EXTRA_MOST = 4, GS_EXTRA_NAME = GS_PARAM_NAME + 64 };

/* A file that was written. */
typedef struct gs_written {
    uint64_t bytes;
    char sha256[65]; /* of all of them, as they were handed to the system */
} gs_written;

typedef struct gs_extra_tensors {
    const char *about; /* "state" in the metadata, a text */
    int count;
    /* Vectors of model->params floats each, in the order of the weights. The file has a tensor for each parameter:
     * "optimizer.velocity.3.weight", shaped as "3.weight". */
    const char *name[GS_EXTRA_MOST]; /* "velocity" */
    float *vector[GS_EXTRA_MOST];
    gs_written *written; /* to be told what was written; NULL: nobody wants to know */
} gs_extra_tensors;

/* gs_safetensors_save, with these. */
gs_status gs_safetensors_save_extra(const char *path, const gs_model *model, const float *host,
                                    const gs_extra_tensors *);

/* Read the vectors extra->name[] into extra->vector[]. The model may be a plan. As
 * gs_safetensors_load; also GS_E_SHAPE: the file has vectors of other names. */
gs_status gs_safetensors_load_extra(const char *path, const gs_model *model, const gs_extra_tensors *);

/* What a file's metadata says. */
typedef struct gs_weights_info {
    char *state;               /* gs_extra_tensors.about; NULL: there is none */
    char *model;               /* its text; NULL: the file does not say, as PyTorch's does not */
    gs_shape in;               /* the shape of one image, ... */
    bool has_in;               /* ... if the file says it */
    gs_scaling scaling;        /* GS_NOT_SCALED where the file does not say ... */
    bool has_mean, has_std;    /* ... whether it does */
    gs_vocabulary *vocabulary; /* of the text that it was trained on; NULL: the file does not say */
} gs_weights_info;

/* The limits of mean and std: beyond them, nothing is left of a pixel, which is between 0 and 1. The smallest std that
 * a data set can have is 8.5e-8. */
#define GS_MEAN_MOST 1e6
#define GS_STD_LEAST 1e-8
#define GS_STD_MOST 1e6

/* Reads only the header. GS_E_FILE; GS_E_FORMAT: a damaged file, a mean or std out of range, or characters or byte
 * pairs that are no vocabulary. Call gs_weights_info_free, even after a failure. */
gs_status gs_safetensors_read_info(const char *path, gs_weights_info *);
void gs_weights_info_free(gs_weights_info *);

/* Would gs_safetensors_load take this file? Only its header is read; the model may be a plan. (Where a GPT-2 has an
 * output layer beside its table, only the load sees whether they differ.) */
gs_status gs_safetensors_check(const char *path, const gs_model *model);

/* Of a table of places (layer/positions.c) the file may have more rows than the model: the first ones are read.
 *
 * Read the parameters and the state of `model` into host[model->saved]. F16 and BF16 become F32, exactly; all names may
 * share a prefix ("model.0.weight"). GS_E_FORMAT: truncated, absurd header length, bad JSON, offsets that
 * overlap or leave the file, a parameter of another type. GS_E_SHAPE: a tensor that is missing, that the model lacks,
 * or whose shape differs from the model's: the message names it and both shapes. A file may have the names of others
 * (model/names.h), and PyTorch's num_batches_tracked, which is not read. */
gs_status gs_safetensors_load(const char *path, const gs_model *model, float *host);
