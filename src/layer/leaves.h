/* --exact: what is summed over samples is summed leaf by leaf, in the order of the tree in train/ordered_sums.h.
 *
 * Except in batch_norm, no sample's y or dx depends on which samples are computed with it, so a pass computes all its
 * leaves at once. Only sums over samples depend on the cut: gradients, the loss and its counts, batch_norm's sums. A
 * layer with parameters therefore runs backward once for each leaf, unless its operator adds the leaves (sums_leaves):
 *
 *     x, dy, dx   | leaf 0 | leaf 1 | leaf 2 | leaf 3 |       dw = (dw_0 + dw_1) + (dw_2 + dw_3)
 *
 * For these calls the layer's x, y and dx are moved to the leaf's samples, and its dw to memory for the leaf's sum.
 * What a layer itself keeps for each sample, it finds from sample gs_pass.from on. */
#pragma once

#include "layer/layer.h"

/* Allocate memory for the sums over up to `leaves` leaves. Call it once, for a bound net; gs_layer_free frees it. */
gs_status gs_layer_make_leaves(gs_layer *root, int leaves);

static inline int gs_leaf_count(const gs_pass *pass) {
    return pass->leaves.count > 1 ? pass->leaves.count : 1;
}

/* The leaves, for an operator that sums them itself (gs_epilogue); NULL: there are none. */
static inline const gs_leaves *gs_leaves_in(const gs_pass *pass) {
    return pass->leaves.count > 1 ? &pass->leaves : NULL;
}

/* The pass over the samples of leaf k; without leaves the pass itself. */
gs_pass gs_leaf_of(const gs_pass *, int k);

/* forward or backward of gs_layer_ops, or a part of it */
typedef gs_status (*gs_leaf_function)(gs_layer *, const gs_pass *, gs_mem in, gs_mem *out);

/* What the calls sum: nothing; the dw of the layer's state, in forward; or its dw, in backward. */
typedef enum gs_leaf_call { GS_LEAF_NO_SUMS, GS_LEAF_STATE, GS_LEAF_GRADIENTS } gs_leaf_call;

/* Call `function` for each leaf that has samples, and sum what it writes to dw. Without leaves: call it once. */
gs_status gs_layer_leaf_by_leaf(gs_layer *, const gs_pass *, gs_leaf_call, gs_mem in, gs_mem *out,
                                gs_leaf_function function);
