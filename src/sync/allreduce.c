/* Schemes "allreduce", "gloo" and "hierarchical": the transport's own all_reduce. All ranks sum together; none is
 * special. One function has three names, because how it works depends on where the workers are:
 *
 *     before   g0     g1     g2     g3
 *     after    g      g      g      g         g = g0 + g1 + g2 + g3
 *
 * comm/README.md describes how each transport does it. More than two processes over Gloo, and two with --sync gloo, use
 * Gloo's ring, which is the algorithm of ring.c inside the library.
 *
 * With 16 bits on the wire (--wire) the library cannot compute the sum: it would round after each addition, or would
 * have to add numbers in a format that it does not know. Instead there are two exchanges, in which the library only
 * moves bytes:
 *
 *     all_to_all    each rank rounds its array, cut into N chunks, and sends chunk r to rank r
 *     sum           rank r widens the copies of its chunk and adds them, in f32 and in rank order
 *     all_gather    rank r rounds its sum once, and all ranks receive all sums
 *
 *     rounds        2
 *     messages      N - 1 in each round, all of the same length; a chunk has C = ceil(values / N) values
 *     bytes sent    (N - 1) (2 C + 4 tail) in the first round, (N - 1) 2 C in the second: about (N - 1) / N * B
 *
 * The tail must not be rounded, so the first exchange sends it to all ranks, and each rank sums it. Two advantages are
 * lost: in shared memory sums now send data, and a process with several workers now sends more than one gradient.
 *
 * No process sends more than another, so no connection is a bottleneck (compare ps.c). In f32 the messages are the
 * library's own and can be neither counted nor observed, unlike those of ring.c. In 16 bits messages are counted when
 * they are handed to the transport, which may move them through memory or via other ranks.
 *
 * Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (Journal of
 * Parallel and Distributed Computing 69, 2009). */
#include "sync/scheme.h"

/* How the array is cut for 16 bits: N chunks of `chunk` values, the last ones shorter or empty, then the tail. A
 * message is one chunk and the whole tail, `words` 16-bit words in all. */
typedef struct layout {
    size_t narrow, chunk, tail, words;
} layout;

static layout layout_of(int ranks, const gs_sync_array *a) {
    size_t n = (size_t)ranks, narrow = a->count - a->tail, chunk = (narrow + n - 1) / n;
    return (layout){narrow, chunk, a->tail, chunk + a->tail * sizeof(float) / sizeof(uint16_t)};
}

static gs_chunk chunk_for(const layout *l, int rank) {
    size_t first = (size_t)rank * l->chunk;
    if (first > l->narrow) first = l->narrow;
    return (gs_chunk){first, l->narrow - first < l->chunk ? l->narrow - first : l->chunk};
}

static void pack_messages(gs_sync *s, const layout *l, float *data) {
    for (int r = 0; r < s->comm->size; r++) {
        gs_chunk part = chunk_for(l, r);
        uint16_t *message = s->packed[0] + (size_t)r * l->words;
        gs_wire_narrow(s->wire, message, data + part.first, part.count);
        memset(message + part.count, 0, (l->chunk - part.count) * sizeof *message);
        memcpy(message + l->chunk, data + l->narrow, l->tail * sizeof *data);
    }
}

/* Set this rank's chunk and the tail to the sums of the received values, added in rank order. */
static gs_status sum_messages(gs_sync *s, const layout *l, float *data) {
    gs_chunk mine = chunk_for(l, s->comm->rank);
    if (gs_sync_is_virtual(s))
        return gs_sync_add_received(s, data, data, (size_t)s->comm->size * (mine.count + l->tail));
    float *sum = data + mine.first, *tail = data + l->narrow;
    memset(sum, 0, mine.count * sizeof *sum);
    memset(tail, 0, l->tail * sizeof *tail);
    for (int r = 0; r < s->comm->size; r++) {
        const uint16_t *message = s->packed[1] + (size_t)r * l->words;
        gs_wire_widen_add(s->wire, sum, message, mine.count);
        memcpy(s->scratch, message + l->chunk, l->tail * sizeof *tail);
        gs_sync_add(tail, s->scratch, l->tail);
    }
    return GS_OK;
}

/* Record an exchange's messages, of `words` 16-bit words each: the chunk of the receiver or, if `own`, of this rank. */
static void count_messages(gs_sync *s, const layout *l, const float *data, bool own, size_t words) {
    for (int r = 0; r < s->comm->size; r++)
        if (r != s->comm->rank)
            gs_sync_count_message(s, data, chunk_for(l, own ? s->comm->rank : r), r,
                                  words * sizeof *s->packed[0]);
}

static gs_status sum_in_16_bits(gs_sync *s, float *data) {
    const layout l = layout_of(s->comm->size, &s->array);
    gs_comm *c = s->comm;
    gs_chunk mine = chunk_for(&l, c->rank);
    uint16_t *own = s->packed[0], *all = s->packed[1];
    gs_sync_round(s);
    if (!gs_sync_is_virtual(s)) pack_messages(s, &l, data);
    count_messages(s, &l, data, false, l.words);
    GS_TRY(gs_comm_all_to_all(c, own, all, l.words * sizeof *own, GS_U8));
    GS_TRY(sum_messages(s, &l, data));
    if (l.chunk == 0) return GS_OK; /* the whole array is tail, and already summed */
    gs_sync_round(s);
    if (!gs_sync_is_virtual(s)) gs_wire_narrow(s->wire, own, data + mine.first, mine.count);
    count_messages(s, &l, data, true, l.chunk);
    GS_TRY(gs_comm_all_gather(c, own, all, l.chunk * sizeof *own, GS_U8));
    if (!gs_sync_is_virtual(s)) gs_wire_widen(s->wire, data, all, l.narrow); /* the chunks are contiguous */
    return GS_OK;
}

static gs_sync_cost cost_in_16_bits(int ranks, int rank, const gs_sync_array *a) {
    (void)rank; /* the same for all */
    const layout l = layout_of(ranks, a);
    size_t others = (size_t)ranks - 1, rounds = l.chunk > 0 ? 2 : 1;
    return (gs_sync_cost){rounds, rounds * others, others * (l.words + l.chunk) * sizeof(uint16_t)};
}

static gs_status allreduce_sum(gs_sync *s, float *data, size_t count) {
    if (s->wire != GS_WIRE_F32) return sum_in_16_bits(s, data);
    return gs_comm_all_reduce(s->comm, data, count, GS_F32, GS_SUM);
}

#define LIBRARY(name_, what_)                                                                                \
    const gs_sync_scheme gs_sync_##name_ = {                                                                 \
        .name = #name_, .what = what_, .sum = allreduce_sum, .cost_in_16_bits = cost_in_16_bits};

LIBRARY(allreduce, "the transport's own: in shared memory, or over Gloo")
LIBRARY(gloo, "allreduce by Gloo's ring, even between two processes")
LIBRARY(hierarchical, "allreduce in two levels: threads, then processes")
