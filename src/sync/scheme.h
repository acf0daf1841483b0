/* The words that schemes are written in: a round, a message out, a message in. They count what is sent and
 * tell an observer. Only for the schemes of src/sync/.
 */
#ifndef GS_SYNC_SCHEME_H
#define GS_SYNC_SCHEME_H

#include "sync/sync.h"

/* A part of an array. */
typedef struct gs_chunk {
    size_t first, count;
} gs_chunk;

/* Part `i` of `parts` almost equal ones: their sizes differ by one element at most, and some are empty where
 * there are fewer elements than parts. i may be any integer: it is taken modulo `parts`. */
gs_chunk gs_chunk_of(size_t count, int parts, int i);

/* Parts first .. last-1 as one. */
gs_chunk gs_chunk_range(size_t count, int parts, int first, int last);

/* The next round begins. Each rank says so for each round, also where it has nothing to do in it. */
void gs_sync_round(gs_sync *);

/* Send or receive a part of the array `data`. Nothing is sent for an empty part. */
gs_status gs_sync_send(gs_sync *, const float *data, gs_chunk, int to);
gs_status gs_sync_recv(gs_sync *, float *data, gs_chunk, int from);

/* Receive a part and add it: data[i] = data[i] + received[i]. */
gs_status gs_sync_recv_add(gs_sync *, float *data, gs_chunk, int from);

/* sum[i] = sum[i] + x[i] */
void gs_sync_add(float *restrict sum, const float *restrict x, size_t count);

/* For the formulas: `elements` more are sent, as one message. */
void gs_sync_cost_add(gs_sync_cost *, size_t elements);

/* How many floats a scheme may use of sync->scratch in a sum of `count`: two chunks of one half. */
static inline size_t gs_sync_scratch_floats(size_t count) {
    return count + 1;
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
    int extra;  /* ranks - places: so many ranks wait outside */
    int place;  /* 0 .. places-1, or -1: this rank waits */
} gs_fold;

gs_fold gs_fold_of(int ranks, int rank);
int gs_fold_rank(const gs_fold *, int place); /* the rank in a place */

/* The extra ranks hand their data in before, and get the sum after. One round each; none without extras. */
gs_status gs_fold_in(gs_sync *, const gs_fold *, float *data, size_t count);
gs_status gs_fold_out(gs_sync *, const gs_fold *, float *data, size_t count);

/* What both send together, and how long they take. */
void gs_fold_cost(const gs_fold *, int rank, size_t count, gs_sync_cost *);
double gs_fold_time(int ranks, double bytes, const gs_sync_model *);

#endif
