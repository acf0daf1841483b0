/* Communication between workers: one table of functions, filled by each transport.
 *
 * A worker is a rank, 0 .. size-1, with a gs_comm of its own. The transports:
 *
 *     threads/   workers are threads of one process: shared memory
 *     shm/       workers are processes of one machine, one rank each: shared memory
 *     gloo/      workers are processes, one rank each: Gloo over TCP (gloo/gloo_c.cc is its C face)
 *     two_level/ the same, with shared memory between those of one machine
 *     mpi/       the same over MPI, where the build finds it and mpirun starts the processes
 *     threads_in_processes/
 *                processes that hold several threads each: threads inside, one of the others between
 *
 *     virtual/   no workers: what they would send is written down, and executed in virtual time
 *
 * and around any of them linked.c, which makes messages slow, checked.c, which finds calls that do not fit together,
 * and inject/, which makes faults for tests. create.h makes them; split.h: of some ranks of another.
 *
 * Buffers are host memory; a device's buffer is mapped first (device.h). All ranks call the same
 * collectives in the same order with the same counts, types, reductions and roots. Reductions are done in a
 * fixed order: every rank gets the same bits, and so does a second run. A count of 0 and a size of 1 are
 * allowed everywhere. Collectives and messages (send, recv) are independent: a message may be sent before a
 * collective and received after it.
 *
 * Errors: GS_E_PEER when a rank is lost or does not arrive within `timeout` seconds. The message names this rank, the
 * operation and, where known, the missing rank. After that the comm is broken: every later call fails at once with the
 * first message. Nothing waits forever.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "core/error.h"
#include "comm/call.h"

typedef struct gs_comm {
    const struct gs_transport *ops;
    int rank, size;
    double timeout; /* seconds that one wait may take */
    void *state;    /* the transport's own */
} gs_comm;

enum { GS_TIMEOUT = 30 /* seconds, by default */ };

/* ---- operations ---- */

/* Make any call, by the transport's send, recv or collective. Buffers: gs_call_bytes_of; one of 0 bytes may be NULL. */
GS_API gs_status gs_call_run(gs_comm *, const gs_call *, const void *in, void *out);

/* `bytes` bytes from one rank to another. send may return before the receiver has them; `data` may be changed then.
 * Messages between one pair of ranks arrive in order. Two of them may be under way before send waits for the receiver,
 * so all ranks may send first and receive after. */
static inline gs_status gs_comm_send(gs_comm *c, const void *data, size_t bytes, int to) {
    const gs_call call = {GS_SEND, bytes, GS_U8, GS_SUM, to}; /* operation, count, type, reduction, root */
    return gs_call_run(c, &call, data, NULL);
}
static inline gs_status gs_comm_recv(gs_comm *c, void *data, size_t bytes, int from) {
    const gs_call call = {GS_RECV, bytes, GS_U8, GS_SUM, from};
    return gs_call_run(c, &call, NULL, data);
}

/* data of `root` -> data of all */
static inline gs_status gs_comm_broadcast(gs_comm *c, void *data, size_t count, gs_type type, int root) {
    const gs_call call = {GS_BROADCAST, count, type, GS_SUM, root};
    return gs_call_run(c, &call, NULL, data);
}

/* data[i] = data[i] of all ranks, reduced; on every rank the same bits */
static inline gs_status gs_comm_all_reduce(gs_comm *c, void *data, size_t count, gs_type type,
                                           gs_reduction how) {
    const gs_call call = {GS_ALL_REDUCE, count, type, how, 0};
    return gs_call_run(c, &call, NULL, data);
}

/* the same on `root` only; on the others data stays as it is */
static inline gs_status gs_comm_reduce(gs_comm *c, void *data, size_t count, gs_type type, gs_reduction how,
                                       int root) {
    const gs_call call = {GS_REDUCE, count, type, how, root};
    return gs_call_run(c, &call, NULL, data);
}

/* all[r * count ..] = mine of rank r, on every rank; mine may be this rank's place in `all` */
static inline gs_status gs_comm_all_gather(gs_comm *c, const void *mine, void *all, size_t count,
                                           gs_type type) {
    const gs_call call = {GS_ALL_GATHER, count, type, GS_SUM, 0};
    return gs_call_run(c, &call, mine, all);
}

/* the same on `root` only; the others' `all` is ignored and may be NULL */
static inline gs_status gs_comm_gather(gs_comm *c, const void *mine, void *all, size_t count, gs_type type,
                                       int root) {
    const gs_call call = {GS_GATHER, count, type, GS_SUM, root};
    return gs_call_run(c, &call, mine, all);
}

