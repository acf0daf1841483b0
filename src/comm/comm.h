/* Communication between workers: a table of functions, which each transport fills in (README.md lists the transports).
 *
 * A worker is a rank, 0 .. size-1, with its own gs_comm. create.h creates comms; split.h makes a new comm of some ranks
 * of an existing one. Any comm can be wrapped: by linked.c, which makes messages slow; by checked.c, which finds
 * mismatched calls; by inject/, which injects faults for tests.
 *
 * Buffers are in host memory; device.h maps a device's buffers first. All ranks call the same collectives in the same
 * order with the same counts, types, reductions and roots. Reductions add in a fixed order, so every rank and every run
 * get the same bits. A count of 0 and a size of 1 are allowed everywhere. Collectives and messages (send, recv) are
 * independent: a message may be sent before a collective and received after it.
 *
 * Errors: GS_E_PEER when a rank is lost or does not arrive within `timeout` seconds. The message names this rank, the
 * operation and, if known, the missing rank. Then the comm is broken: every later call fails at once with the first
 * message. Nothing waits forever. */
#pragma once

#include "core/error.h"
#include "comm/call.h"

typedef struct gs_comm {
    const struct gs_transport *ops;
    int rank, size;
    double timeout; /* of each wait, in seconds */
    void *state;    /* the transport's own */
} gs_comm;

enum { GS_TIMEOUT = 30 /* seconds, by default */ };

/* ---- operations ---- */

/* Run any call. gs_call_bytes_of gives the sizes of the buffers; a buffer of 0 bytes may be NULL. */
GS_API gs_status gs_call_run(gs_comm *, const gs_call *, const void *in, void *out);

/* Move `bytes` bytes from one rank to another. send may return before the receiver has them; `data` may be changed as
 * soon as it returns. Messages between two ranks arrive in order. send waits for the receiver only if two messages are
 * already under way, so all ranks may send first and receive afterwards. */
static inline gs_status gs_comm_send(gs_comm *c, const void *data, size_t bytes, int to) {
    const gs_call call = {GS_SEND, bytes, GS_U8, GS_SUM, to}; /* operation, count, type, reduction, root */
    return gs_call_run(c, &call, data, NULL);
}
static inline gs_status gs_comm_recv(gs_comm *c, void *data, size_t bytes, int from) {
    const gs_call call = {GS_RECV, bytes, GS_U8, GS_SUM, from};
    return gs_call_run(c, &call, NULL, data);
}

/* data on every rank = data of `root` */
static inline gs_status gs_comm_broadcast(gs_comm *c, void *data, size_t count, gs_type type, int root) {
    const gs_call call = {GS_BROADCAST, count, type, GS_SUM, root};
    return gs_call_run(c, &call, NULL, data);
}

/* data[i] = data[i] of all ranks, reduced; every rank gets the same bits */
static inline gs_status gs_comm_all_reduce(gs_comm *c, void *data, size_t count, gs_type type,
                                           gs_reduction how) {
    const gs_call call = {GS_ALL_REDUCE, count, type, how, 0};
    return gs_call_run(c, &call, NULL, data);
}

/* data[i] = data[i] of all ranks, reduced, on `root` only; the other ranks' data is unchanged */
static inline gs_status gs_comm_reduce(gs_comm *c, void *data, size_t count, gs_type type, gs_reduction how,
                                       int root) {
    const gs_call call = {GS_REDUCE, count, type, how, root};
    return gs_call_run(c, &call, NULL, data);
}

/* all[r * count ..] = mine of rank r, on every rank; mine may be this rank's part of `all` */
static inline gs_status gs_comm_all_gather(gs_comm *c, const void *mine, void *all, size_t count,
                                           gs_type type) {
    const gs_call call = {GS_ALL_GATHER, count, type, GS_SUM, 0};
    return gs_call_run(c, &call, mine, all);
}

/* all[r * count ..] = mine of rank r, on `root` only; the others' `all` is ignored and may be NULL */
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

