/* Communication between workers: one table of functions, filled by each transport.
 *
 * A worker is a rank, 0 .. size-1, with a gs_comm of its own. The transports:
 *
 *     comm_threads.c   workers are threads of one process: shared memory
 *     comm_shm.c       workers are processes of one machine, one rank each: shared memory
 *     comm_gloo.c      workers are processes, one rank each: Gloo over TCP (gloo_c.cc is its C face)
 *     comm_mpi.c       the same over MPI, where the build finds it and mpirun starts the processes
 *     comm_world.c     processes that hold several threads each: threads inside, one of the others between
 *
 * and around any of them comm_checked.c, which finds calls that do not fit together.
 *
 * Buffers are host memory; a device's buffer is mapped first (comm_device.h). All ranks call the same
 * collectives in the same order with the same counts, types, reductions and roots. Reductions are done in a
 * fixed order: every rank gets the same bits, and so does a second run. A count of 0 and a size of 1 are
 * allowed everywhere. Collectives and messages (send, recv) do not get into each other's way: a message may
 * be sent before a collective and received after it.
 *
 * Errors: GS_E_PEER when a rank was lost or did not come within `timeout` seconds: the message names this
 * rank, the operation and, where known, the missing rank. After that the comm is broken: every later call
 * fails at once with the first message. Nothing waits for ever.
 */
#ifndef GS_SYNC_COMM_H
#define GS_SYNC_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include "core/error.h"
#include "sync/types.h"

typedef struct gs_comm gs_comm;

typedef struct gs_transport {
    const char *name; /* "threads", "shm", "gloo", "mpi", "world" */
    /* `bytes` bytes from rank to another rank; send may return before the receiver has them, but `data` may
     * then be changed. Messages between one pair of ranks arrive in order. Two of them may be under way: that
     * far send never waits for the receiver, so all ranks may send first and receive then. */
    gs_status (*send)(gs_comm *, const void *data, size_t bytes, int to);
    gs_status (*recv)(gs_comm *, void *data, size_t bytes, int from);
    /* data of `root` -> data of all */
    gs_status (*broadcast)(gs_comm *, void *data, size_t count, gs_type, int root);
    /* data[i] = data[i] of all ranks, reduced; on every rank the same bits */
    gs_status (*all_reduce)(gs_comm *, void *data, size_t count, gs_type, gs_reduction);
    /* the same on `root` only; on the others data stays as it is */
    gs_status (*reduce)(gs_comm *, void *data, size_t count, gs_type, gs_reduction, int root);
    /* all[r * count ..] = mine of rank r, on every rank; mine may be this rank's place in `all` */
    gs_status (*all_gather)(gs_comm *, const void *mine, void *all, size_t count, gs_type);
    /* the same on `root` only; the others' `all` is not looked at and may be NULL */
    gs_status (*gather)(gs_comm *, const void *mine, void *all, size_t count, gs_type, int root);
    /* mine of rank r = all[r * count ..] of `root`; the others' `all` may be NULL */
    gs_status (*scatter)(gs_comm *, const void *all, void *mine, size_t count, gs_type, int root);
    /* mine = this rank's part of all[0 .. total-1] of all ranks, reduced. Part r is gs_shard_of(total, r,
     * size): the counts differ by at most 1. `all` stays as it is; mine may be this rank's place in it. */
    gs_status (*reduce_scatter)(gs_comm *, const void *all, void *mine, size_t total, gs_type, gs_reduction);
    /* to[r * count ..] of rank q = from[q * count ..] of rank r; the two must not overlap */
    gs_status (*all_to_all)(gs_comm *, const void *from, void *to, size_t count, gs_type);
    /* return when all ranks have called it */
    gs_status (*barrier)(gs_comm *);
    /* Tell the others that this rank cannot go on: whoever waits for it fails at once with "rank R: reason". */
    void (*abort)(gs_comm *, const char *reason);
    void (*free)(gs_comm *);
    const struct gs_process_ops *between; /* of a transport between processes (transports.h); else NULL */
} gs_transport;

struct gs_comm {
    const gs_transport *ops;
    int rank, size;
    double timeout; /* seconds that one wait may take */
    void *state;    /* the transport's own */
};

/* comms[0..size-1] for `size` threads of this process (size 1 is the comm of a lone worker). Free each of
 * them once, in any order; the last one takes the shared part with it. */
gs_status gs_comm_threads_create(int size, double timeout, gs_comm **comms);

/* Where a process stands among its peers, and how they meet. */
typedef struct gs_rendezvous {
    int rank, size;        /* of processes */
    const char *directory; /* an existing folder, new for each run, that all processes can write to */
    const char *address;   /* this machine's address or host name for the others; NULL: 127.0.0.1 */
    double timeout;        /* seconds to wait for the others, and for one later wait; NOT 0 */
    const char *transport; /* what the processes talk over: see gs_comm_processes_create; NULL: "auto" */
    bool library; /* over gloo: all_reduce is Gloo's own also for 2 processes, where ours is faster */
} gs_rendezvous;

