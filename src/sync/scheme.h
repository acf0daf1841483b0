/* The vocabulary of the schemes: a round, a message out, a message in. These functions count what is sent, and tell an
 * observer. Only for the schemes of src/sync/.
 */
#pragma once

#include "core/shard.h"
#include "sync/sync.h"

/* A part of an array. */
typedef gs_shard gs_chunk;

/* Part `i` of `parts` almost equal ones: gs_shard_of, but i may be any integer, and is taken modulo `parts`. Some are
 * empty where there are fewer elements than parts. */
GS_API gs_chunk gs_chunk_of(size_t count, int parts, int i);

/* Parts first .. last-1 as one. */
GS_API gs_chunk gs_chunk_range(size_t count, int parts, int first, int last);

/* The next round begins. Each rank calls this for each round, even one in which it has nothing to do. */
GS_API void gs_sync_round(gs_sync *);
/* The present one has ended: tells the observer. Of the last round gs_sync_run calls it. */
void gs_sync_round_done(gs_sync *);

/* Send or receive a part of the array `data`. Nothing is sent for an empty part. Where the wire has 16 bits the
 * part is rounded in `data` too: the sender keeps what it has sent. */
GS_API gs_status gs_sync_send(gs_sync *, float *data, gs_chunk, int to);
GS_API gs_status gs_sync_recv(gs_sync *, float *data, gs_chunk, int from);

/* Receive a part into another place than its own: to[0 .. part.count - 1]. */
GS_API gs_status gs_sync_recv_to(gs_sync *, float *to, gs_chunk part, int from);

/* Round a part as sending it would: for a rank that keeps what others get as a message. */
GS_API void gs_sync_round_off(gs_sync *, float *data, gs_chunk);

/* Receive a part and add it: data[i] = data[i] + received[i]. */
GS_API gs_status gs_sync_recv_add(gs_sync *, float *data, gs_chunk, int from);

/* sum[i] = sum[i] + x[i] */
GS_API void gs_sync_add(float *sum, const float *x, size_t count);

/* The same of what came in. In virtual time, where there are no data, the clock moves on instead. */
GS_API gs_status gs_sync_add_received(gs_sync *, float *sum, const float *x, size_t count);
bool gs_sync_is_virtual(const gs_sync *);

/* A message with this part goes out in one of the transport's exchanges: count its bytes, and tell an observer.
 * gs_sync_send does this itself. */
void gs_sync_count_message(gs_sync *, const float *data, gs_chunk part, int to, size_t bytes);

/* For the formulas: one more message, with this part of the array. */
GS_API void gs_sync_cost_add(gs_sync_cost *, const gs_sync_array *, gs_chunk);

/* Bytes of a message with this part: 2 for each value on a wire of 16 bits, 4 for those of the tail. */
GS_API size_t gs_sync_message_bytes(const gs_sync_array *, gs_chunk);

/* The part's values that travel in 16 bits. Those behind them are of the tail, and travel as f32. */
size_t gs_sync_narrow_count(const gs_sync_array *, gs_chunk);

/* How many floats a scheme may use of sync->scratch in a sum of `count`: two chunks of one half. */
static inline size_t gs_sync_scratch_floats(size_t count) {
    return count + 1;
}

/* How many bytes sync->packed[0] and [1] have each. A message needs 2 for each value and 4 for those of the tail;
 * allreduce.c puts messages for all ranks there, each with a chunk and the whole tail. */
static inline size_t gs_sync_packed_bytes(const gs_sync_array *most, int ranks) {
    size_t n = (size_t)ranks, chunk = (most->count + n - 1) / n;
    return n * (chunk * sizeof(uint16_t) + most->tail * sizeof(float));
}

/* The smallest k with 2^k >= n, and the largest with 2^k <= n. */
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
    int places; /* the largest power of two that is not more than the ranks */
    int extra;  /* ranks - places: how many ranks wait outside */
    int place;  /* 0 .. places-1, or -1: this rank waits */
} gs_fold;

GS_API gs_fold gs_fold_of(int ranks, int rank);
GS_API int gs_fold_rank(const gs_fold *, int place); /* the rank in a place */

/* The extra ranks hand in their data before the scheme, and get the sum after it. One round each; none without
 * extras. */
GS_API gs_status gs_fold_in(gs_sync *, const gs_fold *, float *data, size_t count);
GS_API gs_status gs_fold_out(gs_sync *, const gs_fold *, float *data, size_t count);

/* What both send together, and how long they take. */
GS_API void gs_fold_cost(const gs_fold *, int rank, const gs_sync_array *, gs_sync_cost *);
double gs_fold_time(int ranks, double bytes, const gs_sync_model *);

/* auto.c: measure, choose sync->scheme for sums of sync->most floats, the same on every rank, and say why. */
gs_status gs_sync_choose(gs_sync *);
