/* Lab 13: what you write in lab.c: one training step of one rank, whole.
 *
 *     13.1   my_samples        which samples of this step are mine
 *     13.2   local_gradient    load, forward, loss, backward
 *     13.3   sum               over all ranks, with the counts
 *     13.4   update, plain_step    the update; the four pieces in their order
 *     13.5   release, traffic  hand over the buckets that are final; what that sends
 *     13.6   overlapped_step   sums that run while backward does
 *
 * A rank is a process or thread of its own, and sees nothing of the others but through the sums. Keep nothing in static
 * variables: ranks that are threads would share them.
 */
#pragma once

#include "lab.h"
#include "sync/scheme.h"

/* One step of one rank: all that it knows. What is not const, it may write. */
typedef struct lab_step {
    int rank, ranks;

    /* The data. Step `number` of an epoch, from 0, takes the next `batch` samples of `order`: the global batch. The
     * last step of an epoch takes what is left. All ranks have the same order. */
    const size_t *order; /* samples of them: numbers of samples, each of them once */
    size_t samples, batch, number;

    /* The model. Layers 0 .. layers-1; the parameters of layer l are elements layer[l].first .. + layer[l].count - 1 of
     * these arrays. A layer without parameters (relu) has count 0, and begins where the next one with some does. */
    int layers;
    const gs_chunk *layer;
    size_t params;
    float *weights, *velocity; /* params floats each; the same on all ranks before the step, and after it */
    /* params gradients, and behind them GS_STATS counts: gradients[params + GS_STAT_SAMPLES] are the samples, the
     * others the loss and such. What they hold before the step does not matter. */
    float *gradients;
    float rate, momentum;

    /* The buckets that `gradients` is cut into, counts included (lesson 10). Bucket 0 is the last elements, with the
     * counts; the last bucket begins at element 0. A plain step has one bucket, which is the whole array. */
    int buckets;
    const gs_chunk *bucket;

    struct lab_run *run; /* what carries it out: not yours */
} lab_step;

/* ---- what you write it with. A call fails if it comes at the wrong time, or if a rank was lost; GS_TRY passes that on
 * ---- */

/* Load these samples: the next forward is of them. Once in a step, for at least one sample. */
gs_status lab_load(lab_step *, const size_t *sample, size_t count);

/* Layer l of the model, from layer 0 on. */
gs_status lab_forward(lab_step *, int layer);

/* After the last forward. Writes the counts behind the gradients: of the loaded samples. */
gs_status lab_loss(lab_step *);

/* From the last layer to layer 0. Writes the gradients of this layer: the sum over the loaded samples. */
gs_status lab_backward(lab_step *, int layer);

/* Begin the sum of a bucket over all ranks, and return at once. What the bucket holds now is summed: what is written
 * there later is lost. All ranks begin the buckets in the order 0, 1, 2, ..., or they would wait for each other for
 * ever. */
gs_status lab_sum_begin(lab_step *, int bucket);

/* Wait until the sum of this bucket is there; then `gradients` hold it. */
gs_status lab_sum_wait(lab_step *, int bucket);

/* The functions of the library that you may call too: gs_shard_of (core/shard.h, lesson 5), gs_chunk_of and
 * gs_sync_cost_add (sync/scheme.h, lesson 7). */

/* ---- what you write ---- */

/* 13.1: mine[i] = the samples of this rank in this step, in the order of the epoch; returns how many. The global batch
 * is cut by gs_shard_of. `mine` has room for `batch`. There may be none. */
size_t my_samples(const lab_step *, size_t *mine);

/* 13.2: this rank's gradients and counts: the *sums* over its own samples. If it has none, they are 0, and nothing is
 * loaded or computed. As soon as the gradients of a layer are there, call hook(s, layer), if `hook` is not NULL: for
 * all layers from the last to layer 0, even if this rank has no samples. A failure of it is passed on. */
gs_status local_gradient(lab_step *, gs_status (*hook)(lab_step *, int layer));

/* 13.3: gradients and counts become the sums over all ranks, bucket by bucket. For after backward. */
gs_status sum(lab_step *);

/* 13.4: SGD with momentum, from the summed gradients g and the summed samples n:
 *
 *     velocity = momentum velocity + g / n         weights = weights - rate velocity
 */
void update(lab_step *);

/* 13.4: the whole step, with one sum after backward. If one of its pieces fails, so does the step, and the weights stay
 * as they were. */
gs_status plain_step(lab_step *);

/* 13.5: the gradients of this layer have just become final, and so have those of all later layers. Begin the sums of
 * the buckets that are final now, and were not before. */
gs_status release(lab_step *, int layer);

/* 13.5: the messages and bytes that this rank sends in a step, if a ring sums the buckets, one after the other
 * (cost.rounds too). Each bucket is cut into chunks as in lesson 7: rank r begins with chunk r; after the first half it
 * has the whole chunk r + 1 (modulo ranks). ranks >= 2; looks at rank, ranks, buckets and bucket alone. */
gs_sync_cost traffic(const lab_step *);

/* 13.6: the same step, and the same weights up to rounding. But the sum of each bucket begins as soon as the bucket is
 * final, and nobody waits for a sum while there is still something to compute in backward. */
gs_status overlapped_step(lab_step *);

/* ---- given.c: who carries a step out. Your functions do not need this ---- */

typedef struct lab_run lab_run;
struct lab_run {
    gs_status (*load)(lab_run *, const size_t *sample, size_t count);
    gs_status (*forward)(lab_run *, int layer);
    gs_status (*loss)(lab_run *, float *counts);
    gs_status (*backward)(lab_run *, int layer, float *gradients); /* those of the layer */
    gs_status (*begin)(lab_run *, int bucket, const float *data);  /* data: of the bucket */
    gs_status (*wait)(lab_run *, int bucket, float *data);
    gs_status (*hook)(lab_run *, int layer); /* what the checks of 13.2 hand to local_gradient */
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
