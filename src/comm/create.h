/* Creating comms: of threads of this process, of processes that meet, of both, and comms that wrap others. */
#pragma once

#include <signal.h>
#include "comm/comm.h"
#include "comm/link.h"

/* comms[0..size-1] for `size` threads of this process (size 1: a lone worker). Free each of them once, in any order. */
GS_API gs_status gs_comm_threads_create(int size, double timeout, gs_comm **comms);

/* Bytes that the threads of this process hold for copies of messages. They are kept until the comms are freed: at the
 * end of a run this is the peak, except for copies that longer ones replaced. */
size_t gs_threads_copied(void);

/* The rank of a process, and how the processes meet. */
typedef struct gs_rendezvous {
    int rank, size;        /* of processes */
    const char *directory; /* an existing, empty folder that all processes can write to; it is removed */
    const char *address;   /* this machine's address or host name for the others; NULL: 127.0.0.1, which only
                              processes of this machine can reach */
    double timeout;        /* seconds to wait for the others, and for each later wait; above 0 */
    const char *transport; /* see gs_comm_processes_create; NULL: "auto" */
    const volatile sig_atomic_t *stop; /* once it is not 0: stop waiting (GS_E_INTERRUPTED); may be NULL */
    bool own_cpus;        /* this process is bound to CPUs that no other process of the run uses */
    const char *purpose;  /* what all of them do, one word such as "train"; NULL: not stated */
    bool gloo_all_reduce; /* over gloo: use Gloo's all_reduce even for 2 processes, although ours is faster */

    /* Meeting without a folder; then `directory` is NULL. */
    char endpoint[300];    /* "tcp://HOST:PORT"; "": in the folder */
    int ports;             /* the store is at one of this many ports from PORT on; 0: at PORT */
    bool holds_store;      /* this process holds the store, at HOST */
    char run[128];         /* the run's name, from which its key is derived; "" */
    const char *interface; /* "eth0" or "10.0.0.7", where to listen; NULL: at the route's source address */
    int nodes;             /* machines; 0: unknown; 1: only this one, so listen at 127.0.0.1 */
    int local_rank;        /* the process's number on its machine; -1: unknown */
    const char *engine;    /* the launcher: "torchrun", "Slurm", "Open MPI"; NULL: `gradsum launch`, a user */
    void (*tell)(const char *sentence); /* receives where this process listens, and hints; may be NULL */
    void (*met)(void); /* called by gs_comm_processes_create once all are connected; may be NULL */
} gs_rendezvous;

/* Read the variables of README.md, and those that only `gradsum launch` sets: GRADSUM_NODES, GRADSUM_LOCAL_RANK,
 * GRADSUM_STORE, GRADSUM_OWN_CPUS=1 (it has bound this process). If neither rank nor size is set, they are those of
 * mpirun (then the transport is "mpi"), torchrun, Slurm's srun or another engine that started this process
 * (rendezvous/environment.c); without an engine this is a lone process: size 1, no folder. GS_E_USAGE: a value is
 * invalid, or only some are set. The strings belong to the environment. */
GS_API gs_status gs_rendezvous_from_environment(gs_rendezvous *);

/* Meet the other processes (rendezvous/rendezvous.h), and connect to all (mesh.h). A missing rank is named: "rank 0
 * waited 30 s for rank 2 of 4, which never arrived". Ranks with different transports or versions fail with a message
 * that names both sides. From now on SIGPIPE is ignored; the set of blocked signals is unchanged. */
gs_status gs_comm_gloo_create(const gs_rendezvous *, gs_comm **out);

/* This process has failed with `status`, because of `why`, before it met the others. They fail with the same status as
 * soon as they wait for it, "rank 1: rank 0 failed before it joined: ...", instead of at the timeout. Does nothing if
 * the processes meet neither in a folder nor at a store, or if this process has reached the rendezvous. */
void gs_comm_fail_early(const gs_rendezvous *, gs_status status, const char *why);

/* The version of the Gloo headers in this build: "0.5.0". */
const char *gs_comm_gloo_version(void);

/* The processes that `gloo` connects, in shared memory; gloo still belongs to the caller. If that is impossible, *out
 * is NULL on all ranks, and `why` gives the reason: for instance, a rank runs on another machine. */
