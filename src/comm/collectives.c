/* Every collective in its simplest form, made of send and recv, for transports without their own. For N ranks and
 * arrays of B bytes each:
 *
 *                      rounds    a rank sends at most
 *     broadcast        log2 N    B log2 N           along a tree: 0 -> 1, then 0 -> 2 and 1 -> 3, ...
 *     reduce           1         B                  the root adds what comes from root + 1, root + 2, ...
 *     all_reduce       1 + log2  B log2 N           reduce to rank 0, broadcast
 *     all_gather       N - 1     (N - 1) B          around a ring: each passes on what it received last
 *     gather, scatter  1         B, (N - 1) B       to the root, from the root
 *     reduce_scatter   N - 1     (N - 1) / N B      pairwise_reduce_scatter.c
 *     all_to_all       N - 1     (N - 1) B          in round k with the ranks k before and after it
 *     barrier          log2 N    log2 N bytes       in round k to the rank 2^k after it
 *
 * The order of a reduction depends only on size and root, so a second run gives the same bits.
 *
 * Source of the tree, the ring and the exchanges: Thakur, Rabenseifner, Gropp, "Optimization of collective
 * communication operations in MPICH" (2005); of the barrier: Hensgen, Finkel, Manber, "Two algorithms for barrier
 * synchronization" (1988).
 */
#include "comm/transports.h"

/* The part of rank r in `all`, where each part has `bytes` bytes. */
static unsigned char *part(const void *all, int r, size_t bytes) {
    return (unsigned char *)all + (size_t)r * bytes;
}

/* With ranks counted from the root: in the round with d = 1, 2, 4, ..., each rank r < d sends to rank r + d. */
static gs_status broadcast(gs_comm *c, const gs_call *call, void *data, size_t bytes, int root) {
    int n = c->size, me = (c->rank - root + n) % n;
    for (int d = 1; d < n; d *= 2) {
        if (me < d && me + d < n) GS_TRY(gs_collective_send(c, call, data, bytes, (me + d + root) % n));
        if (me >= d && me < 2 * d) GS_TRY(gs_collective_recv(c, call, data, bytes, (me - d + root) % n));
    }
    return GS_OK;
}

static gs_status reduce(gs_comm *c, const gs_call *call, void *data, size_t bytes, int root) {
    gs_scratch received = {0};
    if (c->rank != root) return gs_collective_send(c, call, data, bytes, root);
    gs_status status = gs_scratch_for(&received, call, bytes);
    for (int k = 1; k < c->size && status == GS_OK; k++) {
        status = gs_collective_recv(c, call, received.memory, bytes, (root + k) % c->size);
        if (status == GS_OK) status = gs_collective_combine(c, call, data, received.memory, bytes);
    }
    gs_scratch_free(&received);
    return status;
}

static gs_status all_gather(gs_comm *c, const gs_call *call, const void *mine, void *all, size_t bytes) {
    int n = c->size;
    gs_copy_unless_there(part(all, c->rank, bytes), mine, bytes);
    for (int k = 0; k < n - 1; k++) {
        GS_TRY(
            gs_collective_send(c, call, part(all, (c->rank - k + n) % n, bytes), bytes, (c->rank + 1) % n));
        GS_TRY(gs_collective_recv(c, call, part(all, (c->rank - k - 1 + n) % n, bytes), bytes,
                                  (c->rank - 1 + n) % n));
    }
    return GS_OK;
}

static gs_status gather(gs_comm *c, const gs_call *call, const void *mine, void *all, size_t bytes) {
    if (c->rank != call->root) return gs_collective_send(c, call, mine, bytes, call->root);
    gs_copy_unless_there(part(all, c->rank, bytes), mine, bytes);
    for (int r = 0; r < c->size; r++)
        if (r != c->rank) GS_TRY(gs_collective_recv(c, call, part(all, r, bytes), bytes, r));
    return GS_OK;
}

static gs_status scatter(gs_comm *c, const gs_call *call, const void *all, void *mine, size_t bytes) {
    if (c->rank != call->root) return gs_collective_recv(c, call, mine, bytes, call->root);
    for (int r = 0; r < c->size; r++)
        if (r != c->rank) GS_TRY(gs_collective_send(c, call, part(all, r, bytes), bytes, r));
    gs_copy_unless_there(mine, part(all, c->rank, bytes), bytes);
    return GS_OK;
}

static gs_status reduce_scatter(gs_comm *c, const gs_call *call, const void *all, void *mine) {
    gs_scratch received = {0};
    gs_status status = gs_pairwise_reduce_scatter(c, call, all, mine, NULL, &received);
    gs_scratch_free(&received);
    return status;
}

static gs_status all_to_all(gs_comm *c, const gs_call *call, const void *from, void *to, size_t bytes) {
    int n = c->size;
    gs_copy_unless_there(part(to, c->rank, bytes), part(from, c->rank, bytes), bytes);
    for (int k = 1; k < n; k++) {
        int next = (c->rank + k) % n, last = (c->rank - k + n) % n;
        GS_TRY(gs_collective_send(c, call, part(from, next, bytes), bytes, next));
        GS_TRY(gs_collective_recv(c, call, part(to, last, bytes), bytes, last));
    }
    return GS_OK;
}

static gs_status barrier(gs_comm *c, const gs_call *call) {
    unsigned char here = 1;
    for (int d = 1; d < c->size; d *= 2) {
        GS_TRY(gs_collective_send(c, call, &here, 1, (c->rank + d) % c->size));
        GS_TRY(gs_collective_recv(c, call, &here, 1, (c->rank - d + c->size) % c->size));
    }
    return GS_OK;
}

gs_status gs_collective_by_messages(gs_comm *c, const gs_call *call, const void *in, void *out) {
    size_t bytes = call->count * gs_type_size(call->type);
    switch (call->operation) {
    case GS_BROADCAST:
        return broadcast(c, call, out, bytes, call->root);
    case GS_REDUCE:
        return reduce(c, call, out, bytes, call->root);
    case GS_ALL_REDUCE:
        GS_TRY(reduce(c, call, out, bytes, 0));
        return broadcast(c, call, out, bytes, 0);
    case GS_ALL_GATHER:
        return all_gather(c, call, in, out, bytes);
    case GS_GATHER:
        return gather(c, call, in, out, bytes);
    case GS_SCATTER:
        return scatter(c, call, in, out, bytes);
    case GS_REDUCE_SCATTER:
        return reduce_scatter(c, call, in, out);
    case GS_ALL_TO_ALL:
        return all_to_all(c, call, in, out, bytes);
    default:
        return barrier(c, call);
    }
}
