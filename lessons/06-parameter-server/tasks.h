/* Lab 6: what you write in lab.c, and what it is written in.
 *
 * All ranks run the same functions; `s->comm->rank` says which rank this is. From src/sync/scheme.h (read it: it is
 * short) you need
 *
 *     s->comm->rank, s->comm->size          who am I, and how many are we
 *     gs_chunk_of(count, parts, i)          part i of an array cut into `parts`; (gs_chunk){0, count} is all of it
 *     gs_sync_round(s)                      the next round begins: every rank says so, once in each round
 *     gs_sync_send(s, data, chunk, to)      send this chunk of data to rank `to`
 *     gs_sync_recv(s, data, chunk, from)    receive this chunk to its place in data: what was there is gone
 *     gs_sync_recv_add(s, data, chunk, from)    receive it and add it to what is there
 *     gs_sync_cost_add(&cost, a, chunk)     for formulas: one more message, with this chunk (none if it is empty)
 *
 * Sending, receiving and adding can fail; GS_TRY(call) passes the failure on. A send does not wait for its receiver, so
 * all may send first and receive then.
 */
#pragma once

#include "lab.h"
#include "sync/scheme.h"

/* ---- one server: rank 0, which is a worker too ---- */

/* 6.1, one round: each worker (rank 1 and up) sends its gradient to rank 0. After it, rank 0 has the sum of all,
 * g0 + g1 + ... in the order of the ranks, and the workers have what they had. A sum, not a mean: the division by the
 * number of samples comes later, in the update (lesson 8 says why). */
gs_status collect(gs_sync *s, float *data, size_t count);

/* 6.2, one round: rank 0 sends the sum to every worker, and there it takes the gradient's place. */
gs_status give_back(gs_sync *s, float *data, size_t count);

/* 6.3: what rank `rank` of `ranks` sends in both rounds together: cost.rounds, and its messages, which
 * gs_sync_cost_add counts with their bytes. The array has a->count floats. ranks >= 2, a->count >= 1. */
gs_sync_cost server_cost(int ranks, int rank, const gs_sync_array *a);

/* 6.3: and how long both take, where a message of B bytes takes m->alpha + m->beta B seconds, adding B bytes to B
 * others m->gamma B, and rank 0 does one thing after the other. `bytes` are those of the array. */
double server_time(int ranks, double bytes, const gs_sync_model *m);

/* ---- every rank a server ---- */

/* 6.4, two rounds: the array is cut into as many chunks as there are ranks, and rank r is the server of chunk r. In the
 * first round each rank sends to every other one the chunk that this one serves, and adds up its own chunk; in the
 * second it sends its whole chunk to all others. After it all ranks have the sum of everything. */
gs_status sharded(gs_sync *s, float *data, size_t count);
