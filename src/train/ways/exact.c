/* --exact: the same weights, to the bit, for 1, 2, 4 and 8 workers.
 *
 * Floating-point addition is not associative: (a + b) + c and a + (b + c) round differently. So N workers
 * give the bits of one only if all numbers are added in the same order, whatever N is. Two things fix it:
 *
 * 1. The global batch is cut into 8 virtual shards. The gradient of each is computed alone, by operators that
 *    see the same samples in the same shapes, on one CPU thread (how a product is cut over threads changes
 *    the order of its sums too).
 * 2. The 8 gradients are added in one fixed binary tree:
 *
 *        virtual shard    0     1     2     3     4     5     6     7
 *                          \   /       \   /       \   /       \   /
 *                           0+1         2+3         4+5         6+7
 *                              \       /               \       /
 *                                0..3                    4..7
 *                                     \                 /
 *                                      `-----  0..7  --'
 *
 *    With N workers each holds a subtree of 8 / N neighbouring leaves, which it adds alone: two workers hold
 *    0..3 and 4..7, four hold the pairs, eight the leaves. The levels above them are rounds of recursive
 *    doubling: in round k worker r exchanges its sum with worker r xor 2^k, its neighbour in the tree, and
 *    both add the two. a + b and b + a are the same bits, so all workers end with the same sum.
 *
 * A virtual shard may be empty: then it adds zeros in its place. Counts and loss travel in the same array.
 *
 * Linear layers that workers can share (layer/tensor.h) add their longest sums in 8 parts too, in such a tree, whether
 * they are shared or not: so --tensor gives the same bits.
 *
 * batch_norm with statistics of the global batch needs all leaves at once: lockstep.h.
 *
 * The price: products of an eighth of the batch, which are slower than larger ones; an addition of all gradients
 * for each leaf but the first; log2 N rounds with the whole array, where a ring sends less than two arrays.
 *
 * Source of recursive doubling: Thakur, Rabenseifner, Gropp, "Optimization of collective communication
 * operations in MPICH" (International Journal of High Performance Computing Applications 19, 2005).
 */
#include "comm/split.h"
#include "core/clock.h"
#include "train/internal.h"
#include "train/timeline/timeline.h"
#include "train/ways/lockstep.h"

#include <stdlib.h>
#include <string.h>

typedef struct exact {
    gs_lockstep *together; /* the leaves, where batch_norm takes statistics of the global batch; else NULL */
    size_t count;          /* floats in the gradient array, state and counts included */
    float *partial[]; /* [level]: the left sum, while the right one is computed; level 0 joins all; then the
                         sum that comes from a neighbour */
} exact;

enum { LEVELS = 3, ARRIVED = LEVELS, BUFFERS };
_Static_assert(1 << LEVELS == GS_EXACT_SHARDS, "the tree has 2^LEVELS leaves");

static gs_status create(gs_worker *w) {
    exact *e = w->way_state = calloc(1, sizeof *e + BUFFERS * sizeof *e->partial);
    if (!e) return gs_fail(GS_E_MEMORY, "no memory for --exact");
    e->count = w->model->saved + GS_STATS;
    for (int i = 0; i < BUFFERS; i++)
        if (!(e->partial[i] = gs_host_alloc(w, GS_MEMORY_COMMUNICATION, e->count * sizeof(float))))
            return gs_fail(GS_E_MEMORY, "--exact: no memory for %d sums of %zu floats", BUFFERS, e->count);
    return gs_batch_norm_is_shared(w) ? gs_lockstep_create(w, &e->together) : GS_OK;
}

static void free_sums(gs_worker *w) {
    exact *e = w->way_state;
    if (e) gs_lockstep_free(e->together);
    for (int i = 0; e && i < BUFFERS; i++) free(e->partial[i]);
    free(e);
}

/* sum += x */
static void add(float *restrict sum, const float *restrict x, size_t count) {
    for (size_t i = 0; i < count; i++) sum[i] += x[i];
}

/* ---- the leaves and subtrees of one worker ---- */

/* gradients = the sum of this worker's next `leaves` virtual shards */
static gs_status subtree(gs_worker *w, int leaves, int level) {
    if (leaves == 1) return gs_gradient(w);
    const exact *e = w->way_state;
    gs_device *d = w->device;
    gs_mem gradients = w->model->gradients;
    void *host;
    GS_TRY(subtree(w, leaves / 2, level + 1));
    GS_TRY(d->ops->read(d, e->partial[level], gradients, e->count * sizeof(float)));
    GS_TRY(subtree(w, leaves / 2, level + 1));
    GS_TRY(d->ops->map(d, gradients, e->count * sizeof(float), &host));
    add(host, e->partial[level], e->count);
    GS_TRY(d->ops->unmap(d, gradients, host));
    return gs_phase_ends(w, GS_PHASE_SYNC);
}