/* mine of rank r = all[r * count ..] of `root`; the others' `all` may be NULL */
static inline gs_status gs_comm_scatter(gs_comm *c, const void *all, void *mine, size_t count, gs_type type,
                                        int root) {
    const gs_call call = {GS_SCATTER, count, type, GS_SUM, root};
    return gs_call_run(c, &call, all, mine);
}

/* mine = this rank's part of all[0 .. total-1] of all ranks, reduced. Part r is gs_shard_of(total, r, size): the counts
 * differ by at most 1. `all` stays as it is; mine may be this rank's place in it. */
static inline gs_status gs_comm_reduce_scatter(gs_comm *c, const void *all, void *mine, size_t total,
                                               gs_type type, gs_reduction how) {
    const gs_call call = {GS_REDUCE_SCATTER, total, type, how, 0};
    return gs_call_run(c, &call, all, mine);
}

/* to[r * count ..] of rank q = from[q * count ..] of rank r; the two must not overlap */
static inline gs_status gs_comm_all_to_all(gs_comm *c, const void *from, void *to, size_t count,
                                           gs_type type) {
    const gs_call call = {GS_ALL_TO_ALL, count, type, GS_SUM, 0};
    return gs_call_run(c, &call, from, to);
}

/* return when all ranks have called it */
static inline gs_status gs_comm_barrier(gs_comm *c) {
    const gs_call call = {GS_BARRIER, 0, GS_F32, GS_SUM, 0};
    return gs_call_run(c, &call, NULL, NULL);
}

/* The number by which messages of failures name this rank. */
GS_API int gs_comm_reported_rank(const gs_comm *);

/* Tell the others that this rank cannot go on: any rank that waits for it fails at once with "rank R: reason". */
GS_API void gs_comm_abort(gs_comm *, const char *reason);

/* ---- transports ---- */

/* What is written on a message. Messages arrive in order where sender, receiver and kind are the same, and do not meet
 * the others; the kinds are messages (GS_SEND, GS_RECV) and parts of collectives. */
typedef struct gs_envelope {
    int peer; /* the rank on the other side */
    /* Sender and receiver; where a process holds several workers, as ranks of the world. */
    int from, to;
    const gs_call *call; /* what the message is, or what it is a part of: for messages of failures */
} gs_envelope;

struct gs_sync;

/* A transport has send, recv, abort and free; everything else has a default. */
typedef struct gs_transport {
    const char *name; /* "threads", "shm", "gloo", "two-level", "mpi" */
    gs_status (*send)(gs_comm *, const gs_envelope *, const void *data, size_t bytes);
    gs_status (*recv)(gs_comm *, const gs_envelope *, void *data, size_t bytes);
    /* The collectives, as gs_call_run. NULL, or a call of gs_collective_by_messages for those that the transport cannot
     * do faster itself: they are made of send and recv (collectives.c). */
    gs_status (*collective)(gs_comm *, const gs_call *, const void *in, void *out);
    /* From here on every call fails with this message, on all ranks; the first one stays. From any thread, even while
     * another one waits in an operation. */
    void (*abort)(gs_comm *, const char *message);
    void (*free)(gs_comm *);
    /* Of a transport between processes: several workers will be in each, so that messages of failures say "process 1"
     * where they would say "rank 1", and several threads will send and receive at once. NULL: not between processes. */
    void (*set_multithreaded)(gs_comm *);
    /* The number of this rank in messages of failures; of a part of a comm (split.h), that in the whole. NULL: its
     * rank. */
    int (*reported_rank)(const gs_comm *);
    /* In virtual time (predict/message_lists.c) there are no data: called instead of adding so many bytes to others.
     * NULL: add them. */
    gs_status (*added)(gs_comm *, size_t bytes);
    /* In a dry run (predict/dry_run.c): called instead of a scheme's sum (gs_sync_run), or of the collective `call` of
     * `part`, which is this comm or a part of it. Else NULL. */
    gs_status (*dry)(gs_comm *, const gs_comm *part, const gs_call *, const struct gs_sync *sum);
} gs_transport;

GS_API gs_status gs_collective_by_messages(gs_comm *, const gs_call *, const void *in, void *out);

/* NULL is allowed. */
static inline void gs_comm_free(gs_comm *c) {
    if (c) c->ops->free(c);
}
