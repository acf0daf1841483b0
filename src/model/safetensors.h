/* Weights in a file: the safetensors format.
 *
 * Format: https://github.com/huggingface/safetensors : u64 little-endian length N; N bytes of JSON {"__metadata__":
 * {...}, "0.weight": {"dtype": "F32", "shape": [...], "data_offsets": [begin, end]}, ...}; the data. Names and shapes
 * are those of PyTorch's Sequential, so the Python package safetensors can load the file into the same network. The
 * metadata hold "model" (its text), "input" ("1x28x28"), "mean" and "std"; the first layer sees x = (byte / 255 - mean)
 * / std. Mean and std are each one number for all channels, or one per channel ("0.49,0.48,0.45"). For a language model
 * the metadata also hold "tokens" ("chars", "bytes" or "bpe"); for chars, "vocabulary" holds all characters in the
 * order of their tokens (data/vocabulary.h); for bpe, "vocabulary" holds all tokens, separated by spaces, and "merges"
 * one merge per line (data/bpe.h). For such models, "input" gives the window length ("64x1x1x1"). */
#pragma once

#include "data/vocabulary.h"
#include "model/model.h"

/* Write all parameters and state (model->saved floats at `host`), completely or not at all. GS_E_FILE. */
gs_status gs_safetensors_save(const char *path, const gs_model *model, const float *host);

/* A run's state in the same file (persist/state_file.h). Readers of weights ignore it. */
enum { GS_EXTRA_MOST = 4, GS_EXTRA_NAME = GS_PARAM_NAME + 64 };

typedef struct gs_written {
    uint64_t bytes;
    char sha256[65]; /* of all bytes written */
} gs_written;

typedef struct gs_extra_tensors {
    const char *about; /* the text stored as "state" in the metadata */
    int count;
    /* Vectors of model->params floats each, in the order of the weights. For each vector and parameter the file holds
     * one tensor: "optimizer.velocity.3.weight", with the same shape as "3.weight". */
    const char *name[GS_EXTRA_MOST]; /* "velocity" */
    float *vector[GS_EXTRA_MOST];
    gs_written *written; /* receives size and hash; may be NULL */
} gs_extra_tensors;

/* gs_safetensors_save with a run's state. */
gs_status gs_safetensors_save_extra(const char *path, const gs_model *model, const float *host,
                                    const gs_extra_tensors *);

/* Read the vectors extra->name[] into extra->vector[]. The model may be a plan. Errors as in gs_safetensors_load; also
 * GS_E_SHAPE: the file holds vectors with other names. */
gs_status gs_safetensors_load_extra(const char *path, const gs_model *model, const gs_extra_tensors *);

/* A file's metadata. */
typedef struct gs_weights_info {
    char *state;               /* gs_extra_tensors.about, or NULL */
    char *model;               /* the model's text; NULL: unknown, as in PyTorch's files */
    gs_shape in;               /* the shape of a sample ... */
    bool has_in;               /* ... if known */
    gs_scaling scaling;        /* GS_NOT_SCALED by default */
    bool has_mean, has_std;    /* present in the file */
    gs_vocabulary *vocabulary; /* of the training text, or NULL */
} gs_weights_info;

/* Limits of mean and std: beyond them, a pixel between 0 and 1 has no effect. A data set's std is at least 8.5e-8. */
#define GS_MEAN_MOST 1e6
#define GS_STD_LEAST 1e-8
#define GS_STD_MOST 1e6

/* Reads only the header. GS_E_FILE; GS_E_FORMAT: a damaged file, mean or std out of range, or a bad vocabulary. Call
 * gs_weights_info_free even after a failure. */
gs_status gs_safetensors_read_info(const char *path, gs_weights_info *);
void gs_weights_info_free(gs_weights_info *);

/* Check the header like gs_safetensors_load; the model may be a plan. Only loading detects a GPT-2 file whose output
 * layer differs from its embedding although the model ties the two. */
gs_status gs_safetensors_check(const char *path, const gs_model *model);

/* Read the parameters and the state of `model` into host[model->saved]. F16 and BF16 become F32, exactly. All names may
 * share a prefix ("model.0.weight"), or be those of other programs (model/names.h). PyTorch's num_batches_tracked is
 * ignored. A longer table of positions (layer/positions.c) is read up to the model's rows. GS_E_FORMAT: truncated,
 * absurd header length, bad JSON, offsets that overlap or lie outside the file, a parameter of another type.
 * GS_E_SHAPE: a tensor is missing, unknown to the model, or of another shape; the message names it and both shapes. */
gs_status gs_safetensors_load(const char *path, const gs_model *model, float *host);
