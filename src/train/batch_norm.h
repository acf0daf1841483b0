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
