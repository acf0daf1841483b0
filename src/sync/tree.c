/* Scheme "tree": a binomial tree. The gradients are summed up the tree to rank 0, and the sum is sent down the same
 * tree. In round k on the way up, ranks at distance 2^k communicate; with 7 ranks:
 *
 *     distance 1   0 <-- 1    2 <-- 3    4 <-- 5    6
 *     distance 2   0 <-------- 2          4 <-------- 6
 *     distance 4   0 <------------------- 4                      then all arrows reversed, distance 4 first
 *
 * With N ranks, L = log2 N rounded up, and an array of B bytes:
 *
 *     rounds             2 L
 *     rank r sends       1 message up (rank 0 none), and 1 down to each of its children
 *     bytes              B for each message; no rank sends more than L B
 *     time               L (alpha + beta B + gamma B)  +  L (alpha + beta B)
 *
 * There are few rounds, but each moves the whole array while most ranks wait. That is better than ps.c, where rank 0
 * has N - 1 children, but see recursive_doubling.c, in which no rank waits.
 *
 * Source: the reduce and broadcast of MPI libraries for short messages: Thakur, Rabenseifner, Gropp,
 * "Optimization of collective communication operations in MPICH" (IJHPCA 19, 2005). */
#include "sync/scheme.h"

static gs_status tree_sum(gs_sync *s, float *data, size_t count) {
    int ranks = s->comm->size, me = s->comm->rank, levels = gs_log2_up(ranks);
    gs_chunk all = {0, count};

    for (int k = 0; k < levels; k++) { /* up */
        int distance = 1 << k, place = me % (2 * distance);
        gs_sync_round(s);
        if (place == 0 && me + distance < ranks) GS_TRY(gs_sync_recv_add(s, data, all, me + distance));
        if (place == distance) GS_TRY(gs_sync_send(s, data, all, me - distance));
    }
    for (int k = levels - 1; k >= 0; k--) { /* down */
        int distance = 1 << k, place = me % (2 * distance);
        gs_sync_round(s);
        if (place == 0 && me + distance < ranks) GS_TRY(gs_sync_send(s, data, all, me + distance));
        if (place == distance) GS_TRY(gs_sync_recv(s, data, all, me - distance));
    }
    return GS_OK;
}

static gs_sync_cost tree_cost(int ranks, int rank, const gs_sync_array *a) {
    gs_chunk all = {0, a->count};
    size_t levels = (size_t)gs_log2_up(ranks), messages = rank > 0;
    for (int distance = 1; distance < ranks && rank % (2 * distance) == 0; distance *= 2)
        messages += rank + distance < ranks; /* a child */
    return (gs_sync_cost){2 * levels, messages, messages * gs_sync_message_bytes(a, all)};
}

static double tree_time(int ranks, double bytes, const gs_sync_model *m) {
    double message = m->alpha + m->beta * bytes;
    return gs_log2_up(ranks) * (message + m->gamma * bytes) + gs_log2_up(ranks) * message;
}

const gs_sync_scheme gs_sync_tree = {
    .name = "tree",
    .what = "binomial tree: reduce to rank 0, then broadcast",
    .sum = tree_sum,
    .cost = tree_cost,
    .time = tree_time,
};
