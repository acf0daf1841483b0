/* Lab 7: all-reduce. See README.md, and tasks.h for what each function must do.
 *
 * The library has schemes of these names too, in src/sync/. They are complete, and the place to look when you have
 * written yours. This file's take their place in build/lessons/07/gradsum.
 */
#include "tasks.h"

/* ---- the ring ---- */

gs_status ring_reduce_scatter(gs_sync *s, float *data, size_t count) {
    int ranks = s->comm->size, me = s->comm->rank;
    int right = (me + 1) % ranks, left = (me + ranks - 1) % ranks;
    /* task 7.1: N - 1 rounds. In the first, send chunk `me` to the right, and add the chunk that comes from the
     * left to your own. Which chunk is that? In each later round pass on the chunk that you have just added to. */
    (void)right, (void)left, (void)data, (void)count;
    return lab_blank("7.1");
    /* end of task 7.1 */
}

gs_status ring_all_gather(gs_sync *s, float *data, size_t count) {
    int ranks = s->comm->size, me = s->comm->rank;
    int right = (me + 1) % ranks, left = (me + ranks - 1) % ranks;
    /* task 7.2: N - 1 rounds. In the first, send the chunk that is complete here; in each later one, the one that has
     * just come in. */
    (void)right, (void)left, (void)data, (void)count;
    return lab_blank("7.2");
    /* end of task 7.2 */
}

gs_sync_cost ring_cost(int ranks, int rank, const gs_sync_array *a) {
    gs_sync_cost cost = {0};
    /* task 7.3: cost.rounds, then gs_sync_cost_add for each chunk that this rank sends. Which chunk does it not send in
     * the first half, which not in the second? */
    (void)ranks, (void)rank, (void)a;
    lab_blank("7.3 (ring_cost)");
    return cost;
    /* end of task 7.3 */
}

double ring_time(int ranks, double bytes, const gs_sync_model *m) {
    /* task 7.3: all rounds send, and the rounds of one half add. */
    (void)ranks, (void)bytes, (void)m;
    lab_blank("7.3 (ring_time)");
    return 0;
    /* end of task 7.3 */
}

/* ---- halving and doubling ---- */

gs_status halving(gs_sync *s, const gs_fold *f, float *data, size_t count, chunks *has) {
    /* task 7.4: for distance = 1, 2, 4, ... below f->places: the partner's place is f->place ^ distance, its rank
     * gs_fold_rank(f, that). Cut *has in the middle: keep one half, send the other, and add what comes in. */
    (void)s, (void)f, (void)data, (void)count, (void)has;
    return lab_blank("7.4");
    /* end of task 7.4 */
}

gs_status doubling(gs_sync *s, const gs_fold *f, float *data, size_t count, chunks has) {
    /* task 7.5: for distance = places/2, ..., 2, 1: send what you have, receive what the partner has. It has as many
     * chunks as you: those just behind yours, or just before them. Which, if your place has a 0 at this distance? */
    (void)s, (void)f, (void)data, (void)count, (void)has;
    return lab_blank("7.5");
    /* end of task 7.5 */
}
