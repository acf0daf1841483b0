/* Run schemes for powers of two on any number of ranks. With N = P + E ranks, where P is the largest power of two, each
 * of the first E odd ranks sends its data to its left neighbour and waits outside. The other P ranks, at places 0 ..
 * P-1, run the scheme. Then the waiting ranks receive the sum. With 6 ranks, P = 4 and E = 2:
 *
 *     rank      0     1     2     3     4     5
 *     fold in   0 <-- 1     2 <-- 3                     data[0] += data[1], data[2] += data[3]
 *     place     0     -     1     -     2     3         the scheme, for 4
 *     fold out  0 --> 1     2 --> 3                     the sum
 *
 *     rounds    2 if E > 0                              of one message of B bytes each
 *     time      (alpha + beta B + gamma B)  +  (alpha + beta B)
 *
 * Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH" (IJHPCA
 * 19, 2005). */
#include "sync/scheme.h"

gs_fold gs_fold_of(int ranks, int rank) {
    int places = 1 << gs_log2_down(ranks), extra = ranks - places;
    bool paired = rank < 2 * extra;
    return (gs_fold){places, extra, !paired ? rank - extra : rank % 2 == 0 ? rank / 2 : -1};
}

int gs_fold_rank(const gs_fold *f, int place) {
    return place < f->extra ? 2 * place : place + f->extra;
}

gs_status gs_fold_in(gs_sync *s, const gs_fold *f, float *data, size_t count) {
    gs_chunk all = {0, count};
    if (f->extra == 0) return GS_OK;
    gs_sync_round(s);
    if (f->place < 0) return gs_sync_send(s, data, all, s->comm->rank - 1);
    if (f->place < f->extra) return gs_sync_recv_add(s, data, all, s->comm->rank + 1);
    return GS_OK;
}

gs_status gs_fold_out(gs_sync *s, const gs_fold *f, float *data, size_t count) {
    gs_chunk all = {0, count};
    if (f->extra == 0) return GS_OK;
    gs_sync_round(s);
    if (f->place < 0) return gs_sync_recv(s, data, all, s->comm->rank - 1);
    if (f->place < f->extra) return gs_sync_send(s, data, all, s->comm->rank + 1);
    gs_sync_round_off(s, data, all); /* as on the ranks that send the sum */
    return GS_OK;
}

void gs_fold_cost(const gs_fold *f, int rank, const gs_sync_array *a, gs_sync_cost *cost) {
    if (f->extra == 0) return;
    cost->rounds += 2;
    if (rank < 2 * f->extra) gs_sync_cost_add(cost, a, (gs_chunk){0, a->count});
}

double gs_fold_time(int ranks, double bytes, const gs_sync_model *m) {
    return gs_fold_of(ranks, 0).extra > 0 ? 2 * (m->alpha + m->beta * bytes) + m->gamma * bytes : 0;
}