/* The same, where they are computed together: leaf += its neighbour at distance 1, 2, 4. */
static gs_status subtree_together(gs_worker *w, int leaves) {
    const exact *e = w->way_state;
    gs_device *d = w->device;
    GS_TRY(gs_lockstep_run(e->together));
    for (int distance = 1; distance < leaves; distance *= 2)
        for (int i = 0; i < leaves; i += 2 * distance) {
            gs_mem left = gs_lockstep_gradients(e->together, i);
            gs_mem right = gs_lockstep_gradients(e->together, i + distance);
            void *host;
            GS_TRY(d->ops->read(d, e->partial[0], right, e->count * sizeof(float)));
            GS_TRY(d->ops->map(d, left, e->count * sizeof(float), &host));
            add(host, e->partial[0], e->count);
            GS_TRY(d->ops->unmap(d, left, host));
        }
    return gs_phase_ends(w, GS_PHASE_SYNC);
}

static gs_status share(void *worker, double *numbers, size_t count) {
    const gs_worker *w = worker;
    const exact *e = w->way_state;
    return gs_lockstep_sum(e->together, numbers, count);
}

/* ---- the levels above ---- */

static gs_status recursive_doubling(gs_worker *w, float *sum, float *arrived, size_t count) {
    gs_comm *c = w->groups.comm[GS_DP];
    size_t bytes = count * sizeof *sum;
    for (int distance = 1; distance < c->size; distance *= 2) {
        int neighbour = c->rank ^ distance;
        const int shown = c == w->comm ? neighbour : gs_comm_rank_in_parent(c, neighbour);
        double start = gs_seconds();
        GS_TRY(gs_comm_send(c, sum, bytes, neighbour));
        gs_timeline_message(w, GS_ROW_COMPUTE, w->step + 1, false, shown, bytes, start);
        start = gs_seconds();
        GS_TRY(gs_comm_recv(c, arrived, bytes, neighbour));
        gs_timeline_message(w, GS_ROW_COMPUTE, w->step + 1, true, shown, bytes, start);
        add(sum, arrived, count);
    }
    return GS_OK;
}

/* gradients = the sum over all workers, by the rest of the tree */
static gs_status sum_over_workers(gs_worker *w) {
    if (w->groups.layout.dp == 1) return GS_OK;
    const exact *e = w->way_state;
    void *host;
    GS_TRY(w->device->ops->map(w->device, w->model->gradients, e->count * sizeof(float), &host));
    GS_TRY(recursive_doubling(w, host, e->partial[ARRIVED], e->count));
    return w->device->ops->unmap(w->device, w->model->gradients, host);
}

static gs_status step(gs_worker *w, gs_score *score) {
    const exact *e = w->way_state;
    const int leaves = GS_EXACT_SHARDS / w->groups.layout.dp;
    GS_TRY(e->together ? subtree_together(w, leaves) : subtree(w, leaves, 0));
    GS_TRY(gs_tell_wish_to_stop(w));
    GS_TRY(sum_over_workers(w));
    GS_TRY(gs_read_score(w, score));
    GS_TRY(gs_phase_ends(w, GS_PHASE_SYNC));

    GS_TRY(gs_update(w, score->samples));
    return gs_phase_ends(w, GS_PHASE_UPDATE);
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

static gs_status check_workers(const gs_settings *s, const gs_dataset *set, int workers) {
    (void)set;
    return gs_exact_check_passes(s, workers);
}

const gs_way gs_way_exact = {
    .name = "exact",
    .option = "--exact",
    .no_bucket = "adds in one fixed tree after backward",
    .no_wire =
        "needs values that are not rounded on the way, to give the same bits for any number of workers",
    .one_thread = true,
    .parts = GS_EXACT_SHARDS,
    .workers = "1, 2, 4 or 8",
    .check = check,
    .check_workers = check_workers,
    .summary = "gradients summed in one fixed tree",
    .promise = "exact    the same bits for 1, 2, 4 and 8 workers on this kind of CPU",
    .own_sums = true,
    .create = create,
    .step = step,
    .share = share,
    .free = free_sums,
};
