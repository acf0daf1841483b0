/* Schemes "allreduce", "gloo" and "hierarchical": the transport's own all_reduce. All ranks sum together, and
 * none is special. Three names of one function, because what it does depends on where the workers are:
 *
 *     before   g0     g1     g2     g3
 *     after    g      g      g      g         g = g0 + g1 + g2 + g3
 *
 * Threads of one process (comm_threads.c): each rank sums one slice over all arrays in shared memory, and
 * writes the sum to all. Nothing is sent.
 *
 * Processes of one machine (comm_shm.c): the same, but a process cannot see the array of another. Slices go
 * through memory that they share.
 *
 * Processes of one worker each over Gloo (comm_gloo.c), where one says "gloo": Gloo's ring, the same as in ring.c but
 * inside the library. With P processes and an array of B bytes:
 *
 *     reduce-scatter   P - 1 rounds: pass a slice on, add the one that comes in; each ends with one whole sum
 *     all-gather       P - 1 rounds: pass the summed slices around
 *
 *     rounds            2 (P - 1)
 *     bytes sent        2 (P - 1) / P * B     by each process: less than 2 B however many there are
 *
 * Processes of several workers (comm_world.c), where one says "hierarchical": first in shared memory to the
 * first worker of each process, then between these in one of the other ways, then back in shared memory. So one gradient of
 * each process travels, however many workers it holds.
 *
 * With 16 bits on the wire (--wire) the library cannot do it alone: it would round after each addition, or add
 * numbers that it does not know. So the sum becomes two exchanges of numbers that it need not understand, the
 * same everywhere:
 *
 *     all_to_all    each rank rounds its array, cut into N chunks, and hands chunk r to rank r
 *     sum           rank r widens what came in for its chunk and adds it, in f32, in the order of the ranks
 *     all_gather    rank r rounds its sum once, and all get all sums
 *
 *     rounds        2
 *     messages      N - 1 in each of the two, all of one length: a chunk has C = ceil(values / N) places
 *     bytes sent    (N - 1) (2 C + 4 tail) in the first, (N - 1) 2 C in the second: about (N - 1) / N * B
 *
 * The tail, which must not be rounded, goes to all ranks with the first exchange, and each of them sums it. Two
 * things are lost: the sum in shared memory that sends nothing, and, where processes hold several workers, that
 * only one gradient of each process travels.
 *
 * No process sends more than another, so no connection is the bottleneck: compare ps.c. With f32 the messages are the
 * library's, so they are not counted and cannot be watched; those of ring.c can. With 16 bits they are counted as they
 * are handed to the transport, which may take them through memory, or past other ranks.
 *
 * Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (Journal of
 * Parallel and Distributed Computing 69, 2009).
 */
#include "sync/scheme.h"

#include <string.h>

/* How the array is cut for 16 bits: N chunks of `chunk` values, the last ones short or empty, then the tail. A
 * message is one chunk and the whole tail: `words` times 16 bits. */
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

/* This rank's chunk and the tail: the sum of what came in, in the order of the ranks. */
static void sum_messages(gs_sync *s, const layout *l, float *data) {
    gs_chunk mine = chunk_for(l, s->comm->rank);
    float *sum = data + mine.first, *tail = data + l->narrow;
    memset(sum, 0, mine.count * sizeof *sum);
    memset(tail, 0, l->tail * sizeof *tail);
    for (int r = 0; r < s->comm->size; r++) {
        const uint16_t *message = s->packed[1] + (size_t)r * l->words;
        gs_wire_widen_add(s->wire, sum, message, mine.count);
        memcpy(s->scratch, message + l->chunk, l->tail * sizeof *tail);
        gs_sync_add(tail, s->scratch, l->tail);
    }
}

/* To each of the others: its chunk, */
static void count_all_to_all(gs_sync *s, const layout *l, const float *data) {
    for (int r = 0; r < s->comm->size; r++)
        if (r != s->comm->rank)
            gs_sync_goes_out(s, data, chunk_for(l, r), r, l->words * sizeof *s->packed[0]);
}

/* and later this rank's. */
static void count_all_gather(gs_sync *s, const layout *l, const float *data) {
    for (int r = 0; r < s->comm->size; r++)
        if (r != s->comm->rank)
            gs_sync_goes_out(s, data, chunk_for(l, s->comm->rank), r, l->chunk * sizeof *s->packed[0]);
}

static gs_status sum_in_16_bits(gs_sync *s, float *data) {
    const layout l = layout_of(s->comm->size, &s->array);
    gs_comm *c = s->comm;
    gs_chunk mine = chunk_for(&l, c->rank);
    uint16_t *own = s->packed[0], *all = s->packed[1];
    gs_sync_round(s);
    pack_messages(s, &l, data);
    count_all_to_all(s, &l, data);
    GS_TRY(c->ops->all_to_all(c, own, all, l.words * sizeof *own, GS_U8));
    sum_messages(s, &l, data);
    if (l.chunk == 0) return GS_OK; /* all is tail, and summed */
    gs_sync_round(s);
    gs_wire_narrow(s->wire, own, data + mine.first, mine.count);
    count_all_gather(s, &l, data);
    GS_TRY(c->ops->all_gather(c, own, all, l.chunk * sizeof *own, GS_U8));
    gs_wire_widen(s->wire, data, all, l.narrow); /* the chunks lie behind each other, without a gap */
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
    return s->comm->ops->all_reduce(s->comm, data, count, GS_F32, GS_SUM);
}

const gs_sync_scheme gs_sync_allreduce = {
    .name = "allreduce",
    .what = "the transport's own: shared memory, or Gloo's ring",
    .sum = allreduce_sum,
    .cost_in_16_bits = cost_in_16_bits,
};

const gs_sync_scheme gs_sync_gloo = {
    .name = "gloo",
    .what = "allreduce between processes: Gloo's ring",
    .sum = allreduce_sum,
    .cost_in_16_bits = cost_in_16_bits,
};

const gs_sync_scheme gs_sync_hierarchical = {
    .name = "hierarchical",
    .what = "allreduce in two levels: threads, then processes",
    .sum = allreduce_sum,
    .cost_in_16_bits = cost_in_16_bits,
};
