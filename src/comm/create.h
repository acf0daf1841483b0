/* Making comms: of threads of this process, of processes that meet, of both, and comms around others. */
#pragma once

#include <signal.h>
#include "comm/comm.h"
#include "comm/link.h"

/* comms[0..size-1] for `size` threads of this process (size 1 is the comm of a lone worker). Free each of
 * them once, in any order; the last one takes the shared part with it. */
GS_API gs_status gs_comm_threads_create(int size, double timeout, gs_comm **comms);

/* Bytes that the threads of this process keep for copies of messages under way. They are kept until the comms are
 * freed, so at the end of a run this is the most that it was, except for copies that longer ones replaced. */
size_t gs_threads_copied(void);

/* Where a process stands among its peers, and how they meet. */
typedef struct gs_rendezvous {
    int rank, size;        /* of processes */
    const char *directory; /* an existing, empty folder that all processes can write to; it is removed */
    const char *address;   /* this machine's address or host name for the others; NULL: 127.0.0.1, which does
                              for processes of one machine only */
    double timeout;        /* seconds to wait for the others, and for each later wait; above 0 */
    const char *transport; /* what the processes talk over: see gs_comm_processes_create; NULL: "auto" */
    const volatile sig_atomic_t *stop; /* once it is not 0: stop waiting (GS_E_INTERRUPTED); may be NULL */
    bool own_cpus;        /* this process is bound to CPUs that no other process of the run uses */
    const char *purpose;  /* what all of them do, one word such as "train"; NULL: not stated */
    bool gloo_all_reduce; /* over gloo: all_reduce is Gloo's own even for 2 processes, where ours is faster */

    /* Where the processes meet without a folder; then `directory` is NULL. */
    char endpoint[300]; /* "tcp://HOST:PORT"; "": in the folder */
    int ports;          /* of tcp: how many ports from PORT on the store may be at; 0: that one */
    bool holds_store;   /* this process holds the store of tcp, at HOST */
    char run[128];      /* the run's name, which the key of the run depends on; "" */
    /* "eth0", "10.0.0.7": by its address the others reach this process; NULL: by that of the route to them. */
    const char *interface;
    int nodes;      /* how many machines there are; 0: not known; 1: this one alone, so 127.0.0.1 does */
    int local_rank; /* the process's number on its machine; -1: not known */
    /* What has started the processes: "torchrun", "Slurm", "Open MPI"; NULL: `gradsum launch`, or the user. */
    const char *engine;
    void (*tell)(const char *sentence); /* hears where this process listens, and hints; may be NULL */
    void (*met)(void); /* called by gs_comm_processes_create once all are connected; may be NULL */
} gs_rendezvous;

/* What `gradsum launch` or the user has put into the environment: GRADSUM_RANK, GRADSUM_WORLD_SIZE, GRADSUM_RENDEZVOUS
 * (the folder, or tcp://HOST:PORT), and if set GRADSUM_TIMEOUT, GRADSUM_INTERFACE,
 * GRADSUM_ADDRESS and GRADSUM_TRANSPORT; GRADSUM_OWN_CPUS=1 if launch has bound this process. If neither rank nor size
 * is set, they are those of mpirun (the transport is "mpi" then), torchrun, Slurm's srun or another, if one of these
 * has started this process (rendezvous/environment.c); else this is a lone process: size 1, no folder. GS_E_USAGE: a
 * value makes no sense, or only some are set. The strings belong to the environment. */
GS_API gs_status gs_rendezvous_from_environment(gs_rendezvous *);

/* Meet the other processes. Each leaves a file in the folder, or an entry at the store (rendezvous/rendezvous.h), and
 * waits until those of all are there, so a missing rank is named: "rank 0 waited 30 s for rank 2 of 4, which never
 * arrived". The files hold secrets that only the owner can read; of a store's entries, those who know the run's secret
 * can make them (rendezvous/secret.h). With these secrets the ranks prove to each other that they belong to the run;
 * any other caller is turned away (handshake.h). Ranks with different transports or versions fail with a message that
 * names both sides. Once all are connected, each rank renames its file, and the last one removes the folder. The set of
 * blocked signals is not changed; SIGPIPE is ignored from here on. */
gs_status gs_comm_gloo_create(const gs_rendezvous *, gs_comm **out);

/* This process cannot take part: before it met the others it failed with `status`, because of `why`. The others fail
 * with the same status as soon as they wait for it, "rank 1: rank 0 failed before it joined: ...", instead of waiting
 * for the whole timeout. Does nothing where the processes do not meet in a folder or at a store, and once this process
 * has reached the rendezvous. */
