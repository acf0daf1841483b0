/* The state of a run: what it needs besides the weights to resume as if it had never stopped.
 *
 *     step         number of steps done. The position in the epoch, its order (data/order.h), the learning rate, and
 *                  the draws of dropout and augmentation follow from it: all are functions of the seed and the step
 *     updates      number of the optimiser's updates: Adam's t
 *     loss_scale   and `good`, the number of updates since it last changed; for f16 (optim/loss_scale.h)
 *     vectors      the optimiser's (optim/optimizer.h): velocity, moments
 *     options      those with which the run was started
 *     data         the number of samples in the training set, and its checksum
 *
 *     one run  | epoch 1 | epoch 2 | epoch 3 | epoch 4 |
 *     two      | epoch 1 | ep|                               --save-state: weights and state
 *                             |och 2 | epoch 3 | epoch 4 |   --resume: the same bits; with --exact also with another
 *                                                            number of workers
 *
 * A run that has already done all requested steps is only tested, and its weights saved.
 *
 * With --sync local, a run that ends between two averages makes an extra one, which an uninterrupted run would not
 * make. File format: persist/state_file.h.
 */
#pragma once

#include "train/train.h"

struct cJSON;

typedef struct gs_state {
    uint64_t step, updates;
    float loss_scale; /* 0: the loss is not scaled */
    uint64_t good;
    uint64_t samples; /* in the training set */
    uint32_t data;    /* gs_data_checksum of this set */
    int vectors;
    float *vector[GS_OPTIMIZER_VECTORS]; /* on the host, in the optimiser's order; NULL: not read yet */
    size_t params;                       /* floats in each */
    float *weights;                      /* set by persist/snapshots.c; otherwise NULL: see settings->load */
    struct cJSON *options;               /* {"optimizer": "adam", ...}, as on the command line */
} gs_state;

/* Allocate `count` vectors of `params` floats. GS_E_MEMORY. */
gs_status gs_state_make_vectors(gs_state *, int count, size_t params);
void gs_state_free(gs_state *); /* NULL is allowed */

/* Call these on all workers. gs_state_create allocates a state on rank 0 (NULL on the others), which must be freed even
 * after a failure. gs_state_fill copies the worker's state, between two steps. */
gs_status gs_state_create(gs_worker *, gs_state **out);
gs_status gs_state_fill(gs_worker *, gs_state *);
/* Only record the memory to which *place will point (core/ledger.h). gs_state_create calls this. */
gs_status gs_state_book(gs_worker *, gs_state **place);

enum { GS_RUN_HAS_ENDED = 700 }; /* maximum size of `text` below, in bytes */

/* True if all requested steps are done. If so, `text` says this, and how to continue; it may be NULL if size is 0. */
bool gs_state_has_ended(const gs_state *, const gs_settings *, char *text, size_t size);

/* ---- a worker resumes from settings->begin ---- */

/* Called before the loader is created: sets the number of steps done. */
void gs_state_begin(gs_worker *);

/* Write the vectors to the device. Call this after the warm-up, which changes vectors that are not zero. */
gs_status gs_state_restore(gs_worker *);