/* mine = this rank's part of all[0 .. total-1], reduced over all ranks. Part r is gs_shard_of(total, r, size): counts
 * differ by at most 1. `all` is unchanged, except that mine may be this rank's part of it. */
static inline gs_status gs_comm_reduce_scatter(gs_comm *c, const void *all, void *mine, size_t total,
                                               gs_type type, gs_reduction how) {
    const gs_call call = {GS_REDUCE_SCATTER, total, type, how, 0};
    return gs_call_run(c, &call, all, mine);
}

/* to[r * count ..] of rank q = from[q * count ..] of rank r; `from` and `to` must not overlap */
static inline gs_status gs_comm_all_to_all(gs_comm *c, const void *from, void *to, size_t count,
                                           gs_type type) {
    const gs_call call = {GS_ALL_TO_ALL, count, type, GS_SUM, 0};
    return gs_call_run(c, &call, from, to);
}

/* returns when all ranks have called it */
static inline gs_status gs_comm_barrier(gs_comm *c) {
    const gs_call call = {GS_BARRIER, 0, GS_F32, GS_SUM, 0};
    return gs_call_run(c, &call, NULL, NULL);
}

/* The number of this rank in failure messages. */
GS_API int gs_comm_reported_rank(const gs_comm *);

/* Tell the other ranks that this rank has failed: any rank that waits for it fails at once with "rank R: reason". */
GS_API void gs_comm_abort(gs_comm *, const char *reason);

/* ---- transports ---- */

/* The address of a message. There are two kinds: messages of GS_SEND and GS_RECV, and parts of collectives. Messages
 * with the same sender, receiver and kind arrive in order. */
typedef struct gs_envelope {
    int peer;     /* the rank on the other side */
    int from, to; /* sender and receiver; ranks of the world if processes hold several workers */
    /* For failure messages: the call of this message, or of the collective that it is a part of. */
    const gs_call *call;
} gs_envelope;

struct gs_sync;

/* send, recv, abort and free are required; the others have defaults. */
typedef struct gs_transport {
    const char *name; /* "threads", "shm", "gloo", "two-level", "mpi" */
    gs_status (*send)(gs_comm *, const gs_envelope *, const void *data, size_t bytes);
    gs_status (*recv)(gs_comm *, const gs_envelope *, void *data, size_t bytes);
    /* Runs a collective, like gs_call_run. A collective that the transport cannot speed up is passed to
     * gs_collective_by_messages, which composes it of send and recv (collectives.c). NULL: all go there. */
    gs_status (*collective)(gs_comm *, const gs_call *, const void *in, void *out);
    /* Makes every later call fail with this message, on all ranks; the first message is kept. May be called from any
     * thread, even while another thread waits in an operation. */
    void (*abort)(gs_comm *, const char *message);
    void (*free)(gs_comm *);
    /* Announces that each process will hold several workers: failure messages then say "process 1" instead of "rank 1",
     * and several threads may send and receive at once. NULL: the transport does not connect processes. */
    void (*set_multithreaded)(gs_comm *);
    /* The number of this rank in failure messages: in a split comm, its number in the parent. NULL: its rank. */
    int (*reported_rank)(const gs_comm *);
    /* In virtual time (predict/message_lists.c), which has no data, called instead of adding `bytes` bytes to others.
     * NULL: add them. */
    gs_status (*added)(gs_comm *, size_t bytes);
    /* Called in a dry run (predict/dry_run.c), in place of either a scheme's sum (gs_sync_run) or the collective `call`
     * on `part`, which is this comm or a split of it. NULL outside dry runs. */
    gs_status (*dry)(gs_comm *, const gs_comm *part, const gs_call *, const struct gs_sync *sum);
} gs_transport;

GS_API gs_status gs_collective_by_messages(gs_comm *, const gs_call *, const void *in, void *out);

/* NULL is allowed. */
static inline void gs_comm_free(gs_comm *c) {
    if (c) c->ops->free(c);
}
