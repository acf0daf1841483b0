/* --batch-norm: the samples over which a batch_norm layer computes mean and variance.
 *
 *     global       all samples of the global batch, on all workers: N workers compute what one would. Each such layer
 *                  performs a small sum over the workers in forward, and another one in backward.
 *     local        the samples that a worker computes at once; nothing is sent. The result depends on the number of
 *                  workers, on --accumulate, and on the micro-batches into which a large batch is cut.
 *     ghost:G      each group of G neighbouring samples of the global batch; nothing is sent, and the result does not
 *                  depend on which worker computes which group. Hoffer, Hubara, Soudry, "Train longer, generalize
 *                  better: closing the generalization gap in large batch training of neural networks" (NeurIPS 2017).
 *
 * Running statistics are means over all groups, weighted by their numbers of samples, and equal on all workers. Each
 * group contributes its unbiased variance; with `global` the global batch is the only group.
 */
#pragma once

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
    size_t group; /* G for ghost, at least 1; otherwise 0 */
} gs_batch_norm_groups;

/* Read "global", "local" or "ghost:G". False: the text is none of these. */
bool gs_batch_norm_read(const char *text, gs_batch_norm_groups *out);
/* The inverse; `text` is a buffer for the result. */
const char *gs_batch_norm_text(const gs_batch_norm_groups *, char *text, size_t size);

/* How many neighbouring samples of a global batch must be computed together: G of --batch-norm ghost:G, or 1. */
static inline size_t gs_together(const gs_batch_norm_groups *g) {
    return g->over == GS_BATCH_NORM_GHOST ? g->group : 1;
}

/* *has: whether a layer of the model depends on the batch. */
gs_status gs_has_batch_norm(const struct gs_settings *, gs_shape in, bool *has);

/* GS_E_USAGE: the model has a batch_norm whose samples are not computed together as settings->batch_norm requires. */
gs_status gs_check_batch_norm(const struct gs_settings *, const struct gs_dataset *train_set, int workers);

/* *most: the maximum number of samples that a worker computes at once: micro_batch, or a default, which is smaller for
 * large samples. The default depends only on the model, not on the number of workers, because a different cut changes
 * the bits of the gradients. If a layer computes batch statistics, the cut changes more than bits. The size of samples
 * is then ignored, and for statistics of the global batch the limit is higher. `in`: the shape of a sample. */
gs_status gs_largest_micro_batch(const struct gs_settings *, gs_shape in, size_t *most);

/* True if this worker's passes share statistics with other workers, or with its other virtual shards. */
bool gs_batch_norm_is_shared(const struct gs_worker *);

/* Prepare a pass of this worker for batch_norm. */
void gs_batch_norm_begin(struct gs_worker *, struct gs_pass *);