void gs_comm_fail_early(const gs_rendezvous *, gs_status status, const char *why);

/* The version of Gloo whose headers this was built with: "0.5.0". */
const char *gs_comm_gloo_version(void);

/* The same processes in shared memory: `gloo` connects them, and still belongs to the caller. If that is impossible,
 * *out is NULL on all ranks, and `why` gives the reason: for instance, a rank runs on another machine. */
gs_status gs_comm_shm_create(gs_comm *gloo, gs_comm **out, char *why, size_t size);

/* The same processes, where some machines hold several of them: in shared memory within each machine, over `gloo`
 * between them. It is taken over; but where no machine holds several, or the ranks of one do not follow each other,
 * *out is NULL on all ranks, and gloo still belongs to the caller, as after a failure. machine: this one's name,
 * for tests; NULL: its own. */
gs_status gs_comm_two_level_create(gs_comm *gloo, const char *machine, gs_comm **out);

/* The processes are those that Open MPI's mpirun started; no folder is needed. Call it once per process: after a
 * failure MPI can neither be used again nor be finalised properly. The process must then exit with a status other than
 * 0, and mpirun ends the others too (as it does when a process is killed). MPI_Finalize is called when the process ends
 * normally. GS_E_USAGE: mpirun did not start this process, or this build has no MPI. GS_E_DEVICE: MPI supports threads
 * less than is needed. */
gs_status gs_comm_mpi_create(const gs_rendezvous *, gs_comm **out);

/* What connects processes (processes.c): gloo: TCP; shm: shared memory, only where all are on one machine; mpi: only
 * where mpirun has started the processes; auto: shm where possible, else two-level where possible, else gloo. */
typedef struct gs_process_transport {
    const char *name; /* NULL ends the table */
    gs_status (*create)(const gs_rendezvous *, gs_comm **out);
    const char *what; /* for help: "shared memory"; NULL: not for processes that `gradsum launch` starts */
} gs_process_transport;
extern const gs_process_transport gs_process_transports[];

/* GS_E_USAGE: none has this name; the message lists them all or, if launched, those for gradsum launch. */
gs_status gs_process_transport_find(const char *name, bool launched, const gs_process_transport **out);

/* The comm between processes, over the transport that the rendezvous names. All processes name the same one.
 * GS_E_USAGE: there is no such transport. Other errors: those of the transport. */
GS_API gs_status gs_comm_processes_create(const gs_rendezvous *, gs_comm **out);

/* comms[0..local-1] for `local` threads of this process, as ranks of one world: first all of process 0, then all of
 * process 1, ... `processes` is the comm between the processes (taken over; NULL if this is the only one). Call it once
 * per process; processes may hold different numbers of workers. */
GS_API gs_status gs_comm_workers_create(int local, gs_comm *processes, double timeout, gs_comm **comms);

/* *out does what `inner` does, over slow links (link.h): no data arrives before the link would have brought it. A
 * receiver sleeps until then; a sender does not wait. Collectives are made of messages (collectives.c), in place of the
 * transport's own. All ranks have the same link and run on one machine, whose clock they share. recv fails with
 * GS_E_USAGE where a message takes longer than `timeout`. Where the link is none, or there is one rank, *out is
 * `inner`. It is taken over, except on failure (GS_E_MEMORY). */
GS_API gs_status gs_comm_linked_create(gs_comm *inner, const gs_link *, gs_comm **out);

/* The checking mode: *out does what `inner` does, but before a collective checks whether all ranks call the same. If
 * not, every rank fails with GS_E_USAGE, "rank 1 calls broadcast of 7 f32, rank 0 all_reduce of 8 f32, call 12". Either
 * all ranks of a comm check, or none. `inner` is taken over, except on failure (GS_E_MEMORY). */
GS_API gs_status gs_comm_checked_create(gs_comm *inner, gs_comm **out);

/* Put each of the comms into the checking mode if the environment says GRADSUM_CHECK=1. GS_E_USAGE: the variable is
 * neither 1 nor 0. On failure the comms are still to be freed by the caller. */
gs_status gs_comm_check_if_wanted(int count, gs_comm **comms);

/* Do all processes have the same GRADSUM_CHECK, GRADSUM_FAULT (inject/inject.h) and link, and if there is a link, the
 * same clock? Else a rank that checks would wait for one that does not. This is one collective on the comm between the
 * processes, before it becomes part of a world. GS_E_USAGE on every process: "process 1 and process 0 differ in --link
 * (none versus 50us,125MB/s)". */
gs_status gs_comm_agree(gs_comm *processes, const gs_link *);
