/* What a worker holds: which of the model's parameters it keeps, and which it updates. The layout determines this by
 * arithmetic, so each worker can compute what every other one holds (parallel/layout.h numbers the workers).
 *
 *     tensor groups    cut the model's tensors: a worker's model already is its shard (parallel/tensor.h)
 *     pipelines        cut this model's layers: one unit for each run of layers in this worker's stage
 *     ZeRO             cuts each unit among the replicas; with ZeRO 2 and 3 a run has several units, which use the
 *                      same memory one after another
 *
 *     parameters    |  layer 0   | layer 1 |       layer 2        | 3 |
 *     units         |        unit 0        |        unit 1        | 2 |
 *     of 2 workers  |    0    |     1    |r|     0    |     1     |0|1|     r: the rest, which both workers hold
 *
 * Without ZeRO the rest is the whole unit. With ZeRO all workers' parts of a unit have the same size, so a collective
 * can move them. The rest has fewer elements than there are replicas; each replica sums, holds and updates it.
 *
 * With ZeRO 2 and 3 a unit is one or more whole layers of the model's outermost sequence. Small layers are joined in
 * one unit, because fewer units need fewer messages. No unit is larger than the largest layer, which must be whole in
 * memory at some point anyway. With --recompute, however, a unit holds all layers of a segment. In a pipeline stage it
 * holds all layers of a run, because the segments are not known when the units are made. A layer that lends its tensor
 * to another one (gs_layer.lent) is a separate unit, because it is needed for longer.
 */
#pragma once

#include "optim/optimizer.h"

struct gs_worker;

typedef struct gs_partition_unit {
    size_t first, count; /* its parameters, in the model's flat arrays */
    size_t at;           /* their offset in this worker's array, if it holds whole units */
    size_t own, rest;    /* own: count / N, for each of N replicas; rest: the remainder, on all of them */
    size_t own_at;  /* offset of the own part in an array of parts: | own parts of all units | all rests | */
    size_t rest_at; /* offset of the rest in an array of parts; each optimiser vector is such an array */
    int begin, end; /* the layers begin .. end - 1 of the outermost sequence */
    int run;        /* the run to which it belongs */
    bool stays;     /* kept from its first use to its last, in a separate window (train/reducers/zero.h) */
    gs_mem weights, gradients; /* the addresses at which this worker's layers find the whole unit */
} gs_partition_unit;

/* Adjacent layers of a worker: one run for each chunk of a stage; without stages, all layers. */
typedef struct gs_partition_run {
    int begin, end;  /* the layers begin .. end - 1 of the outermost sequence */
    gs_shard params; /* in this worker's array, if it holds whole units */
    /* The layers' running statistics, which all replicas hold. */
    size_t first, count; /* in the model's flat arrays */
    size_t at;           /* in this worker's arrays, if they hold whole units (gs_partition_tail) */
} gs_partition_run;

typedef struct gs_partition {
    int dp_rank;
    int count;
    gs_partition_unit *unit; /* in the order of their parameters */
    size_t own, rest;        /* sums over all units */
    int runs;
    gs_partition_run *run;
    /* The arrays of a worker that holds whole units. In arrays that are cut (with ZeRO 3; gradients also with ZeRO 2),
     * only the worker's parts stand in place of the parameters:
     *
     *     | parameters | a copy of a tied table, in the last stage | state | of gradients: counts |                 */
    size_t params, copied, counts; /* the copy begins at params, the state at copied, the counts at counts */
    const gs_param *copy;      /* the table of a tied layer, in the last of several stages; otherwise NULL */
    gs_mem weights, gradients; /* this worker's arrays; until gs_partition_divide, its model's */
    bool weights_cut, gradients_cut;
    gs_held_shard *part; /* what this worker updates: of each unit, its own part and the rest */
    gs_held update;
} gs_partition;

/* True if this worker updates all parameters, in one piece. (With ZeRO 1 it holds all, but updates only its part.) */
bool gs_updates_all(const struct gs_worker *);

/* True if replicas, or stages, update different parameters. */
bool gs_updates_are_divided(const struct gs_worker *);

/* Like gs_optimizer_end_update, for the state that this worker holds. */
gs_status gs_partition_end_update(struct gs_worker *, double samples);

/* Copy what this worker holds of a unit's weights to its offsets in `unit`, which has room for the whole unit. */
gs_status gs_partition_read(const struct gs_worker *, const gs_partition_unit *, float *unit);

/* The address in `array` of what follows the parameters; `at`: its offset in an array of whole units. */
static inline gs_mem gs_partition_tail(const gs_partition *h, gs_mem array, bool cut, size_t at) {
    return gs_at(array, cut ? at - h->params + h->own + h->rest : at);
}

/* Make the partition of the world's rank `rank`, which must hold the same tensor shards as this worker. Free it even
 * after a failure. GS_E_MEMORY. */
gs_status gs_partition_plan(const struct gs_worker *, int rank, gs_partition *);
void gs_partition_free(gs_partition *);

/* Replace the model's arrays by this worker's: with stages or ZeRO 3 both arrays, with ZeRO 2 only the gradients. A
 * whole array is freed as soon as its parts are copied. GS_E_MEMORY, GS_E_OPENCL. */
gs_status gs_partition_divide(struct gs_worker *);

/* Make the parameters and state of this layer and its children point to their memory in this worker's arrays. */
gs_status gs_partition_bind(const gs_partition *, gs_layer *);

/* Fill worker->partition.update, once the worker's arrays exist. */
gs_status gs_partition_list(struct gs_worker *);

/* *at: the offset of a parameter or state in this worker's arrays of whole units; false: it is not held. */
bool gs_partition_find(const gs_partition *, const gs_param *, size_t *at);

/* Gather vector i of the optimiser. Call this on all workers, between two steps. The first worker receives the vector
 * in `whole`, which is NULL on others. */
gs_status gs_partition_gather(struct gs_worker *, int i, float *whole);
/* Scatter the whole vector: each worker takes its part. */
gs_status gs_partition_scatter(struct gs_worker *, int i, const float *whole);

/* True if each worker holds only a part of the weights, so that all must take part in assembling them. */
static inline bool gs_weights_are_divided(const gs_model *m) {
    return m->weights_apart > 0 || m->undivided;
}

/* Gather the weights and the state of the whole model on all workers, between two steps. With --tensor each worker
 * temporarily allocates an array of m->saved floats, for its tensor shards, and one for the gathered shards of the
 * largest tensor. A dry run passes host NULL: it only counts this additional memory. */
gs_status gs_partition_weights(struct gs_worker *, float *host);
