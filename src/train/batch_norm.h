/* --batch-norm: over which samples the layer batch_norm takes mean and variance.
 *
 *     global       all samples of the global batch, of all workers: N workers compute what one would have computed.
 *                  Each such layer makes a small sum over the workers in forward, and another in backward.
 *     local        the samples that a worker computes at once; nothing is sent. So the result depends on the number of
 *                  workers, on --accumulate and on micro-batches of a large batch.
 *     ghost:G      each group of G samples of the global batch, one after the other: nothing is sent, and the result
 *                  does not depend on who computes what. Hoffer, Hubara, Soudry, "Train longer, generalize better:
 *                  closing the generalization gap in large batch training of neural networks" (NeurIPS 2017).
 *
 * Running statistics are the mean over all groups, weighted by their samples. Variances are those of a group, unbiased:
 * with `global` that of the global batch. All workers have the same.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "core/error.h"
#include "core/shape.h"

struct gs_dataset;
struct gs_pass;
struct gs_settings;
struct gs_worker;

typedef enum gs_batch_norm_over {
    GS_BATCH_NORM_GLOBAL,
    GS_BATCH_NORM_LOCAL,
    GS_BATCH_NORM_GHOST
} gs_batch_norm_over;

typedef struct gs_batch_norm_groups {
    gs_batch_norm_over over;
    size_t group; /* of ghost: G, at least 1; else 0 */
} gs_batch_norm_groups;

/* "global", "local", "ghost:16". False: it is none of these. */
bool gs_batch_norm_read(const char *text, gs_batch_norm_groups *out);
/* The other way round; `text` is room for it. */
const char *gs_batch_norm_text(const gs_batch_norm_groups *, char *text, size_t size);

/* Samples of a global batch that are computed together: the groups of --batch-norm ghost:G. */
static inline size_t gs_together(const gs_batch_norm_groups *g) {
    return g->over == GS_BATCH_NORM_GHOST ? g->group : 1;
}

/* GS_E_USAGE: the model has a batch_norm, and its samples are not together as settings->batch_norm needs them. */
gs_status gs_check_batch_norm(const struct gs_settings *, const struct gs_dataset *train_set, int workers);

/* The most samples that a worker computes at once: micro_batch, or what is usual; fewer where samples are large. This
 * follows from the model alone, for any number of workers, since the cut decides the bits of the gradients. Where
 * a layer takes statistics of a batch, the cut decides more than that: there the size of samples does not count, and
 * with statistics of the global batch the limit is higher. `in`: the shape of a sample. */
gs_status gs_largest_micro_batch(const struct gs_settings *, gs_shape in, size_t *most);

/* Do its passes share statistics with other workers, or parts? */
bool gs_batch_norm_is_shared(const struct gs_worker *);

/* What a pass of this worker needs for batch_norm. */
void gs_batch_norm_begin(struct gs_worker *, struct gs_pass *);
