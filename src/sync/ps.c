/* Scheme "ps": a parameter server. Rank 0 collects the gradients, sums them, and sends the sum back.
 *
 *     collect   1 -> 0, 2 -> 0, ..., N-1 -> 0      each worker's gradient
 *     sum       g = ((g0 + g1) + g2) + ...         on rank 0, in rank order
 *     return    0 -> 1, 0 -> 2, ..., 0 -> N-1      the sum
 *
 * With N ranks and an array of B bytes:
 *
 *     rounds            2          collect, return
 *     rank 0 sends      N - 1      messages of B
 *     a worker sends    1          message of B
 *     time              (N - 1) (alpha + beta B + gamma B)  +  (N - 1) (alpha + beta B)
 *
 * Everything passes through one rank. Its connection is the bottleneck, and the time grows with N, while the time of a
 * ring (ring.c) hardly does. Here rank 0 is also a worker; a separate server would only add one more rank.
 *
 * Source: Li et al., "Scaling distributed machine learning with the parameter server" (OSDI 2014). Their server holds
 * the weights and tolerates late workers; this one waits for all, so that N workers compute exactly what one would. */
#include "sync/scheme.h"

/* Rank 0: collect and sum, return. */
static gs_status serve(gs_sync *s, float *data, gs_chunk all) {
    gs_sync_round(s);
    for (int worker = 1; worker < s->comm->size; worker++) GS_TRY(gs_sync_recv_add(s, data, all, worker));
    gs_sync_round(s);
    for (int worker = 1; worker < s->comm->size; worker++) GS_TRY(gs_sync_send(s, data, all, worker));
    return GS_OK;
}

/* The other ranks: send the gradient, receive the sum. */
static gs_status work(gs_sync *s, float *data, gs_chunk all) {
    gs_sync_round(s);
    GS_TRY(gs_sync_send(s, data, all, 0));
    gs_sync_round(s);
    return gs_sync_recv(s, data, all, 0);
}

static gs_status ps_sum(gs_sync *s, float *data, size_t count) {
    gs_chunk all = {0, count};
    return s->comm->rank == 0 ? serve(s, data, all) : work(s, data, all);
}

static gs_sync_cost ps_cost(int ranks, int rank, const gs_sync_array *a) {
    gs_chunk all = {0, a->count};
    size_t messages = rank == 0 ? (size_t)ranks - 1 : 1;
    return (gs_sync_cost){2, messages, messages * gs_sync_message_bytes(a, all)};
}

static double ps_time(int ranks, double bytes, const gs_sync_model *m) {
    double message = m->alpha + m->beta * bytes;
    return (ranks - 1) * (message + m->gamma * bytes) + (ranks - 1) * message;
}

const gs_sync_scheme gs_sync_ps = {
    .name = "ps",
    .what = "parameter server: rank 0 collects, sums, returns",
    .sum = ps_sum,
    .cost = ps_cost,
    .time = ps_time,
};
