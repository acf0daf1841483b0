/* --exact: the same weights, to the bit, for 1, 2, 4 and 8 workers.
 *
 * Floating-point addition is not associative: (a + b) + c and a + (b + c) round differently. So N workers
 * give the bits of one only if all numbers are added in the same order, whatever N is. Two things fix it:
 *
 * 1. The global batch is cut into 8 virtual shards. The gradient of each is computed alone, by operators that
 *    see the same samples in the same shapes, on one CPU thread (how a product is cut over threads changes
 *    the order of its sums too).
 * 2. The 8 gradients are added in one fixed binary tree (../order.h), whose levels above those of one worker are
 *    rounds of recursive doubling (sync/recursive_doubling.c).
 *
 * A virtual shard may be empty: then it adds zeros in its place. Counts and loss travel in the same array.
 *
 * Linear layers that workers can share (layer/tensor.h) add their longest sums in 8 parts too, in such a tree, whether
 * they are shared or not: so --tensor gives the same bits.
 *
 * batch_norm with statistics of the global batch needs all leaves at once: see lockstep.c.
 *
 * The price: products of an eighth of the batch, which are slower than larger ones; an addition of all gradients
 * for each leaf but the first; log2 N rounds with the whole array, where a ring sends less than two arrays.
 */
#include <string.h>

#include "train/internal.h"
#include "train/order.h"

static gs_status create(gs_worker *w) {
    w->scheme = &gs_sync_recursive_doubling;
    GS_TRY(gs_order_create(w, w->model->saved + GS_STATS));
    return gs_batch_norm_is_shared(w) ? gs_lockstep_create(w) : GS_OK;
}

/* ---- what it goes with ---- */

/* Only where each operator is known to give the same bits. */
static gs_status check(const gs_settings *s, bool chosen) {
    if (!chosen) return GS_OK;
    for (int i = 0; i < gs_devices_count(s->devices); i++) {
        char name[48];
        GS_TRY(gs_devices_name(s->devices, i, name));
        if (strcmp(name, "cpu") != 0)
            return gs_fail(GS_E_USAGE,
                           "--exact: device '%s': only cpu is known to give the same bits for the same "
                           "samples; wanted --devices cpu,...",
                           name);
    }
    if (s->threads > 1)
        return gs_fail(GS_E_USAGE,
                       "--exact: --threads %d: splitting products over threads changes their bits; wanted 1 "
                       "thread per worker",
                       s->threads);
    if (strcmp(s->sync, gs_settings_default().sync) != 0)
        return gs_fail(GS_E_USAGE, "--exact adds in its own order: it does not work with --sync %s", s->sync);
    return GS_OK;
}

const gs_way gs_way_exact = {
    .name = "exact",
    .option = "--exact",
    .no_bucket = "adds in one fixed tree after backward",
    .no_wire =
        "needs values that are not rounded on the way, to give the same bits for any number of workers",
    .check = check,
    .check_workers = gs_exact_check_passes,
    .summary = "gradients summed in one fixed tree",
    .create = create,
    .step = gs_synchronous_step,
    .share = gs_lockstep_share,
};
