/* What the transports know of each other: comm_world.c is made of threads inside and Gloo outside.
 * Only for src/sync/.
 */
#ifndef GS_SYNC_TRANSPORTS_H
#define GS_SYNC_TRANSPORTS_H

#include "sync/comm.h"

/* A message goes to another rank, and there is that rank: anything else is a mistake in the program. */
static inline void gs_check_peer(const gs_comm *c, const char *verb, int peer) {
    if (peer < 0 || peer >= c->size || peer == c->rank)
        gs_bug("rank %d of %d %s rank %d", c->rank, c->size, verb, peer);
}

/* ---- comm_threads.c ---- */

/* As gs_comm_threads_create, but messages call thread i "rank first + i": its number in the world. */
gs_status gs_threads_create(int size, int first, double timeout, gs_comm **comms);

/* data of thread 0 = sum over all threads; the others' data stay as they are. Returns when the sum is
 * there. */
gs_status gs_threads_reduce(gs_comm *, float *data, size_t count);

/* As abort, with exactly this message. */
void gs_threads_fail(gs_comm *, const char *message);

/* After a failure: GS_E_PEER with the first message. */
gs_status gs_threads_failed(const gs_comm *);

/* ---- comm_gloo.c ---- */

extern const gs_transport gs_transport_gloo;

/* Messages about this comm say "process 1" where they would say "rank 1". */
void gs_gloo_comm_of_processes(gs_comm *);

/* A message from rank `from` of the world to rank `to`, which process `process` holds. Several threads may
 * send and receive at the same time, each as its own rank. */
gs_status gs_gloo_comm_send(gs_comm *, const void *data, size_t bytes, int process, int from, int to);
gs_status gs_gloo_comm_recv(gs_comm *, void *data, size_t bytes, int process, int from, int to);

/* As abort, with exactly this message; from any thread, also while another one waits in an operation. */
void gs_gloo_comm_fail(gs_comm *, const char *message);

#endif
