/* Scheme "sharded_ps": a parameter server spread over all ranks. The array is cut into N chunks, and rank r is the
 * server of chunk r: it collects that chunk from all, sums it, and sends the sum back to all.
 *
 *              chunk 0      chunk 1      chunk 2
 *     rank 0   sums    <--  sends to 1   sends to 2
 *     rank 1   sends to 0   sums         sends to 2           collect; then the same arrows reversed: return
 *     rank 2   sends to 0   sends to 1   sums
 *
 * With N ranks and an array of B bytes:
 *
 *     rounds             2                       collect, return
 *     each rank sends    2 (N - 1)               messages of about B / N (empty ones are not sent)
 *     bytes              (B - chunk r) + (N - 1) chunk r  =  2 (N - 1) / N * B  if N divides the array
 *     time               2 (N - 1) (alpha + beta B / N)  +  (N - 1) gamma B / N
 *
 * The bytes that pass through rank 0 in ps.c are spread evenly over all ranks. This removes the bottleneck, so as in a
 * ring the time hardly grows with N. But every rank sends to every other one, over N (N - 1) connections instead of N.
 *
 * Each chunk is summed in rank order, so the sum has the same bits as in ps.c.
 *
 * Source: Dean et al., "Large scale distributed deep networks" (NIPS 2012), whose parameter server is sharded over many
 * machines. Also known as direct reduce-scatter and all-gather. */
#include "sync/scheme.h"

/* Receive this rank's chunk from the others, and sum: g = ((g0 + g1) + g2) + ..., its own at position `rank`. */
static gs_status sum_own_chunk(gs_sync *s, float *data, gs_chunk mine) {
    float *sum = s->scratch, *received = s->scratch + mine.count;
    for (int r = 0; r < s->comm->size; r++) {
        float *x = r == s->comm->rank ? data + mine.first : r == 0 ? sum : received;
        if (r != s->comm->rank) GS_TRY(gs_sync_recv_to(s, x, mine, r));
        if (r > 0)
            GS_TRY(gs_sync_add_received(s, sum, x, mine.count));
        else if (x != sum)
            memcpy(sum, x, mine.count * sizeof *sum);
    }
    memcpy(data + mine.first, sum, mine.count * sizeof *sum);
    return GS_OK;
}

static gs_status sharded_ps_sum(gs_sync *s, float *data, size_t count) {
    int ranks = s->comm->size, me = s->comm->rank;
    gs_chunk mine = gs_chunk_of(count, ranks, me);

    gs_sync_round(s); /* collect; each rank starts with its neighbour, so that not all send to rank 0 first */
    for (int k = 1; k < ranks; k++) {
        int to = (me + k) % ranks;
        GS_TRY(gs_sync_send(s, data, gs_chunk_of(count, ranks, to), to));
    }
    GS_TRY(sum_own_chunk(s, data, mine));

    gs_sync_round(s); /* return */
    for (int k = 1; k < ranks; k++) GS_TRY(gs_sync_send(s, data, mine, (me + k) % ranks));
    for (int k = 1; k < ranks; k++) {
        int from = (me + ranks - k) % ranks;
        GS_TRY(gs_sync_recv(s, data, gs_chunk_of(count, ranks, from), from));
    }
    return GS_OK;
}

static gs_sync_cost sharded_ps_cost(int ranks, int rank, const gs_sync_array *a) {
    gs_sync_cost cost = {.rounds = 2};
    for (int r = 0; r < ranks; r++) {
        if (r == rank) continue;
        gs_sync_cost_add(&cost, a, gs_chunk_of(a->count, ranks, r));
        gs_sync_cost_add(&cost, a, gs_chunk_of(a->count, ranks, rank));
    }
    return cost;
}

static double sharded_ps_time(int ranks, double bytes, const gs_sync_model *m) {
    double chunk = bytes / ranks;
    return 2 * (ranks - 1) * (m->alpha + m->beta * chunk) + (ranks - 1) * m->gamma * chunk;
}

const gs_sync_scheme gs_sync_sharded_ps = {
    .name = "sharded_ps",
    .what = "every rank is the parameter server of one chunk",
    .sum = sharded_ps_sum,
    .cost = sharded_ps_cost,
    .time = sharded_ps_time,
};
