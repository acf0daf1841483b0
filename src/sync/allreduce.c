/* Scheme "allreduce": all ranks sum together, and none is special.
 *
 *     before   g0     g1     g2     g3
 *     after    g      g      g      g         g = g0 + g1 + g2 + g3
 *
 * Within a process each rank sums one slice of the array over all ranks in shared memory (comm_threads.c).
 * Between P processes Gloo does it in a ring, in which each talks to its two neighbours only:
 *
 *     reduce-scatter   P - 1 rounds: pass a slice on, add the one that comes in; each ends with one whole sum
 *     all-gather       P - 1 rounds: pass the summed slices around
 *
 * With an array of B bytes:
 *
 *     rounds            2 (P - 1)
 *     bytes sent        2 (P - 1) / P * B     by each process: less than 2 B however many there are
 *
 * No process sends more than another, so no connection is the bottleneck: compare ps.c.
 *
 * Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (Journal of
 * Parallel and Distributed Computing 69, 2009).
 */
#include "sync/sync.h"

static gs_status allreduce_sum(gs_comm *c, float *data, size_t count) {
    return c->ops->all_reduce(c, data, count, GS_F32, GS_SUM);
}

const gs_sync_scheme gs_sync_allreduce = {
    .name = "allreduce",
    .what = "all workers sum together, each its share (a ring between processes)",
    .sum = allreduce_sum,
};
