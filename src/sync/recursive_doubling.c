/* Scheme "recursive_doubling": in each round every rank exchanges its whole current sum with a partner, and both add.
 * The partners' distance doubles: 1, 2, 4, ... With 4 ranks:
 *
 *     rank         0       1       2       3
 *     distance 1   0 <---> 1       2 <---> 3            0+1      0+1      2+3      2+3
 *     distance 2   0 <-----------> 2
 *                          1 <-----------> 3            0+1+2+3  0+1+2+3  0+1+2+3  0+1+2+3
 *
 * With N a power of two, L = log2 N, and an array of B bytes:
 *
 *     rounds             L
 *     each rank sends    L          messages of B
 *     time               L (alpha + beta B + gamma B)
 *
 * For other numbers of ranks, the extra ranks are folded in and out (fold.c): two more rounds, and N is the next lower
 * power of two.
 *
 * No scheme has fewer rounds, so this one is for small arrays. But every rank sends its whole array L times: for large
 * arrays see halving_doubling.c and ring.c.
 *
 * Partners add the same two numbers, one as x + y, the other as y + x, which gives the same bits. So all ranks end with
 * the bits of one tree of additions. (This also holds on a 16-bit wire, where both add the rounded values that they
 * sent and the values that they received.)
 *
 * Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH" (IJHPCA
 * 19, 2005). */
#include "sync/scheme.h"

static gs_status recursive_doubling_sum(gs_sync *s, float *data, size_t count) {
    gs_fold f = gs_fold_of(s->comm->size, s->comm->rank);
    gs_chunk all = {0, count};
    GS_TRY(gs_fold_in(s, &f, data, count));
    for (int distance = 1; distance < f.places; distance *= 2) {
        gs_sync_round(s);
        if (f.place < 0) continue;
        int partner = gs_fold_rank(&f, f.place ^ distance);
        GS_TRY(gs_sync_send(s, data, all, partner));
        GS_TRY(gs_sync_recv_add(s, data, all, partner));
    }
    return gs_fold_out(s, &f, data, count);
}

static gs_sync_cost recursive_doubling_cost(int ranks, int rank, const gs_sync_array *a) {
    gs_chunk all = {0, a->count};
    gs_fold f = gs_fold_of(ranks, rank);
    size_t levels = (size_t)gs_log2_down(ranks), messages = f.place < 0 ? 0 : levels;
    gs_sync_cost cost = {levels, messages, messages * gs_sync_message_bytes(a, all)};
    gs_fold_cost(&f, rank, a, &cost);
    return cost;
}

static double recursive_doubling_time(int ranks, double bytes, const gs_sync_model *m) {
    return gs_log2_down(ranks) * (m->alpha + m->beta * bytes + m->gamma * bytes) +
           gs_fold_time(ranks, bytes, m);
}

const gs_sync_scheme gs_sync_recursive_doubling = {
    .name = "recursive_doubling",
    .what = "exchange all with partners at distance 1, 2, 4, ...",
    .sum = recursive_doubling_sum,
    .cost = recursive_doubling_cost,
    .time = recursive_doubling_time,
};
