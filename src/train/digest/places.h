/* Where in whole arrays the numbers lie that a worker has: of a tensor group (layer/tensor.h) each member records its
 * part of what is divided, at its places in the whole, and the first one what all of them repeat. So the records of a
 * group add up to those of a worker alone. */
#pragma once

#include "model/model.h"
#include "train/digest/numbers.h"

/* An array of a sample, as a layer takes it or gives it. */
typedef struct gs_digest_vector {
    size_t each, whole;       /* its numbers here, and in the whole */
    size_t runs, floats;      /* here: so many runs of neighbours, of so many numbers */
    size_t blocks;            /* of q, k and v: each token's runs are in so many equal parts */
    size_t whole_step, first; /* in the whole: from one run to the next, and where the first begins */
    bool elsewhere;           /* another member of the group records it */
} gs_digest_vector;

/* Of a layer of m, or of a stage or a replica of m: its input, or its output. */
gs_digest_vector gs_digest_vector_of(const gs_model *m, const gs_layer *, bool input);

/* Sample number `sample`. */
void gs_digest_add_vector(gs_numbers *to, const gs_digest_vector *, const float *x, uint64_t sample);

/* count numbers of parameter p of m, from its number `from` on. False: another member of the group records them. */
bool gs_digest_add_param(gs_numbers *to, const gs_model *m, int p, const float *x, size_t from, size_t count);
