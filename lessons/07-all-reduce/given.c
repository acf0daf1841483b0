/* Lab 7, as given: the student's halves become two schemes of the running framework. */
#include "tasks.h"

static gs_status ring_sum(gs_sync *s, float *data, size_t count) {
    GS_TRY(ring_reduce_scatter(s, data, count));
    return ring_all_gather(s, data, count);
}

/* Ranks beyond a power of two send their gradient before, and receive the sum after; meanwhile they only count the
 * rounds (src/sync/fold.c). */
static gs_status halving_doubling_sum(gs_sync *s, float *data, size_t count) {
    gs_fold f = gs_fold_of(s->comm->size, s->comm->rank);
    chunks has = {0, f.places};
    GS_TRY(gs_fold_in(s, &f, data, count));
    if (f.place >= 0) {
        GS_TRY(halving(s, &f, data, count, &has));
        GS_TRY(doubling(s, &f, data, count, has));
    } else {
        for (int round = 0; round < 2 * gs_log2_down(s->comm->size); round++) gs_sync_round(s);
    }
    return gs_fold_out(s, &f, data, count);
}

static gs_sync_scheme ring, halving_doubling;

void lab_install(void) {
    ring = gs_sync_ring;
    ring.what = "lab 7: the ring of lab.c";
    ring.sum = ring_sum;
    ring.cost = ring_cost;
    ring.time = ring_time;
    gs_sync_replace("ring", &ring);

    halving_doubling = gs_sync_halving_doubling;
    halving_doubling.what = "lab 7: halving and doubling of lab.c";
    halving_doubling.sum = halving_doubling_sum;
    gs_sync_replace("halving_doubling", &halving_doubling);
}
