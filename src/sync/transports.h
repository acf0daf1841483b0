/* What the transports know of each other: comm_world.c is made of threads inside and another transport outside.
 * Only for src/sync/.
 */
#ifndef GS_SYNC_TRANSPORTS_H
#define GS_SYNC_TRANSPORTS_H

#include "sync/call.h"
#include "sync/scratch.h"

/* A message goes to another rank, and there is that rank: anything else is a mistake in the program. */
static inline void gs_check_peer(const gs_comm *c, const char *verb, int peer) {
    if (peer < 0 || peer >= c->size || peer == c->rank)
        gs_bug("rank %d of %d %s rank %d", c->rank, c->size, verb, peer);
}

/* The same for the root of a collective, which may be this rank itself. */
static inline void gs_check_root(const gs_comm *c, int root) {
    if (root < 0 || root >= c->size) gs_bug("rank %d of %d: the root is rank %d", c->rank, c->size, root);
}

/* ---- comm_threads.c ---- */

/* As gs_comm_threads_create, but messages call thread i "rank first + i": its number in the world. */
gs_status gs_threads_create(int size, int first, double timeout, gs_comm **comms);

/* result of thread 0 = data of all threads, reduced; data stay as they are, but result may be the data of
 * thread 0. The others' result is not looked at. `call` says how, and is what messages speak of. */
gs_status gs_threads_reduce_to_first(gs_comm *, const gs_call *call, const void *data, void *result);

/* Thread 0 shows its memory `shared` to all, and each thread, thread 0 too, moves its part into it or out of
 * it: move(context, shared). Returns when all have. move may be NULL: then this thread only takes part. */
typedef void (*gs_threads_move)(void *context, void *shared);
gs_status gs_threads_with_first(gs_comm *, const gs_call *call, void *shared, gs_threads_move, void *context);

/* As abort, with exactly this message. */
void gs_threads_fail(gs_comm *, const char *message);

/* After a failure: GS_E_PEER with the first message. */
gs_status gs_threads_failed(const gs_comm *);

/* ---- transports between processes ---- */

/* What comm_world.c wants of a transport between processes, beside the table of comm.h. */
typedef struct gs_process_ops {
    /* Messages about this comm say "process 1" where they would say "rank 1". */
    void (*of_processes)(gs_comm *);
    /* A message from rank `from` of the world to rank `to`, which process `process` holds. Several threads may
     * send and receive at the same time, each as its own rank. */
    gs_status (*send)(gs_comm *, const void *data, size_t bytes, int process, int from, int to);
    gs_status (*recv)(gs_comm *, void *data, size_t bytes, int process, int from, int to);
    /* Messages that are a part of a collective: they do not meet those of send and recv. A failure names
     * `call`. */
    gs_status (*send_part)(gs_comm *, const gs_call *call, const void *data, size_t bytes, int to);
    gs_status (*recv_part)(gs_comm *, const gs_call *call, void *data, size_t bytes, int from);
    /* As abort, with exactly this message; from any thread, also while another one waits in an operation. */
    void (*fail)(gs_comm *, const char *message);
} gs_process_ops;

/* ---- pairwise_reduce_scatter.c: made of send_part and recv_part ---- */

/* mine = elements first[r] .. first[r + 1] - 1 of `all` of all ranks, reduced as `call` says, where r is this
 * rank; all stays as it is, and mine may be this rank's place in it. What comes in goes through `received`. */
gs_status gs_pairwise_reduce_scatter(gs_comm *, const gs_call *call, const void *all, void *mine,
                                     const size_t *first, gs_scratch *received);

#endif