gs_status gs_comm_shm_create(gs_comm *gloo, gs_comm **out, char *why, size_t size);

/* The processes that `gloo` connects, on several machines: in shared memory within each machine, over gloo between
 * them. gloo is taken over. If no machine holds several processes, or the ranks of a machine are not consecutive, *out
 * is NULL on all ranks; then, and after a failure, gloo still belongs to the caller. machine: this machine's name, for
 * tests; NULL: its own. */
gs_status gs_comm_two_level_create(gs_comm *gloo, const char *machine, gs_comm **out);

/* The processes that Open MPI's mpirun started; no folder is needed. Call it once per process: after a failure MPI can
 * neither be used again nor finalised. Then the process must exit with a nonzero status, and mpirun ends the others
 * too, as it does when a process is killed. MPI_Finalize is called when the process ends normally. GS_E_USAGE: mpirun
 * did not start this process, or this build has no MPI. GS_E_DEVICE: this MPI supports too few threads or tags. */
gs_status gs_comm_mpi_create(const gs_rendezvous *, gs_comm **out);

/* The transports between processes (processes.c): gloo: TCP; shm: shared memory of one machine; mpi: for processes that
 * mpirun started; auto: shm if possible, else two-level if possible, else gloo. */
typedef struct gs_process_transport {
    const char *name; /* NULL ends the table */
    gs_status (*create)(const gs_rendezvous *, gs_comm **out);
    const char *what; /* for help: "shared memory"; NULL: `gradsum launch` does not offer it */
} gs_process_transport;
extern const gs_process_transport gs_process_transports[];

/* GS_E_USAGE: unknown name; the message lists all names or, if launched, those that gradsum launch offers. */
gs_status gs_process_transport_find(const char *name, bool launched, const gs_process_transport **out);

/* The comm between processes, over the transport that the rendezvous names, which is the same on all processes.
 * GS_E_USAGE: unknown transport. Other errors: those of the transport. */
GS_API gs_status gs_comm_processes_create(const gs_rendezvous *, gs_comm **out);

/* comms[0..local-1] for `local` threads of this process, as ranks of one world: first those of process 0, then those of
 * process 1, ... `processes` connects the processes (taken over; NULL: this is the only process). Call it once per
 * process; processes may hold different numbers of workers. */
GS_API gs_status gs_comm_workers_create(int local, gs_comm *processes, double timeout, gs_comm **comms);

/* *out works as `inner`, over slow links (link.h): a receiver sleeps until the link would have delivered the message; a
 * sender does not wait. Collectives are made of messages (collectives.c) instead of the transport's own. All ranks have
 * the same link, and run on one machine, whose clock they share. recv fails with GS_E_USAGE if a message takes longer
 * than `timeout`. If there is no link, or only one rank, *out is `inner`. inner is taken over, except on failure
 * (GS_E_MEMORY). */
GS_API gs_status gs_comm_linked_create(gs_comm *inner, const gs_link *, gs_comm **out);

/* The checking mode: *out works as `inner`, but first compares the calls of all ranks in each collective. If they
 * differ, every rank fails with GS_E_USAGE, "rank 1 calls broadcast of 7 f32, rank 0 all_reduce of 8 f32, call 12".
 * Either all ranks of a comm check, or none. `inner` is taken over, except on failure (GS_E_MEMORY). */
GS_API gs_status gs_comm_checked_create(gs_comm *inner, gs_comm **out);

/* Put each of the comms into the checking mode if GRADSUM_CHECK=1. GS_E_USAGE: the variable is neither 1 nor 0. After a
 * failure the caller still frees the comms. */
gs_status gs_comm_check_if_wanted(int count, gs_comm **comms);

/* Check that all processes have the same GRADSUM_CHECK, GRADSUM_FAULT (inject/inject.h) and link, and with a link, the
 * same clock: a rank that checks would wait for one that does not. This is one collective on the comm between the
 * processes, before it becomes part of a world. GS_E_USAGE on every process: "process 1 and process 0 differ in --link
 * (none versus 50us,125MB/s)". */
gs_status gs_comm_agree(gs_comm *processes, const gs_link *);
