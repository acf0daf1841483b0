/* The tasks of lesson 13, for lab.c: a whole training step of one rank.
 *
 *     13.1   my_samples            which samples of this step are mine
 *     13.2   local_gradient        load, forward, loss, backward
 *     13.3   sum                   over all ranks, with the counts
 *     13.4   update, plain_step    the update; the four pieces in order
 *     13.5   release, traffic      begin the sums of final buckets; messages and bytes
 *     13.6   overlapped_step       sums during backward
 *
 * Each rank is a process or a thread, and sees only the sums of the others. Keep nothing in static variables: ranks
 * that are threads would share them. */
#pragma once

#include "lab.h"
#include "sync/scheme.h"

/* One step of one rank. You may write the arrays that are not const. */
typedef struct lab_step {
    int rank, ranks;

    /* The data. Step `number` of an epoch, from 0, takes the next `batch` samples of `order`: the global batch. The
     * last step of an epoch takes the rest. All ranks have the same order. */
    const size_t *order; /* the numbers of all `samples` samples, each once */
    size_t samples, batch, number;

    /* The model. Layers 0 .. layers-1; the parameters of layer l are elements layer[l].first .. + layer[l].count - 1 of
     * these arrays. A layer without parameters (relu) has count 0, and begins where the next layer with some does. */
    int layers;
    const gs_chunk *layer;
    size_t params;
    float *weights, *velocity; /* params floats each; equal on all ranks before the step and after it */
    /* params gradients, and behind them GS_STATS counts: gradients[params + GS_STAT_SAMPLES] is the number of samples,
     * the others are the loss and such. They hold anything before the step. */
    float *gradients;
    float rate, momentum;

    /* The buckets of `gradients`, counts included (lesson 10). Bucket 0 is the end of the array, with the counts; the
     * last bucket begins at element 0. A plain step has one bucket, the whole array. */
    int buckets;
    const gs_chunk *bucket;

    struct lab_run *run; /* for given.c and the checks */
} lab_step;

/* ---- calls for your functions. A call at the wrong time fails, and so does one after the loss of a rank; GS_TRY
 * passes the failure on ---- */

/* Load these samples for forward. Once in a step, with at least one sample. */
gs_status lab_load(lab_step *, const size_t *sample, size_t count);

/* A layer of the model, from layer 0 on. */
gs_status lab_forward(lab_step *, int layer);

/* After the last forward. Writes the counts of the loaded samples behind the gradients. */
gs_status lab_loss(lab_step *);

/* From the last layer to layer 0. Writes the gradients of this layer: the sum over the loaded samples. */
gs_status lab_backward(lab_step *, int layer);

/* Begin the sum of a bucket over all ranks, and return at once. The sum takes the numbers that the bucket holds now:
 * later writes are lost. All ranks begin the buckets in the order 0, 1, 2, ...; otherwise they wait forever. */
gs_status lab_sum_begin(lab_step *, int bucket);

/* Block until the sum of this bucket is complete; then `gradients` hold it. */
gs_status lab_sum_wait(lab_step *, int bucket);

/* You may also call gs_shard_of (core/shard.h, lesson 5), gs_chunk_of and gs_sync_cost_add (sync/scheme.h, lesson 7).
 */

/* ---- what you write ---- */

/* 13.1: mine[i] = the samples of this rank in this step, in the order of the epoch; returns how many, maybe 0.
 * gs_shard_of splits the global batch. `mine` has room for `batch`. */
size_t my_samples(const lab_step *, size_t *mine);

/* 13.2: this rank's gradients and counts: the *sums* over its own samples. Without samples they are 0, and nothing is
 * loaded or computed. As soon as the gradients of a layer are final, call hook(s, layer), if `hook` is not NULL: for
 * all layers from the last to layer 0, even without samples. Pass its failure on. */
gs_status local_gradient(lab_step *, gs_status (*hook)(lab_step *, int layer));

/* 13.3, after backward: gradients and counts become the sums over all ranks, bucket by bucket. */
gs_status sum(lab_step *);

/* 13.4: SGD with momentum, from the summed gradients g and the summed samples n:
 *
 *     velocity = momentum velocity + g / n         weights = weights - rate velocity
 */
void update(lab_step *);

/* 13.4: the whole step, with one sum after backward. If a piece fails, the step fails and leaves the weights unchanged.
 */
gs_status plain_step(lab_step *);

/* 13.5: the gradients of this layer have just become final; those of all later layers are final already. Begin the sums
 * of the buckets that became final with this layer. */
gs_status release(lab_step *, int layer);

/* 13.5: the rounds, messages and bytes of this rank in a step, if a ring sums the buckets sequentially. Each bucket is
 * cut into chunks as in lesson 7: rank r begins with chunk r; after the first half it has the whole chunk r + 1 (modulo
 * ranks). ranks >= 2; reads only rank, ranks, buckets and bucket. */
gs_sync_cost traffic(const lab_step *);

/* 13.6: the step with overlap, and equal weights up to rounding. The sum of each bucket begins as soon as the bucket is
 * final, and the rank waits for no sum before the end of backward. */
gs_status overlapped_step(lab_step *);

/* ---- for given.c and the checks: the functions that execute a step ---- */

typedef struct lab_run lab_run;
struct lab_run {
    gs_status (*load)(lab_run *, const size_t *sample, size_t count);
    gs_status (*forward)(lab_run *, int layer);
    gs_status (*loss)(lab_run *, float *counts);
    gs_status (*backward)(lab_run *, int layer, float *gradients); /* those of the layer */
    gs_status (*begin)(lab_run *, int bucket, const float *data);  /* data: of the bucket */
    gs_status (*wait)(lab_run *, int bucket, float *data);
    gs_status (*hook)(lab_run *, int layer); /* of the checks of 13.2 */
};

static inline gs_status lab_check_layer(const lab_step *s, int layer) {
    if (layer >= 0 && layer < s->layers) return GS_OK;
    return gs_fail(GS_E_USAGE, "layer %d: there are layers 0 to %d", layer, s->layers - 1);
}

static inline gs_status lab_check_bucket(const lab_step *s, int bucket) {
    if (bucket >= 0 && bucket < s->buckets) return GS_OK;
    return gs_fail(GS_E_USAGE, "bucket %d: there are buckets 0 to %d", bucket, s->buckets - 1);
}

/* Calls run->hook: for checks. */
gs_status lab_hook(lab_step *, int layer);
