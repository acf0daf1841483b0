/* The functions from which schemes are built: begin a round, send a message, receive a message. They count the messages
 * sent, and call an observer. Only for the schemes in src/sync/. */
#pragma once

#include "sync/sync.h"

/* A chunk of an array. */
typedef gs_shard gs_chunk;

/* Chunk `i` of `parts` almost equal chunks: gs_shard_of for any integer i, taken modulo `parts`. If there are fewer
 * elements than chunks, some chunks are empty. */
GS_API gs_chunk gs_chunk_of(size_t count, int parts, int i);

/* Chunks first .. last-1 as one chunk. */
GS_API gs_chunk gs_chunk_range(size_t count, int parts, int first, int last);

/* Begin the next round. Each rank calls this for every round, even for a round in which it has nothing to do. */
GS_API void gs_sync_round(gs_sync *);
/* End the current round, by calling the observer. gs_sync_run does this for the last round. */
void gs_sync_round_done(gs_sync *);

/* Send or receive a chunk of the array `data`. An empty chunk sends nothing. On a 16-bit wire the chunk is also rounded
 * in `data`, so that the sender keeps the values that it has sent. */
GS_API gs_status gs_sync_send(gs_sync *, float *data, gs_chunk, int to);
GS_API gs_status gs_sync_recv(gs_sync *, float *data, gs_chunk, int from);

/* Receive a chunk into other memory: to[0 .. part.count - 1]. */
GS_API gs_status gs_sync_recv_to(gs_sync *, float *to, gs_chunk part, int from);

/* Round a chunk as gs_sync_send would: for a rank that keeps values that others receive in a message. */
GS_API void gs_sync_round_off(gs_sync *, float *data, gs_chunk);

/* Receive a chunk and add it: data[i] = data[i] + received[i]. */
GS_API gs_status gs_sync_recv_add(gs_sync *, float *data, gs_chunk, int from);

/* sum[i] = sum[i] + x[i] */
GS_API void gs_sync_add(float *sum, const float *x, size_t count);

/* The same for received values. In virtual time there are no data: only the clock advances. */
GS_API gs_status gs_sync_add_received(gs_sync *, float *sum, const float *x, size_t count);
bool gs_sync_is_virtual(const gs_sync *);

/* Record a message with this chunk, sent by one of the transport's exchanges, and call the observer. gs_sync_send does
 * this itself. */
void gs_sync_count_message(gs_sync *, const float *data, gs_chunk part, int to, size_t bytes);

/* For the cost formulas: count one more message, with this chunk of the array. */
GS_API void gs_sync_cost_add(gs_sync_cost *, const gs_sync_array *, gs_chunk);

/* Bytes in a message with this chunk: 2 for each value on a 16-bit wire, 4 for each value of the tail. */
GS_API size_t gs_sync_message_bytes(const gs_sync_array *, gs_chunk);

/* The number of the chunk's values that are sent in 16 bits. The others belong to the tail and are sent as f32. */
size_t gs_sync_narrow_count(const gs_sync_array *, gs_chunk);

/* How many floats of sync->scratch a scheme may use in a sum of `count` floats: two chunks of half the array. */
static inline size_t gs_sync_scratch_floats(size_t count) {
    return count + 1;
}

/* Bytes of sync->packed[0] and of [1]. A message needs 2 for each value and 4 for each value of the tail; allreduce.c
 * packs messages for all ranks, each with a chunk and the whole tail. */
static inline size_t gs_sync_packed_bytes(const gs_sync_array *most, int ranks) {
    size_t n = (size_t)ranks, chunk = (most->count + n - 1) / n;
    return n * (chunk * sizeof(uint16_t) + most->tail * sizeof(float));
}

/* The smallest k with 2^k >= n, and the largest k with 2^k <= n. */
static inline int gs_log2_up(int n) {
    int k = 0;
    while ((1 << k) < n) k++;
    return k;
}
static inline int gs_log2_down(int n) {
    int k = 0;
    while ((2 << k) <= n) k++;
    return k;
}

/* ---- fold.c: schemes for powers of two, on any number of ranks ---- */

typedef struct gs_fold {
    int places; /* the largest power of two that is at most the number of ranks */
    int extra;  /* ranks - places: the number of ranks that wait outside */
    int place;  /* 0 .. places-1, or -1: this rank waits */
} gs_fold;

GS_API gs_fold gs_fold_of(int ranks, int rank);
GS_API int gs_fold_rank(const gs_fold *, int place); /* the rank at a place */

/* Before the scheme the extra ranks hand over their data (gs_fold_in), and after it they receive the sum (gs_fold_out).
 * Each takes one round, or none if there are no extra ranks. */
GS_API gs_status gs_fold_in(gs_sync *, const gs_fold *, float *data, size_t count);
GS_API gs_status gs_fold_out(gs_sync *, const gs_fold *, float *data, size_t count);

/* The cost of gs_fold_in and gs_fold_out together, and their time. */
GS_API void gs_fold_cost(const gs_fold *, int rank, const gs_sync_array *, gs_sync_cost *);
double gs_fold_time(int ranks, double bytes, const gs_sync_model *);

/* auto.c: measure, choose sync->scheme for sums of sync->most floats (the same on every rank), and say why. */
gs_status gs_sync_choose(gs_sync *);
