/* Lab 7: what you write in lab.c, and what it is written in.
 *
 * From src/sync/scheme.h (read it: it is short) you need
 *
 *     s->comm->rank, s->comm->size          who am I, and how many are we
 *     gs_chunk_of(count, parts, i)          part i of an array cut into `parts`; i is taken modulo parts
 *     gs_chunk_range(count, parts, a, b)    parts a .. b-1 as one
 *     gs_sync_round(s)                      the next round begins: once in each round, before its messages
 *     gs_sync_send(s, data, chunk, to)      send this chunk of data to rank `to`
 *     gs_sync_recv(s, data, chunk, from)    receive this chunk to its place in data: what was there is gone
 *     gs_sync_recv_add(s, data, chunk, from)    receive it and add it to what is there
 *     gs_sync_cost_add(&cost, a, chunk)     for formulas: one more message, with this chunk (none if it is empty)
 *
 * gs_sync_send, gs_sync_recv and gs_sync_recv_add can fail, and return a gs_status: GS_TRY(call) passes a failure on.
 * gs_sync_round and gs_sync_cost_add return nothing. A send does not wait for its receiver, so all may send first and
 * receive then.
 */
#pragma once

#include "lab.h"
#include "sync/scheme.h"

/* ---- the ring: right neighbour is rank + 1, left neighbour rank - 1, modulo the ranks ---- */

/* 7.1: after N - 1 rounds, chunk rank + 1 is the sum over all ranks. */
gs_status ring_reduce_scatter(gs_sync *s, float *data, size_t count);

/* 7.2: before, chunk rank + 1 is whole on each rank; after N - 1 rounds, all chunks are on all ranks. */
gs_status ring_all_gather(gs_sync *s, float *data, size_t count);

/* 7.3: what rank `rank` of `ranks` sends in the two together: cost.rounds, and its messages, which gs_sync_cost_add
 * counts with their bytes. The array has a->count floats; empty chunks are not sent, and do not count. ranks >= 2,
 * a->count >= 1. */
gs_sync_cost ring_cost(int ranks, int rank, const gs_sync_array *a);

/* 7.3: and how long both take, where a message of B bytes takes m->alpha + m->beta B seconds and adding B bytes to B
 * others m->gamma B. `bytes` are those of the whole array; chunks are bytes / ranks. */
double ring_time(int ranks, double bytes, const gs_sync_model *m);

/* ---- halving and doubling, for a number of ranks that is a power of two ---- */

/* Chunks first .. last-1. */
typedef struct chunks {
    int first, last;
} chunks;

/* `places` ranks take part, and this one is `place` of them. (Where the number of ranks is no power of two, lab.c lets
 * the extra ones wait outside, and places are not ranks: partner place p is rank gs_fold_rank(f, p).) The array is cut
 * into f->places chunks.
 *
 * 7.4: before, a rank has chunks 0 .. places-1, all of them its own gradient, and *has is {0, places}. In the rounds
 * of distance 1, 2, 4, ... below places it meets the partner whose place differs from its own in that one bit. They
 * halve what they have: who has a 0 there keeps the first half and sends the second, who has a 1 keeps the second. What
 * comes in is added. At the end *has is one chunk, and that is the sum over all. */
gs_status halving(gs_sync *s, const gs_fold *f, float *data, size_t count, chunks *has);

/* 7.5: the same rounds backwards, distance places/2, ..., 2, 1: partners send each other what they have, and then both
 * have both. `has` is what 7.4 has ended with. At the end all chunks are on all ranks. */
gs_status doubling(gs_sync *s, const gs_fold *f, float *data, size_t count, chunks has);
