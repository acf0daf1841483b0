/* Scheme "ps": a parameter server. Rank 0 collects the gradients, sums them, and sends the sum back.
 *
 *     collect   1 -> 0, 2 -> 0, ..., N-1 -> 0      each worker its gradient
 *     sum       g = ((g0 + g1) + g2) + ...         on rank 0, in the order of the ranks
 *     return    0 -> 1, 0 -> 2, ..., 0 -> N-1      the sum
 *
 * With N ranks and an array of B bytes:
 *
 *     rounds                 2          collect, return
 *     messages               2 (N - 1)
 *     bytes through rank 0   2 (N - 1) B
 *     bytes of a worker      2 B
 *
 * All of it passes through one rank: its connection is the bottleneck, and the time grows with N, where that
 * of an all-reduce (allreduce.c) hardly does. Rank 0 is a worker too here; a server of its own would only add
 * one more rank.
 *
 * Source: Li et al., "Scaling distributed machine learning with the parameter server" (OSDI 2014). Theirs
 * holds the weights and lets the workers be late; this one waits for all, so that N workers do exactly what
 * one would.
 */
#include "sync/sync.h"

#include <stdlib.h>

static void add(float *restrict sum, const float *restrict x, size_t count) {
    for (size_t i = 0; i < count; i++) sum[i] += x[i];
}

/* Rank 0: collect, sum, return. */
static gs_status serve(gs_comm *c, float *data, size_t count) {
    float *received = malloc(count * sizeof *received);
    if (!received) return gs_fail(GS_E_MEMORY, "parameter server: no memory for %zu floats", count);
    gs_status status = GS_OK;
    for (int worker = 1; status == GS_OK && worker < c->size; worker++) {
        status = c->ops->recv(c, received, count * sizeof *received, worker);
        if (status == GS_OK) add(data, received, count);
    }
    for (int worker = 1; status == GS_OK && worker < c->size; worker++)
        status = c->ops->send(c, data, count * sizeof *data, worker);
    free(received);
    return status;
}

/* The others: gradient there, sum back. */
static gs_status work(gs_comm *c, float *data, size_t count) {
    GS_TRY(c->ops->send(c, data, count * sizeof *data, 0));
    return c->ops->recv(c, data, count * sizeof *data, 0);
}

static gs_status ps_sum(gs_comm *c, float *data, size_t count) {
    if (c->size == 1 || count == 0) return GS_OK;
    return c->rank == 0 ? serve(c, data, count) : work(c, data, count);
}

const gs_sync_scheme gs_sync_ps = {
    .name = "ps",
    .what = "parameter server: rank 0 collects, sums and sends the sum back",
    .sum = ps_sum,
};
