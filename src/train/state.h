/* The state of a run: what it needs, besides the weights, to resume as if it had never stopped.
 *
 *     step         steps done. The position in the epoch, its order (data/order.h), the learning rate, and the draws of
 *                  dropout and augmentation follow from it: all are functions of the seed and the step
 *     updates      of the optimiser: Adam's t
 *     loss_scale   and `good`, its steps, in f16 (optim/loss_scale.h)
 *     vectors      of the optimiser (optim/optimizer.h): velocity, moments
 *     options      that the run was started with
 *     data         the number of samples and a checksum of the training set
 *
 *     one run  | epoch 1 | epoch 2 | epoch 3 | epoch 4 |
 *     two      | epoch 1 | ep|                               --save-state: weights and state
 *                             |och 2 | epoch 3 | epoch 4 |   --resume: the same bits; with --exact also with another
 *                                                            number of workers
 *
 * A run that has already done all requested steps only tests and saves its weights.
 *
 * With --sync local, a run that ends between two averages adds one, which an uninterrupted run would not make. The file
 * format: persist/state_file.h.
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
    float *vector[GS_OPTIMIZER_VECTORS]; /* on the host, in the optimiser's order; NULL: not read yet */
    size_t params;                       /* floats in each */
    float *weights;                      /* of persist/snapshots.h; else NULL: they are in settings->load */
    struct cJSON *options;               /* {"optimizer": "adam", ...}, as on the command line */
} gs_state;

/* Allocates `count` vectors of `params` floats. GS_E_MEMORY. */
gs_status gs_state_make_vectors(gs_state *, int count, size_t params);
void gs_state_free(gs_state *); /* NULL is allowed */

/* All workers call these. Create allocates a state on rank 0 (NULL on the others), to be freed in any case. Fill copies
 * the worker's state, between two steps. */
gs_status gs_state_create(gs_worker *, gs_state **out);
gs_status gs_state_fill(gs_worker *, gs_state *);
/* Only records the memory that *place will point to (core/ledger.h). gs_state_create calls it. */
gs_status gs_state_book(gs_worker *, gs_state **place);

enum { GS_RUN_HAS_ENDED = 700 }; /* the most bytes of the next `text` */

/* Has the run done all steps that these settings ask for? `text` then says so, and how to continue; size 0: NULL. */
bool gs_state_has_ended(const gs_state *, const gs_settings *, char *text, size_t size);

/* ---- a worker resumes from settings->begin ---- */

/* Before the loader is created: sets the steps done. */
void gs_state_begin(gs_worker *);

/* Writes the vectors to the device, after the warm-up, which changes vectors that are not 0. */
gs_status gs_state_restore(gs_worker *);
