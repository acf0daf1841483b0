/* Lab 7: the functions that you write in lab.c, and the calls for them.
 *
 * From src/sync/scheme.h (read it: it is short) you need
 *
 *     s->comm->rank, s->comm->size          this rank, and the number of ranks
 *     gs_chunk_of(count, parts, i)          part i of an array cut into `parts`; i is taken modulo parts
 *     gs_chunk_range(count, parts, a, b)    parts a .. b-1 as one
 *     gs_sync_round(s)                      begin the next round, before its messages
 *     gs_sync_send(s, data, chunk, to)      send this chunk of data to rank `to`
 *     gs_sync_recv(s, data, chunk, from)    receive this chunk of data, overwriting it
 *     gs_sync_recv_add(s, data, chunk, from)    receive it and add it to this chunk of data
 *     gs_sync_cost_add(&cost, a, chunk)     for formulas: one more message, with this chunk (none if it is empty)
 *
 * gs_sync_send, gs_sync_recv and gs_sync_recv_add can fail, and return a gs_status: GS_TRY(call) passes a failure on.
 * gs_sync_round and gs_sync_cost_add return nothing. A send does not wait for its receiver, so all ranks may send
 * first and then receive.
 */
#pragma once

#include "lab.h"
#include "sync/scheme.h"

/* ---- the ring: right neighbour is rank + 1, left neighbour rank - 1, modulo the ranks ---- */

/* 7.1: after N - 1 rounds, chunk rank + 1 is the sum over all ranks. */
gs_status ring_reduce_scatter(gs_sync *s, float *data, size_t count);

/* 7.2: before, chunk rank + 1 is complete on each rank; after N - 1 rounds, all ranks hold all chunks. */
gs_status ring_all_gather(gs_sync *s, float *data, size_t count);

/* 7.3: the messages that rank `rank` of `ranks` sends in both halves together: cost.rounds, and gs_sync_cost_add for
 * each message. The array has a->count floats; empty chunks are not sent, and do not count. ranks >= 2,
 * a->count >= 1. */
gs_sync_cost ring_cost(int ranks, int rank, const gs_sync_array *a);

/* 7.3: the seconds of both halves, if a message of B bytes takes m->alpha + m->beta B and adding B bytes to B others
 * m->gamma B. The whole array has `bytes` bytes, a chunk bytes / ranks. */
double ring_time(int ranks, double bytes, const gs_sync_model *m);

/* ---- halving and doubling, for a number of ranks that is a power of two ---- */

/* Chunks first .. last-1. */
typedef struct chunks {
    int first, last;
} chunks;

/* f->places ranks take part, numbered by f->place. (If the number of ranks is no power of two, given.c folds the extra
 * ones in first, and a place is not a rank: place p is rank gs_fold_rank(f, p).) The array is cut into f->places
 * chunks.
 *
 * 7.4: before, *has is {0, places}: a rank holds all chunks of its own gradient. In the rounds of distance 1, 2, 4, ...
 * below places it meets the partner whose place differs in that one bit. They halve *has: the place with a 0 bit keeps
 * the first half and sends the second; the place with a 1 bit keeps the second. Each adds what arrives. At the end *has
 * is one chunk, the sum over all. */
gs_status halving(gs_sync *s, const gs_fold *f, float *data, size_t count, chunks *has);

/* 7.5: the rounds of 7.4 backwards, distance places/2, ..., 2, 1: partners send each other all they hold. `has` is the
 * result of 7.4. At the end all ranks hold all chunks. */
gs_status doubling(gs_sync *s, const gs_fold *f, float *data, size_t count, chunks has);
