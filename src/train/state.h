/* The state of a run: what it needs, beside the weights, to go on as if it had never stopped.
 *
 *     step         steps done, from which follow the place in the epoch, its order (data/order.h), the learning rate,
 *                  and what dropout and augmentation draw: all of them are functions of the seed and the step
 *     updates      of the optimiser: Adam's t
 *     loss_scale   and `good`, its steps, in f16 (optim/loss_scale.h)
 *     vectors      the optimiser's (optim/optimizer.h): velocity, moments
 *     options      those that the run was started with
 *     data         what the training set was: samples and a checksum
 *
 *     one run  | epoch 1 | epoch 2 | epoch 3 | epoch 4 |
 *     two      | epoch 1 | ep|                               --save-state: weights and state
 *                             |och 2 | epoch 3 | epoch 4 |   --resume: the same bits; with another number of workers,
 *                                                            where that gives the same bits too (--exact)
 *
 * A run that has done all that is asked for makes no step: its weights are tested and saved as they are.
 *
 * With --sync local, a run that ends between two averages makes one there, which a run that does not stop would not
 * make. How a state lies in a file: persist/state_file.h.
 */
#pragma once

#include "train/train.h"

struct cJSON;

typedef struct gs_state {
    uint64_t step, updates;
    float loss_scale; /* 0: the loss is not scaled */
    uint64_t good;
    uint64_t samples; /* of the training set */
    uint32_t data;    /* gs_data_checksum of it */
    int vectors;
    float *vector[GS_OPTIMIZER_VECTORS]; /* on the host, as the optimiser has them; NULL: not read yet */
    size_t params;                       /* floats in each */
    float *weights;                      /* with persist/snapshots.h; else NULL: they are in settings->load */
    struct cJSON *options;               /* {"optimizer": "adam", ...}, as they can be typed */
} gs_state;

/* Room for `count` vectors of `params` floats. GS_E_MEMORY. */
gs_status gs_state_make_vectors(gs_state *, int count, size_t params);
void gs_state_free(gs_state *); /* NULL is allowed */

/* Its memory, on rank 0 (else *out is NULL), to be freed in any case; and, between two steps, what the worker has now.
 * All workers call them. */
gs_status gs_state_create(gs_worker *, gs_state **out);
/* Books that memory, which *place will point to, and makes none. gs_state_create does so first. */
gs_status gs_state_book(gs_worker *, gs_state **place);
gs_status gs_state_fill(gs_worker *, gs_state *);

enum { GS_RUN_HAS_ENDED = 700 }; /* bytes of the next sentence, at most */

/* Has it done all steps that these settings want? Then `text` says so, and how to go on; size 0: NULL. */
bool gs_state_has_ended(const gs_state *, const gs_settings *, char *text, size_t size);

/* ---- a worker goes on from settings->begin ---- */

/* Before its loader is made: which steps are done. */
void gs_state_begin(gs_worker *);

/* After the warm-up, which changes vectors that are not 0: write them to the device. */
gs_status gs_state_restore(gs_worker *);
