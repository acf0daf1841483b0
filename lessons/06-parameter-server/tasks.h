/* Lab 6: the functions that you write in lab.c, and the calls for them.
 *
 * All ranks run the same functions; `s->comm->rank` says which rank this is. From src/sync/scheme.h (read it: it is
 * short) you need
 *
 *     s->comm->rank, s->comm->size          this rank, and the number of ranks
 *     gs_chunk_of(count, parts, i)          part i of an array cut into `parts`; (gs_chunk){0, count} is all of it
 *     gs_sync_round(s)                      begin the next round; every rank calls it once in each round
 *     gs_sync_send(s, data, chunk, to)      send this chunk of data to rank `to`
 *     gs_sync_recv(s, data, chunk, from)    receive this chunk of data, overwriting it
 *     gs_sync_recv_add(s, data, chunk, from)    receive it and add it to this chunk of data
 *     gs_sync_cost_add(&cost, a, chunk)     for formulas: one more message, with this chunk (none if it is empty)
 *
 * Sending, receiving and adding can fail; GS_TRY(call) passes the failure on. A send does not wait for its receiver, so
 * all ranks may send first and then receive.
 */
#pragma once

#include "lab.h"
#include "sync/scheme.h"

/* ---- one server: rank 0, which is a worker too ---- */

/* 6.1, one round: each worker (rank 1 and up) sends its gradient to rank 0. Then rank 0 holds the sum of all,
 * g0 + g1 + ... in the order of the ranks, and each worker still holds its own. This is a sum, not a mean: the update
 * divides by the number of samples (lesson 5 says why). */
gs_status collect(gs_sync *s, float *data, size_t count);

/* 6.2, one round: rank 0 sends the sum to every worker, where it replaces the gradient. */
gs_status give_back(gs_sync *s, float *data, size_t count);

/* 6.3: the messages that rank `rank` of `ranks` sends in both rounds together: cost.rounds, and gs_sync_cost_add for
 * each message. The array has a->count floats. ranks >= 2, a->count >= 1. */
gs_sync_cost server_cost(int ranks, int rank, const gs_sync_array *a);

/* 6.3: the seconds of both rounds, if a message of B bytes takes m->alpha + m->beta B, adding B bytes to B others takes
 * m->gamma B, and rank 0 receives, adds and sends sequentially. The array has `bytes` bytes. */
double server_time(int ranks, double bytes, const gs_sync_model *m);

/* ---- every rank a server ---- */

/* 6.4, two rounds: cut the array into as many chunks as there are ranks; rank r is the server of chunk r. In the first
 * round each rank sends every other rank that rank's chunk, and adds up its own chunk. In the second it sends its
 * summed chunk to all others. Then all ranks hold the whole sum. */
gs_status sharded(gs_sync *s, float *data, size_t count);
