/* An optimiser: one update of the weights from the summed gradients. Each optimiser is a file with a gs_optimizer_ops
 * table (sgd.c); all other code knows it only by that table.
 *
 *     GS_TRY(gs_optimizer_create(&gs_sgd, model, 0.1f, 0.9f, 0, &optimizer));
 *     ... forward, loss, backward, sum over the workers ...
 *     GS_TRY(gs_optimizer_update(optimizer, samples));
 */
#pragma once

#include "model/model.h"
#include "optim/loss_scale.h"

typedef struct gs_optimizer gs_optimizer;

enum { GS_OPTIMIZER_VECTORS = 4 }; /* maximum per optimiser */

/* The hyperparameters that an optimiser may use. */
typedef struct gs_hyperparameters {
    float lr, momentum, weight_decay, beta1, beta2, epsilon;
} gs_hyperparameters;

/* Parameters first .. first + count - 1, stored outside the model's arrays. */
typedef struct gs_held_shard {
    size_t first, count;
    gs_mem weights, gradients; /* at the first of these parameters */
    size_t vector_at;          /* the shard's offset in each vector */
    bool common;               /* other workers also hold this shard ... */
    bool counted;              /* ... and this worker counts it in sums over the workers */
} gs_held_shard;

/* All shards that a worker holds and updates, if the parameters are divided among workers (train/reducers/zero.h). */
typedef struct gs_held {
    const gs_held_shard *part;
    int parts;
    /* x[i] = the maximum of all workers' x[i] if `largest`, else their sum. */
    gs_status (*reduce)(void *context, int64_t *x, size_t count, bool largest);
    void *context;
} gs_held;

typedef struct gs_optimizer_ops {
    const char *name;  /* "adam", as in --optimizer */
    const char *title; /* "Adam", for people; NULL: the name */
    /* Defaults. Every optimiser uses lr (0 here means 0.05) and weight_decay. It uses the others only if they are not 0
     * here; otherwise their options are rejected. */
    gs_hyperparameters usual;
    double flops, bytes; /* per update and parameter, for the estimates of `gradsum profile` */
    /* The names of its vectors ("velocity"), then NULL. Each vector has model->params floats, initially 0. */
    const char *vector[GS_OPTIMIZER_VECTORS + 1];
    bool momentum_alone;      /* its vectors are only for the momentum: with momentum 0 it has none */
    bool decoupled;           /* the weight decay is a separate step, not part of the gradient */
    bool whole;               /* update takes all parameters at once: it needs the norms of whole tensors */
    bool overwrites_gradient; /* after the update, model->gradients no longer hold the gradient */
    /* Update the parameters first .. first + count - 1; each gradient is scale times the one in model->gradients.
     * Without `whole`, elements are independent. All workers do the same update, so it must give the same bits on all
     * devices. */
    gs_status (*update)(gs_optimizer *, size_t first, size_t count, float scale);
} gs_optimizer_ops;

/* Called before and after each update of parameters first .. first + count - 1; the model's arrays are as `update` sees
 * them. scale: the factor applied to the gradients. Either function may be NULL. */
typedef struct gs_update_watcher {
    void *context;
    gs_status (*before)(void *context, const gs_optimizer *, size_t first, size_t count, float scale);
    gs_status (*after)(void *context, const gs_optimizer *, size_t first, size_t count);
} gs_update_watcher;

struct gs_optimizer {
    const gs_optimizer_ops *ops;
    float lr, momentum, weight_decay; /* lr: for the next update (lr_rule.h) */
    float beta1, beta2, epsilon; /* its defaults, unless the caller sets others before the first update */
    /* The largest allowed norm of the gradient (gs_optimizer_clip). 0, the default: no limit. */
    float clip;
    double norm;              /* with clip: the norm of the last update's gradient, before clipping */
    gs_loss_scale loss_scale; /* for the gradients; its scale is 0 unless the caller sets it */
    double clip_factor;       /* multiplies the gradients of this update: 1, or less if they were too long */
    uint64_t updates;         /* done so far */
    int vectors;              /* the number of vectors; 0 if it needs none */
    size_t held;              /* floats in each vector */
    gs_mem vector[GS_OPTIMIZER_VECTORS];
    /* The vectors if they are outside the device's memory (offload.h), else NULL. */
    struct gs_optimizer_offload *offload;
    const gs_held *divided;           /* during an update of shards, else NULL */
    const gs_held_shard *part;        /* during the update of one shard, else NULL */
    const gs_update_watcher *watcher; /* not owned; may be NULL */
    double *norms;                    /* for `whole`: two for each tensor in model->param, ... */
    int64_t *squares;                 /* ... and three for each */
    gs_model *model;                  /* not owned */
};

