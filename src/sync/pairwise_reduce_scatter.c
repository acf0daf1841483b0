/* reduce_scatter between processes, which Gloo 0.5.0 does not have: by exchanges between pairs.
 *
 * In round k rank r gives rank r + k its part and gets its own from rank r - k (modulo N). For 3 ranks, where
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
 *     bytes sent by a rank         (N - 1) / N * B      less is not possible
 *
 * A value travels once, from the rank that has it to the rank that wants it, and what is given to the others
 * is not changed. A ring would send as much, but partial sums, each of which waits for the one before it.
 *
 * Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH"
 * (International Journal of High Performance Computing Applications 19, 2005): pairwise exchange.
 */
#include "sync/transports.h"

#include <string.h>

static gs_status exchange(gs_comm *c, const gs_call *call, const unsigned char *all, unsigned char *mine,
                          unsigned char *received, const size_t *first) {
    size_t width = gs_type_size(call->type), count = first[c->rank + 1] - first[c->rank];
    for (int k = 1; k < c->size; k++) {
        int to = (c->rank + k) % c->size, from = (c->rank - k + c->size) % c->size;
        GS_TRY(c->ops->between->send_part(c, call, all + first[to] * width,
                                          (first[to + 1] - first[to]) * width, to));
        GS_TRY(c->ops->between->recv_part(c, call, received, count * width, from));
        gs_combine_of(call->type, call->reduction)(mine, mine, received, count);
    }
    return GS_OK;
}

gs_status gs_pairwise_reduce_scatter(gs_comm *c, const gs_call *call, const void *all, void *mine,
                                     const size_t *first, gs_scratch *received) {
    size_t width = gs_type_size(call->type), bytes = (first[c->rank + 1] - first[c->rank]) * width;
    const unsigned char *own = (const unsigned char *)all + first[c->rank] * width;
    if (bytes > 0 && mine != own) memcpy(mine, own, bytes);
    if (c->size == 1) return GS_OK;
    unsigned char *memory = gs_scratch_take(received, bytes);
    if (!memory) return gs_fail(GS_E_MEMORY, "reduce_scatter: no memory for %zu bytes", bytes);
    return exchange(c, call, all, mine, memory, first);
}
