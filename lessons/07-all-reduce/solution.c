/* Lab 7: all-reduce. See README.md, and tasks.h for what each function must do. */
#include "tasks.h"

/* ---- the ring ---- */

gs_status ring_reduce_scatter(gs_sync *s, float *data, size_t count) {
    int ranks = s->comm->size, me = s->comm->rank;
    int right = (me + 1) % ranks, left = (me + ranks - 1) % ranks;
    /* task 7.1: N - 1 rounds. In the first, send chunk `me` to the right, and add the chunk from the left to your own.
     * Which chunk is that? In each later round send the chunk that you have just added to. */
    for (int k = 0; k < ranks - 1; k++) {
        gs_sync_round(s);
        GS_TRY(gs_sync_send(s, data, gs_chunk_of(count, ranks, me - k), right));
        GS_TRY(gs_sync_recv_add(s, data, gs_chunk_of(count, ranks, me - k - 1), left));
    }
    return GS_OK;
    /* end of task 7.1 */
}

gs_status ring_all_gather(gs_sync *s, float *data, size_t count) {
    int ranks = s->comm->size, me = s->comm->rank;
    int right = (me + 1) % ranks, left = (me + ranks - 1) % ranks;
    /* task 7.2: N - 1 rounds. In the first, send the chunk that is complete here; in each later round, the chunk that
     * has just arrived. */
    for (int k = 0; k < ranks - 1; k++) {
        gs_sync_round(s);
        GS_TRY(gs_sync_send(s, data, gs_chunk_of(count, ranks, me + 1 - k), right));
        GS_TRY(gs_sync_recv(s, data, gs_chunk_of(count, ranks, me - k), left));
    }
    return GS_OK;
    /* end of task 7.2 */
}

gs_sync_cost ring_cost(int ranks, int rank, const gs_sync_array *a) {
    gs_sync_cost cost = {0};
    /* task 7.3: cost.rounds, then gs_sync_cost_add for each chunk that this rank sends. Which chunk does it not send in
     * the first half, and which in the second? */
    cost.rounds = 2 * ((size_t)ranks - 1);
    for (int other = 1; other < ranks; other++) {
        gs_sync_cost_add(&cost, a, gs_chunk_of(a->count, ranks, rank + 1 + other));
        gs_sync_cost_add(&cost, a, gs_chunk_of(a->count, ranks, rank + 2 + other));
    }
    return cost;
    /* end of task 7.3 */
}

double ring_time(int ranks, double bytes, const gs_sync_model *m) {
    /* task 7.3: all rounds send; only one half adds. */
    double chunk = bytes / ranks;
    return 2 * (ranks - 1) * (m->alpha + m->beta * chunk) + (ranks - 1) * m->gamma * chunk;
    /* end of task 7.3 */
}

/* ---- halving and doubling ---- */

gs_status halving(gs_sync *s, const gs_fold *f, float *data, size_t count, chunks *has) {
    /* task 7.4: for distance = 1, 2, 4, ... below f->places: the partner's place is f->place ^ distance, its rank
     * gs_fold_rank(f, that). Halve *has: keep one half, send the other, and add what arrives. */
    for (int distance = 1; distance < f->places; distance *= 2) {
        int partner = gs_fold_rank(f, f->place ^ distance), middle = (has->first + has->last) / 2;
        chunks low = {has->first, middle}, high = {middle, has->last};
        chunks keep = f->place & distance ? high : low, give = f->place & distance ? low : high;
        gs_sync_round(s);
        GS_TRY(gs_sync_send(s, data, gs_chunk_range(count, f->places, give.first, give.last), partner));
        GS_TRY(gs_sync_recv_add(s, data, gs_chunk_range(count, f->places, keep.first, keep.last), partner));
        *has = keep;
    }
    return GS_OK;
    /* end of task 7.4 */
}

gs_status doubling(gs_sync *s, const gs_fold *f, float *data, size_t count, chunks has) {
    /* task 7.5: for distance = places/2, ..., 2, 1: send what you hold, receive what the partner holds. It holds as
     * many chunks as you, just behind or just before yours. Which of both, if your place has a 0 bit at this
     * distance? */
    for (int distance = f->places / 2; distance > 0; distance /= 2) {
        int partner = gs_fold_rank(f, f->place ^ distance), n = has.last - has.first;
        chunks comes = {has.last, has.last + n};
        if (f->place & distance) comes = (chunks){has.first - n, has.first};
        gs_sync_round(s);
        GS_TRY(gs_sync_send(s, data, gs_chunk_range(count, f->places, has.first, has.last), partner));
        GS_TRY(gs_sync_recv(s, data, gs_chunk_range(count, f->places, comes.first, comes.last), partner));
        has = (chunks){has.first < comes.first ? has.first : comes.first,
                       has.last > comes.last ? has.last : comes.last};
    }
    return GS_OK;
    /* end of task 7.5 */
}
