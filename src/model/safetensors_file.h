/* A safetensors file that is open to be read: its header, checked (safetensors.h says what the format is). */
#pragma once

#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdio.h>
#include "core/error.h"

#define GS_STATE_KEY "state"          /* in the metadata: without it, all tensors are weights */
#define GS_BESIDE_PREFIX "optimizer." /* of the names of those that are not */

/* "optimizer.velocity.3.weight"; `name` has GS_BESIDE_NAME bytes (safetensors.h). */
void gs_beside_name(const char *vector, const char *parameter, char *name);

/* How a tensor's numbers are written. */
typedef enum gs_tensor_type { GS_TENSOR_F32, GS_TENSOR_F16, GS_TENSOR_BF16, GS_TENSOR_OTHER } gs_tensor_type;

/* A tensor as the header describes it, checked against the file's size but not yet against a model. */
typedef struct gs_tensor {
    const char *name;
    const cJSON *shape;
    gs_tensor_type type;
    const char *dtype;   /* its name in the file; GS_TENSOR_OTHER is one that cannot be read */
    uint64_t begin, end; /* bytes from the start of the data */
} gs_tensor;

typedef struct gs_tensor_file {
    const char *path;
    FILE *file;
    uint64_t data_at, data_bytes;
    cJSON *header;
    const cJSON *metadata; /* NULL: none */
    gs_tensor *tensors;    /* the weights, in the order of their data */
    size_t count;
    gs_tensor *beside; /* then what lies beside them (gs_beside) */
    size_t besides;
} gs_tensor_file;

/* GS_E_FILE, GS_E_MEMORY, GS_E_FORMAT. Close the file even after a failure. */
gs_status gs_tensor_file_open(const char *path, gs_tensor_file *);
void gs_tensor_file_close(gs_tensor_file *);

/* The next `bytes` bytes. */
gs_status gs_tensor_file_read(gs_tensor_file *, void *data, size_t bytes);

/* "(32,1,3,3)", in `text`. */
const char *gs_tensor_shape(const cJSON *shape, char *text, size_t size);
