/* Scheme "ring": each rank sends only to its right neighbour and receives only from its left one. The array is cut into
 * N chunks a, b, c, ...
 *
 *     rank 0 --> rank 1 --> rank 2 --> rank 3 --> back to rank 0
 *
 * Reduce-scatter, N - 1 rounds: send a chunk, add the incoming chunk to your own, and send that sum in the next round.
 * After N - 1 rounds, each rank has the complete sum of one chunk:
 *
 *              round 1      round 2      round 3
 *     rank 0   sends a      sends d      sends c         ends with the whole b
 *     rank 1   sends b      sends a      sends d         ends with the whole c
 *     rank 2   sends c      sends b      sends a         ends with the whole d
 *     rank 3   sends d      sends c      sends b         ends with the whole a
 *
 * All-gather, N - 1 rounds: send the complete chunks around the ring in the same way, copying instead of adding.
 *
 * With N ranks and an array of B bytes:
 *
 *     rounds             2 (N - 1)
 *     each rank sends    2 (N - 1)               messages of about B / N (empty ones are not sent)
 *     bytes              2 B - chunk r+1 - chunk r+2  =  2 (N - 1) / N * B  if N divides the array
 *     time               2 (N - 1) (alpha + beta B / N)  +  (N - 1) gamma B / N
 *
 * All ranks together must send at least 2 (N - 1) B: for each float, N - 1 ranks must send their value before any rank
 * has the sum, and then N - 1 ranks must receive the sum. Here each rank sends an equal share of that, and every
 * connection is in use all the time, so this is the scheme for large arrays. For small arrays the term 2 (N - 1) alpha
 * dominates: see recursive_doubling.c.
 *
 * Chunk c is summed around the ring, starting with rank c, so the order of additions differs between chunks.
 *
 * Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (Journal of
 * Parallel and Distributed Computing 69, 2009). */
#include "sync/scheme.h"

static gs_status ring_sum(gs_sync *s, float *data, size_t count) {
    int ranks = s->comm->size, me = s->comm->rank;
    int right = (me + 1) % ranks, left = (me + ranks - 1) % ranks;

    for (int k = 0; k < ranks - 1; k++) { /* reduce-scatter */
        gs_sync_round(s);
        GS_TRY(gs_sync_send(s, data, gs_chunk_of(count, ranks, me - k), right));
        GS_TRY(gs_sync_recv_add(s, data, gs_chunk_of(count, ranks, me - k - 1), left));
    }
    for (int k = 0; k < ranks - 1; k++) { /* all-gather: this rank has the whole chunk me + 1 */
        gs_sync_round(s);
        GS_TRY(gs_sync_send(s, data, gs_chunk_of(count, ranks, me + 1 - k), right));
        GS_TRY(gs_sync_recv(s, data, gs_chunk_of(count, ranks, me - k), left));
    }
    return GS_OK;
}

/* Reduce-scatter sends all chunks except chunk rank + 1; all-gather sends all except chunk rank + 2. */
static gs_sync_cost ring_cost(int ranks, int rank, const gs_sync_array *a) {
    gs_sync_cost cost = {.rounds = 2 * ((size_t)ranks - 1)};
    for (int other = 1; other < ranks; other++) {
        gs_sync_cost_add(&cost, a, gs_chunk_of(a->count, ranks, rank + 1 + other));
        gs_sync_cost_add(&cost, a, gs_chunk_of(a->count, ranks, rank + 2 + other));
    }
    return cost;
}

static double ring_time(int ranks, double bytes, const gs_sync_model *m) {
    double chunk = bytes / ranks;
    return 2 * (ranks - 1) * (m->alpha + m->beta * chunk) + (ranks - 1) * m->gamma * chunk;
}

const gs_sync_scheme gs_sync_ring = {
    .name = "ring",
    .what = "each rank passes chunks on to its right neighbour",
    .sum = ring_sum,
    .cost = ring_cost,
    .time = ring_time,
};
