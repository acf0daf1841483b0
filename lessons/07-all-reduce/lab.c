/* Lab 7: all-reduce. See README.md, and tasks.h for what each function must do. */
#include "tasks.h"

/* ---- the ring ---- */

gs_status ring_reduce_scatter(gs_sync *s, float *data, size_t count) {
    int ranks = s->comm->size, me = s->comm->rank;
    int right = (me + 1) % ranks, left = (me + ranks - 1) % ranks;
    /* task 7.1: N - 1 rounds. In the first, send chunk `me` to the right, and add the chunk from the left to your own.
     * Which chunk is that? In each later round send the chunk that you have just added to. */
    (void)right, (void)left, (void)data, (void)count;
    return lab_blank("7.1");
    /* end of task 7.1 */
}

gs_status ring_all_gather(gs_sync *s, float *data, size_t count) {
    int ranks = s->comm->size, me = s->comm->rank;
    int right = (me + 1) % ranks, left = (me + ranks - 1) % ranks;
    /* task 7.2: N - 1 rounds. In the first, send the chunk that is complete here; in each later round, the chunk that
     * has just arrived. */
    (void)right, (void)left, (void)data, (void)count;
    return lab_blank("7.2");
    /* end of task 7.2 */
}

gs_sync_cost ring_cost(int ranks, int rank, const gs_sync_array *a) {
    gs_sync_cost cost = {0};
    /* task 7.3: cost.rounds, then gs_sync_cost_add for each chunk that this rank sends. Which chunk does it not send in
     * the first half, and which in the second? */
    (void)ranks, (void)rank, (void)a;
    lab_blank("7.3 (ring_cost)");
    return cost;
    /* end of task 7.3 */
}

double ring_time(int ranks, double bytes, const gs_sync_model *m) {
    /* task 7.3: all rounds send; only one half adds. */
    (void)ranks, (void)bytes, (void)m;
    lab_blank("7.3 (ring_time)");
    return 0;
    /* end of task 7.3 */
}

/* ---- halving and doubling ---- */

gs_status halving(gs_sync *s, const gs_fold *f, float *data, size_t count, chunks *has) {
    /* task 7.4: for distance = 1, 2, 4, ... below f->places: the partner's place is f->place ^ distance, its rank
     * gs_fold_rank(f, that). Halve *has: keep one half, send the other, and add what arrives. */
    (void)s, (void)f, (void)data, (void)count, (void)has;
    return lab_blank("7.4");
    /* end of task 7.4 */
}

gs_status doubling(gs_sync *s, const gs_fold *f, float *data, size_t count, chunks has) {
    /* task 7.5: for distance = places/2, ..., 2, 1: send what you hold, receive what the partner holds. It holds as
     * many chunks as you, just behind or just before yours. Which of both, if your place has a 0 bit at this
     * distance? */
    (void)s, (void)f, (void)data, (void)count, (void)has;
    return lab_blank("7.5");
    /* end of task 7.5 */
}
