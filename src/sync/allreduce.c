/* Schemes "allreduce", "gloo" and "hierarchical": the transport's own all_reduce. All ranks sum together, and
 * none is special. Three names of one function, because what it does depends on where the workers are:
 *
 *     before   g0     g1     g2     g3
 *     after    g      g      g      g         g = g0 + g1 + g2 + g3
 *
 * Threads of one process (comm_threads.c): each rank sums one slice over all arrays in shared memory, and
 * writes the sum to all. Nothing is sent.
 *
 * Processes of one worker each (comm_gloo.c), where one says "gloo": Gloo's ring, the same as in ring.c but
 * inside the library. With P processes and an array of B bytes:
 *
 *     reduce-scatter   P - 1 rounds: pass a slice on, add the one that comes in; each ends with one whole sum
 *     all-gather       P - 1 rounds: pass the summed slices around
 *
 *     rounds            2 (P - 1)
 *     bytes sent        2 (P - 1) / P * B     by each process: less than 2 B however many there are
 *
 * Processes of several workers (comm_world.c), where one says "hierarchical": first in shared memory to the
 * first worker of each process, then between these over Gloo, then back in shared memory. So one gradient of
 * each process travels, however many workers it holds.
 *
 * No process sends more than another, so no connection is the bottleneck: compare ps.c. The messages are the
 * library's, so they are not counted and cannot be watched; those of ring.c can.
 *
 * Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (Journal of
 * Parallel and Distributed Computing 69, 2009).
 */
#include "sync/sync.h"

static gs_status allreduce_sum(gs_sync *s, float *data, size_t count) {
    return s->comm->ops->all_reduce(s->comm, data, count, GS_F32, GS_SUM);
}

const gs_sync_scheme gs_sync_allreduce = {
    .name = "allreduce",
    .what = "the transport's own: shared memory, or Gloo's ring",
    .sum = allreduce_sum,
};

const gs_sync_scheme gs_sync_gloo = {
    .name = "gloo",
    .what = "allreduce between processes: Gloo's ring",
    .sum = allreduce_sum,
};

const gs_sync_scheme gs_sync_hierarchical = {
    .name = "hierarchical",
    .what = "allreduce with threads: shared memory, then Gloo",
    .sum = allreduce_sum,
};