enum { GS_TIMEOUT = 30 /* seconds, where nobody says otherwise */ };

/* What `gradsum launch` has put into the environment: GRADSUM_RANK, GRADSUM_WORLD_SIZE, GRADSUM_RENDEZVOUS
 * (the folder), and if set GRADSUM_TIMEOUT, GRADSUM_ADDRESS and GRADSUM_TRANSPORT. Where the first three are not set this is a
 * lone process: size 1, no folder; but where mpirun has started several (OMPI_COMM_WORLD_RANK and _SIZE), rank
 * and size are MPI's, and the transport is "mpi". GS_E_USAGE: a value makes no sense, or only some are set. The
 * strings are the environment's. */
gs_status gs_rendezvous_from_environment(gs_rendezvous *);

/* Meet the other processes. Each first leaves a file in the folder and waits until all have come, so that a
 * missing one is named: "rank 0 waited 30 s for rank 2 of 4, which never came". When all are connected the
 * files are removed again, and the folder too by the last one. Blocking signals are not changed; SIGPIPE is
 * ignored from here on. */
gs_status gs_comm_gloo_create(const gs_rendezvous *, gs_comm **out);

/* "0.5.0": of the Gloo with whose headers this was built. */
const char *gs_comm_gloo_version(void);

/* The same processes in shared memory: `gloo` connects them, and stays the caller's. *out is NULL, on all ranks,
 * where that cannot be, and `why` says why: a rank runs on another machine, say. */
gs_status gs_comm_shm_create(gs_comm *gloo, gs_comm **out, char *why, size_t size);

/* The processes are those that Open MPI's mpirun has started, no folder is needed. Once for a process: after a
 * failure MPI cannot be used again, nor ended as it wants to be, and the process must leave with an exit status
 * other than 0; mpirun then ends the others too. (It also does when a process is killed.) MPI_Finalize is called
 * when the process ends well. GS_E_USAGE: this process was not started by mpirun, or this is a build without
 * MPI. GS_E_DEVICE: MPI allows less to threads than is wanted. */
gs_status gs_comm_mpi_create(const gs_rendezvous *, gs_comm **out);

/* The comm between processes, over the transport that the rendezvous names:
 *
 *     gloo    comm_gloo.c
 *     shm     comm_shm.c: only where all are on one machine
 *     mpi     comm_mpi.c: only where mpirun has started the processes
 *     auto    shm where that can be, else gloo
 *
 * All processes name the same. GS_E_USAGE: there is no such transport. Other errors: those of the transport. */
gs_status gs_comm_processes_create(const gs_rendezvous *, gs_comm **out);

/* comms[0..local-1] for `local` threads of this process, as ranks of one world: first all of process 0, then
 * all of process 1, ... `processes` is the comm between the processes (taken over; NULL if there is only this
 * one). Called once a process; processes may hold different numbers of workers. */
gs_status gs_comm_world_create(int local, gs_comm *processes, double timeout, gs_comm **comms);

/* The checking mode: *out does what `inner` does, and before each call finds out whether all ranks call the
 * same. If not, every rank fails with GS_E_USAGE, "rank 1 calls broadcast of 7 f32, rank 0 all_reduce of 8 f32,
 * call 12". A message must have the length that its receiver expects; else the receiver fails with GS_E_USAGE, and
 * all others with GS_E_PEER, "rank 1 calls recv of 400 bytes from rank 0, rank 0 send of 300 bytes to rank 1,
 * message 7". All ranks of a comm check, or none.
 * `inner` is taken over; on failure (GS_E_MEMORY) it is not. */
gs_status gs_comm_checked_create(gs_comm *inner, gs_comm **out);

/* Put each of the comms into the checking mode if the environment says GRADSUM_CHECK=1. GS_E_USAGE: the
 * variable is neither 1 nor 0. On failure the comms are still to be freed by the caller. */
gs_status gs_comm_check_if_wanted(int count, gs_comm **comms);

/* Do all processes have the same GRADSUM_CHECK? If not, a rank that checks would wait for one that does not. One
 * collective on the comm between the processes, before it becomes a part of a world; once a process. GS_E_USAGE on
 * every process: "process 1 has 1 in GRADSUM_CHECK, process 0 has 0 or nothing: all processes check, or none". */
gs_status gs_comm_agree_on_check(gs_comm *processes);

/* NULL is allowed. */
static inline void gs_comm_free(gs_comm *c) {
    if (c) c->ops->free(c);
}

#endif
