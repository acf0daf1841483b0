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
 *                                      `-----  0..7  --´
 *
 *    With N workers each holds a subtree of 8 / N neighbouring leaves, which it adds alone: two workers hold
 *    0..3 and 4..7, four hold the pairs, eight the leaves. The levels above them are rounds of recursive
 *    doubling: in round k worker r exchanges its sum with worker r xor 2^k, its neighbour in the tree, and
 *    both add the two. a + b and b + a are the same bits, so all workers end with the same sum.
 *
 * A virtual shard may be empty: then it adds zeros in its place. Counts and loss travel in the same array.
 *
 * The price: products of an eighth of the batch, which are slower than larger ones; an addition of all gradients
 * for each leaf but the first; log2 N rounds with the whole array, where a ring sends less than two.
 *
 * Source of recursive doubling: Thakur, Rabenseifner, Gropp, "Optimization of collective communication
 * operations in MPICH" (International Journal of High Performance Computing Applications 19, 2005).
 */
#include "core/clock.h"
#include "train/modes.h"
#include "train/timeline.h"

#include <stdlib.h>
#include <string.h>

struct gs_exact {
    size_t count;     /* floats in the gradient array, counts included */
    float *partial[]; /* [level]: the left sum, while the right one is computed; level 0 joins all; then the
                         sum that comes from a neighbour */
};

enum { LEVELS = 3, ARRIVED = LEVELS, BUFFERS };
_Static_assert(1 << LEVELS == GS_EXACT_SHARDS, "the tree has 2^LEVELS leaves");

gs_status gs_exact_create(gs_worker *w, gs_exact **out) {
    gs_exact *e = calloc(1, sizeof *e + BUFFERS * sizeof *e->partial);
    *out = e;
    if (!e) return gs_fail(GS_E_MEMORY, "no memory for --exact");
    e->count = w->model->params + GS_STATS;
    for (int i = 0; i < BUFFERS; i++)
        if (!(e->partial[i] = malloc(e->count * sizeof(float))))
            return gs_fail(GS_E_MEMORY, "--exact: no memory for %d sums of %zu floats", BUFFERS, e->count);
    return GS_OK;
}

void gs_exact_free(gs_exact *e) {
    for (int i = 0; e && i < BUFFERS; i++) free(e->partial[i]);
    free(e);
}

/* sum += x */
static void add(float *restrict sum, const float *restrict x, size_t count) {
    for (size_t i = 0; i < count; i++) sum[i] += x[i];
}

/* ---- the leaves and subtrees of one worker ---- */

typedef struct tree {
    gs_worker *w;
    size_t batch_first, batch;
} tree;

static gs_status leaf(const tree *t, int shard) {
    return gs_fresh_gradient(t->w, t->batch_first, gs_shard_of(t->batch, shard, GS_EXACT_SHARDS));
}

/* gradients = the sum of `leaves` virtual shards from `first` on */
static gs_status subtree(const tree *t, int first, int leaves, int level) {
    if (leaves == 1) return leaf(t, first);
    const gs_exact *e = t->w->exact;
    gs_device *d = t->w->device;
    gs_mem gradients = t->w->model->gradients;
    void *host;
    GS_TRY(subtree(t, first, leaves / 2, level + 1));
    GS_TRY(d->ops->read(d, e->partial[level], gradients, e->count * sizeof(float)));
    GS_TRY(subtree(t, first + leaves / 2, leaves / 2, level + 1));
    GS_TRY(d->ops->map(d, gradients, e->count * sizeof(float), &host));
    add(host, e->partial[level], e->count);
    GS_TRY(d->ops->unmap(d, gradients, host));
    return gs_phase_ends(t->w, GS_PHASE_SYNC);
}

gs_status gs_exact_gradient(gs_worker *w, size_t batch_first, size_t batch) {
    int leaves = GS_EXACT_SHARDS / w->comm->size;
    return subtree(&(tree){w, batch_first, batch}, w->comm->rank * leaves, leaves, 0);
}

/* ---- the levels above ---- */

static gs_status recursive_doubling(gs_worker *w, float *sum, float *arrived, size_t count) {
    gs_comm *c = w->comm;
    size_t bytes = count * sizeof *sum;
    for (int distance = 1; distance < c->size; distance *= 2) {
        int neighbour = c->rank ^ distance;
        double start = gs_seconds();
        GS_TRY(c->ops->send(c, sum, bytes, neighbour));
        gs_timeline_message(w, GS_ROW_COMPUTE, w->step + 1, false, neighbour, bytes, start);
        start = gs_seconds();
        GS_TRY(c->ops->recv(c, arrived, bytes, neighbour));
        gs_timeline_message(w, GS_ROW_COMPUTE, w->step + 1, true, neighbour, bytes, start);
        add(sum, arrived, count);
    }
    return GS_OK;
}

gs_status gs_exact_sum(gs_worker *w) {
    if (w->comm->size == 1) return GS_OK;
    const gs_exact *e = w->exact;
    void *host;
    GS_TRY(w->device->ops->map(w->device, w->model->gradients, e->count * sizeof(float), &host));
    GS_TRY(recursive_doubling(w, host, e->partial[ARRIVED], e->count));
    return w->device->ops->unmap(w->device, w->model->gradients, host);
}
