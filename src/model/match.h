/* Which tensor of a safetensors file is which parameter of a model, under its own names or those of others
 * (names.h). */
#pragma once

#include "model/names.h"
#include "model/safetensors_file.h"

/* What all names of a file begin with, such as "model." in "model.0.weight". It ends with a dot and is `length` bytes
 * long; 0: nothing. */
typedef struct gs_prefix {
    const char *text;
    size_t length;
} gs_prefix;

typedef struct gs_match {
    const gs_tensor_file *file;
    const gs_model *model;
    gs_name *name; /* of each parameter */
    gs_prefix before;
} gs_match;

/* Finds out which names the file has. free(m->name) afterwards, even after a failure. GS_E_MEMORY. */
gs_status gs_match_begin(gs_match *m, const gs_tensor_file *, const gs_model *);

/* Are the file's tensors exactly the model's? GS_E_SHAPE, GS_E_FORMAT: the message names the first that does not
 * fit. */
gs_status gs_match_check(const gs_match *);

/* The tensor of this name, which is without the prefix; NULL: there is none. A tied table may have the output layer's
 * name alone. */
const gs_tensor *gs_match_find(const gs_match *, const char *name);

/* For a model whose output layer is tied: the tensor of the output layer that a GPT-2 file of Hugging Face may have
 * too. It must be equal to the embedding's table, the model's first tensor. NULL: the file has none, as is usual. */
const gs_tensor *gs_match_tied_output(const gs_match *);

/* The shape that a parameter has in a file. */
void gs_match_dims(const gs_param *, bool transposed, int dims[4]);
/* The same as text: "(32,1,3,3)". */
void gs_match_shape(const gs_param *, bool transposed, char *text, size_t size);