/* GS_E_MEMORY or GS_E_OPENCL; if the device offloads vectors, also GS_E_FILE. */
GS_API gs_status gs_optimizer_create(const gs_optimizer_ops *, gs_model *model, float lr, float momentum,
                                     float weight_decay, gs_optimizer **out);
/* The same for a worker that holds only `held` floats of each vector (gs_optimizer_update_held). */
gs_status gs_optimizer_create_held(const gs_optimizer_ops *, gs_model *model, size_t held, float lr,
                                   float momentum, float weight_decay, gs_optimizer **out);
GS_API void gs_optimizer_free(gs_optimizer *); /* NULL is allowed */

/* One update of the weights and the layers' state from model->gradients, the sum over `samples` samples. If clip is not
 * 0, it first clips by the norm of all gradients. With a loss scale, nothing is updated if a gradient is not finite. */
GS_API gs_status gs_optimizer_update(gs_optimizer *, double samples);

/* Clipping by the global norm (optim/norm.h): dw = dw min(1, clip / (norm + 1e-6)), norm = |dw| / samples, applied as a
 * factor in the next update; model->gradients are not changed. sum_norm: |dw|. */
void gs_optimizer_clip(gs_optimizer *, double sum_norm, double samples);

/* For offload.c, block by block: ops->update between the watcher's two calls. */
gs_status gs_optimizer_update_watched(gs_optimizer *, size_t first, size_t count, float scale);

/* gs_optimizer_update for only the parameters first .. first + count - 1, in the order of model->weights. A caller that
 * updates in parts clips before the first part. */
gs_status gs_optimizer_update_part(gs_optimizer *, double samples, size_t first, size_t count);

/* gs_optimizer_update for all of a worker's shards. `update` finds each shard in the model's arrays, from element
 * `first` on; an optimiser with `whole` visits the shards itself (tensors.h). */
gs_status gs_optimizer_update_held(gs_optimizer *, double samples, const gs_held *);

/* After the last part of an update: update the layers' state and count the update. */
gs_status gs_optimizer_end_update(gs_optimizer *, double samples);

/* With a loss scale, call it before the first part of an update. `largest`: gs_squares.largest for all gradients.
 * False: a gradient is not finite; skip the update. */
bool gs_optimizer_may_update(gs_optimizer *, uint32_t largest);

/* The number of vectors an optimiser keeps with this momentum. */
int gs_optimizer_vector_count(const gs_optimizer_ops *, float momentum);

/* Before the first step: an update with rate 0 and gradients of 0. It changes neither the weights nor vectors that are
 * 0, but makes OpenCL compile the kernels. */
gs_status gs_optimizer_warm_up(gs_optimizer *);

/* Map `count` elements of vector i, from `at` on, for the host to read and write until unmap, even if they are
 * offloaded (offload.c). If operators work in place on offloaded memory, the elements stay in memory until unmap. */
gs_status gs_optimizer_map_vector(gs_optimizer *, int i, size_t at, size_t count, float **host);
gs_status gs_optimizer_unmap_vector(gs_optimizer *, int i, size_t at, size_t count, float *host);
/* Copy such elements to `to` or from `from`, on the host; the other pointer is NULL. */
gs_status gs_optimizer_copy_vector(gs_optimizer *, int i, size_t at, size_t count, float *to,
                                   const float *from);

/* Vector i from parameter `first` on; GS_NONE if the optimiser keeps none. */
static inline gs_mem gs_optimizer_vector(const gs_optimizer *o, int i, size_t first) {
    const gs_mem none = {NULL, 0, false}; /* GS_NONE; also valid in C++ */
    return i < o->vectors ? gs_at(o->vector[i], first) : none;
}

/* ---- the optimisers ---- */

/* By name: gs_sgd in sgd.c, and so on (gs_adamw is in adam.c). For a new optimiser, add its name here, its file in this
 * folder, and its operator (backend.h). Options, help, explain and tests follow from its table. */
#define GS_OPTIMIZERS(X) X(sgd) X(nesterov) X(adam) X(adamw) X(lars) X(lamb) X(lion)
#define GS_DECLARE(name) GS_API const gs_optimizer_ops gs_##name;
GS_OPTIMIZERS(GS_DECLARE)
#undef GS_DECLARE

/* All optimisers in this order, NULL-terminated. */
extern const gs_optimizer_ops *const gs_optimizers[];

/* NULL: no optimiser has this name. */
const gs_optimizer_ops *gs_optimizer_named(const char *name);
