/* What a worker holds: which of the model's parameters it keeps, and which it updates. It follows from the layout by
 * arithmetic, so each worker can work out what all others hold (parallel/layout.h says who these are).
 *
 *     tensor groups    cut the model's tensors: a worker's model is its part already (parallel/tensor.h)
 *     pipelines        cut the layers of that model: a unit for each run of layers of this worker's stage
 *     ZeRO             cuts each unit among the replicas; with ZeRO 2 and 3 a run has several units, which take turns
 *                      in memory
 *
 *     parameters    |  layer 0   | layer 1 |       layer 2        | 3 |
 *     units         |        unit 0        |        unit 1        | 2 |
 *     of 2 workers  |    0    |     1    |r|     0    |     1     |0|1|     r: a rest, which both hold
 *
 * Without ZeRO all of a unit is its rest. With it all own parts of a unit have one size, so that a collective can move
 * them; what is left over, fewer numbers than there are replicas, is summed, held and updated by all of them.
 *
 * With ZeRO 2 and 3 a unit is some whole layers of the model's outermost sequence. Small layers are joined, but no unit
 * is larger than the largest layer: that one must be whole in memory at some moment anyway, and fewer units need fewer
 * messages. With --recompute the layers of a segment are in one unit, however large; in a stage, whose segments are not
 * known before it is made, those of a run. A layer that lends its tensor to another one (gs_layer.lent) is a unit by
 * itself, because it is needed for longer.
 */
#pragma once

#include "optim/optimizer.h"

struct gs_worker;

typedef struct gs_partition_unit {
    size_t first, count; /* its parameters, in the model's flat arrays */
    size_t at;           /* where they begin in this worker's array, if that has whole units */
    size_t own, rest;    /* count / N, of each of N replicas; what is left over, of all of them */
    size_t own_at;  /* where the own part is in an array of parts: | own parts of all units | all rests |, */
    size_t rest_at; /* and the rest. Each vector of the optimiser is such an array */
    int begin, end; /* the layers begin .. end - 1 of the outermost sequence */
    int run;        /* which of this worker's runs of layers it is a part of; 0 without stages */
    bool stays;     /* from its first use to its last one; another window holds it (train/reducers/zero.h) */
    gs_mem weights, gradients; /* of this worker: where its layers find them, whole */
} gs_partition_unit;

/* Running statistics of layers, which all replicas have. */
typedef struct gs_partition_state {
    size_t first, count; /* in the model's flat arrays */
    size_t at;           /* in model->weights, and in model->gradients behind those of the parameters */
    int begin, end;      /* it is of the layers begin .. end - 1 of the outermost sequence: a run */
} gs_partition_state;

typedef struct gs_partition {
    int dp_rank;
    int count;
    gs_partition_unit *unit; /* in the order of their parameters */
    size_t own, rest;        /* of all units together */
    int states;
    gs_partition_state *state; /* of a stage one for each of its runs, else one */
    /* The arrays of a worker whose units are whole; where they are cut (ZeRO 3, of gradients also ZeRO 2), its parts
     * are in the place of the parameters:
     *
     *     | parameters | a copy of a tied table, in the last stage | state | of gradients: counts |                 */
    size_t params, copied, counts; /* the copy begins at params, the state at copied, the counts at counts */
    const gs_param *copy;          /* in the last of several stages the table of a tied layer; else NULL */
    /* Of this worker, once they are divided; else those of its model. */
    gs_mem weights, gradients;
    bool weights_cut, gradients_cut;
    gs_held_shard *part; /* what it updates: of each unit its own part, and the rest */
    gs_held update;
} gs_partition;

/* Does this worker update all parameters, in one piece? (With ZeRO 1 it has them all, and updates its part.) */
bool gs_updates_all(const struct gs_worker *);

/* Do replicas, or stages, update different parameters? */
bool gs_updates_are_divided(const struct gs_worker *);

/* As gs_optimizer_end_update, of the state that this worker has. */
gs_status gs_partition_end_update(struct gs_worker *, double samples);

/* The parameters first .. first + count - 1, which are at `at` of an array. */
typedef struct gs_partition_range {
    size_t first, count, at;
} gs_partition_range;

/* What this worker has of a unit in an array. cut: in one of parts, its own part and the rest; else all of it. Returns
 * how many ranges these are. */
int gs_partition_ranges(const gs_partition *, const gs_partition_unit *, bool cut,
                        gs_partition_range range[2]);

/* What this worker has of a unit's weights, to its places in `unit`, which has room for all of it. */
gs_status gs_partition_read(const struct gs_worker *, const gs_partition_unit *, float *unit);

/* What is behind the parameters, at `at` of an array of whole units. */
static inline gs_mem gs_partition_tail(const gs_partition *h, gs_mem array, bool cut, size_t at) {
    return gs_at(array, cut ? at - h->params + h->own + h->rest : at);
}

/* Make the partition of the world's rank `rank`, which has the same part of each tensor as this worker. What is made is
 * to be freed, even after a failure: GS_E_MEMORY. */
gs_status gs_partition_plan(const struct gs_worker *, int rank, gs_partition *);
void gs_partition_free(gs_partition *);

/* The model's arrays become those of this worker: both with stages and with ZeRO 3, the gradients with ZeRO 2. A whole
 * one goes as soon as its parts are kept. GS_E_MEMORY, GS_E_OPENCL. */
gs_status gs_partition_divide(struct gs_worker *);

/* The parameters and the state of these layers find their places in this worker's units. */
gs_status gs_partition_bind(const gs_partition *, gs_layer *);

/* Fill worker->partition.update; the worker's arrays must be there. */
gs_status gs_partition_list(struct gs_worker *);

/* Where a parameter or a state is in arrays of this worker's whole units; false: it does not have that. */
bool gs_partition_find(const gs_partition *, const gs_param *, size_t *at);

/* Vector i of the optimiser, whole. All workers call it, between two steps: the first has it in `whole`, which is NULL
 * on the others. */
gs_status gs_partition_gather(struct gs_worker *, int i, float *whole);
/* Each takes its part of it. */
gs_status gs_partition_scatter(struct gs_worker *, int i, const float *whole);

/* Has each worker a part of the weights alone? Then all take part where they are put together. */
static inline bool gs_weights_are_divided(const gs_model *m) {
    return m->weights_apart > 0 || m->undivided;
}

/* The weights and the state of the whole model, on all workers, between two steps. A dry run has no `host`: it books
 * what this takes beside it. */
gs_status gs_partition_weights(struct gs_worker *, float *host);
