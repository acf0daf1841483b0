/* reduce_scatter by exchanges between pairs of ranks. (Gloo 0.5.0 has no reduce_scatter.)
 *
 * In round k rank r sends part r + k to rank r + k, and receives part r from rank r - k (modulo N). For 3 ranks, where
 * b1 is rank 1's value of part b:
 *
 *              rank 0 (part a)     rank 1 (part b)     rank 2 (part c)
 *     start    a0                  b1                  c2
 *     round 1  a0 + a2             b1 + b0             c2 + c1            r -> r + 1
 *     round 2  a0 + a2 + a1        b1 + b0 + b2        c2 + c1 + c0       r -> r + 2
 *
 * With an array of B bytes:
 *
 *     rounds, messages of a rank   N - 1
 *     bytes sent by a rank         (N - 1) / N * B      the minimum
 *
 * Each value travels once, directly to the rank that needs it, and the source array is unchanged. A ring would send as
 * many bytes, but as partial sums, each of which waits for the previous one.
 *
 * Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH"
 * (International Journal of High Performance Computing Applications 19, 2005): pairwise exchange.
 */
#include "comm/transports.h"

#include "core/shard.h"

/* Where the part of rank r begins in an array of `count` elements, in bytes. */
static size_t begin_of(const gs_comm *c, const gs_call *call, size_t count, const int *first, int r) {
    size_t width = gs_type_size(call->type);
    if (r == c->size) return count * width;
    return gs_shard_of(count, first ? first[r] : r, first ? first[c->size] : c->size).first * width;
}

gs_status gs_pairwise_reduce_scatter(gs_comm *c, const gs_call *call, const void *all, void *mine,
                                     const int *first, gs_scratch *received) {
    const unsigned char *whole = all;
    const size_t count = call->count, at = begin_of(c, call, count, first, c->rank);
    const size_t bytes = begin_of(c, call, count, first, c->rank + 1) - at;
    gs_copy_unless_there(mine, whole + at, bytes);
    if (c->size == 1) return GS_OK;
    GS_TRY(gs_scratch_for(received, call, bytes));
    for (int k = 1; k < c->size; k++) {
        int to = (c->rank + k) % c->size, from = (c->rank - k + c->size) % c->size;
        const size_t theirs = begin_of(c, call, count, first, to);
        GS_TRY(gs_collective_send(c, call, whole + theirs, begin_of(c, call, count, first, to + 1) - theirs,
                                  to));
        GS_TRY(gs_collective_recv(c, call, received->memory, bytes, from));
        GS_TRY(gs_collective_combine(c, call, mine, received->memory, bytes));
    }
    return GS_OK;
}

gs_status gs_pairwise_all_gather(gs_comm *c, const gs_call *call, void *data, size_t count,
                                 const int *first) {
    unsigned char *whole = data;
    const size_t at = begin_of(c, call, count, first, c->rank);
    const size_t bytes = begin_of(c, call, count, first, c->rank + 1) - at;
    for (int k = 1; k < c->size; k++) {
        const int to = (c->rank + k) % c->size, from = (c->rank - k + c->size) % c->size;
        const size_t theirs = begin_of(c, call, count, first, from);
        GS_TRY(gs_collective_send(c, call, whole + at, bytes, to));
        GS_TRY(gs_collective_recv(c, call, whole + theirs, begin_of(c, call, count, first, from + 1) - theirs,
                                  from));
    }
    return GS_OK;
}

gs_status gs_all_reduce_in_parts(gs_comm *c, const gs_call *call, void *data, gs_scratch *received) {
    unsigned char *own = (unsigned char *)data + begin_of(c, call, call->count, NULL, c->rank);
    GS_TRY(gs_pairwise_reduce_scatter(c, call, data, own, NULL, received));
    return gs_pairwise_all_gather(c, call, data, call->count, NULL);
}
