/* Create comms: between threads, processes that meet, or threads of such processes; or around another comm. */
#pragma once

#include <signal.h>
#include "comm/comm.h"
#include "comm/link.h"

/* Create comms[0..size-1] for `size` threads of this process (1: a lone worker). Free each one, in any order. */
GS_API gs_status gs_comm_threads_create(int size, double timeout, gs_comm **comms);

/* Bytes that the threads of this process hold for copies of messages. Copies are kept until the comms are freed, so at
 * the end of a run this is the peak, except for copies that were replaced by longer ones. */
size_t gs_threads_copied(void);

/* The rank of a process, and how the processes meet. */
typedef struct gs_rendezvous {
    int rank, size;        /* of processes */
    const char *directory; /* an existing, empty folder that all processes can write to; removed later */
    const char *address;   /* this machine's address or host name for the others; NULL: 127.0.0.1, which only
                              processes of this machine can reach */
    double timeout;        /* seconds to wait for the others, and for each later wait; above 0 */
    const char *transport; /* see gs_comm_processes_create; NULL: "auto" */
    const volatile sig_atomic_t *stop; /* once nonzero: stop waiting (GS_E_INTERRUPTED); may be NULL */
    bool own_cpus;        /* this process is bound to CPUs that no other process of the run uses */
    const char *purpose;  /* what all processes do, one word such as "train"; NULL: not stated */
    bool gloo_all_reduce; /* over gloo: use Gloo's all_reduce even for 2 processes, where ours is faster */

    /* For meeting without a folder; `directory` is then NULL. */
    char endpoint[300];    /* "tcp://HOST:PORT"; "": in the folder */
    int ports;             /* the store listens on one of this many ports, from PORT on; 0: on PORT */
    bool holds_store;      /* this process holds the store; it runs on HOST */
    char run[128];         /* the run's name, from which its key is derived; "" if it has none */
    const char *interface; /* "eth0" or "10.0.0.7", where to listen; NULL: on the route's source address */
    int nodes;             /* machines; 0: unknown; 1: only this one, so listen on 127.0.0.1 */
    int local_rank;        /* the process's number on its machine; -1: unknown */
    const char *engine;    /* the launcher: "torchrun", "Slurm", "Open MPI"; NULL: `gradsum launch`, a user */
    void (*tell)(const char *sentence); /* told where this process listens, and given hints; may be NULL */
    void (*met)(void); /* called by gs_comm_processes_create once all are connected; may be NULL */
} gs_rendezvous;

/* Read the variables of README.md, and those that only `gradsum launch` sets: GRADSUM_NODES, GRADSUM_LOCAL_RANK,
 * GRADSUM_STORE, GRADSUM_OWN_CPUS=1 (it has bound this process). If neither rank nor size is set, they come from the
 * engine that started this process (rendezvous/environment.c): mpirun (the transport is then "mpi"), torchrun, Slurm's
 * srun or another. Without an engine this is a lone process: size 1, no folder. GS_E_USAGE: a value is invalid, or only
 * some are set. The strings belong to the environment. */
GS_API gs_status gs_rendezvous_from_environment(gs_rendezvous *);

/* Meet the other processes (rendezvous/rendezvous.h), and connect to all of them (mesh.h). A missing rank is named:
 * "rank 0 waited 30 s for rank 2 of 4, which never arrived". Ranks with different transports or versions fail with a
 * message that names both sides. From then on SIGPIPE is ignored; the set of blocked signals is unchanged. */
gs_status gs_comm_gloo_create(const gs_rendezvous *, gs_comm **out);

/* Report that this process has failed with `status`, because of `why`, before it met the others. As soon as the others
 * wait for this process they fail with the same status, "rank 1: rank 0 failed before it joined: ...", instead of at
 * the timeout. Does nothing if the processes meet neither in a folder nor at a store, or if this process has reached
 * the rendezvous. */
void gs_comm_fail_early(const gs_rendezvous *, gs_status status, const char *why);

/* The version of the Gloo headers in this build: "0.5.0". */
const char *gs_comm_gloo_version(void);

/* A comm in shared memory between the processes that `gloo` connects; gloo still belongs to the caller. If that is
 * impossible, *out is NULL on all ranks, and `why` gives the reason: for instance, a rank runs on another machine. */
gs_status gs_comm_shm_create(gs_comm *gloo, gs_comm **out, char *why, size_t size);

/* A comm between the processes that `gloo` connects, on several machines: in shared memory within each machine, over
 * gloo between machines. *out takes over gloo. If no machine holds several processes, or the ranks of a machine are not
 * consecutive, *out is NULL on all ranks; then, and after a failure, gloo still belongs to the caller. machine: a name
 * for this machine, for tests; NULL: its real one. */
gs_status gs_comm_two_level_create(gs_comm *gloo, const char *machine, gs_comm **out);

/* A comm between the processes that Open MPI's mpirun started; no folder is needed. Call it once per process: after a
 * failure MPI can neither be used again nor finalised. The process must then exit with a nonzero status, so that mpirun
 * ends the other processes, as it does when one is killed. MPI_Finalize is called at a normal end. GS_E_USAGE: mpirun
 * did not start this process, or this build has no MPI. GS_E_DEVICE: this MPI supports too few threads or tags. */
gs_status gs_comm_mpi_create(const gs_rendezvous *, gs_comm **out);

/* The transports between processes (processes.c): gloo is TCP; shm is shared memory on one machine; mpi is for
 * processes that mpirun started; auto is shm if possible, else two-level if possible, else gloo. */
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

/* Create comms[0..local-1] for `local` threads of this process, as ranks of one world: first the threads of process 0,
 * then those of process 1, ... `processes` connects the processes, and is taken over (NULL: this is the only process).
 * Call it once per process; processes may hold different numbers of workers. */
GS_API gs_status gs_comm_workers_create(int local, gs_comm *processes, double timeout, gs_comm **comms);

/* *out works like `inner`, but over slow links (link.h): a receiver sleeps until the link would have delivered the
 * message; a sender does not wait. Collectives are made of messages (collectives.c); the transport's own collectives
 * are not used. All ranks have the same link, and run on one machine, so that they share its clock. recv fails with
 * GS_E_USAGE if a message takes longer than `timeout`. If there is no link, or only one rank, *out is `inner`. inner is
 * taken over, except on failure (GS_E_MEMORY). */
GS_API gs_status gs_comm_linked_create(gs_comm *inner, const gs_link *, gs_comm **out);

/* The checking mode: *out works like `inner`, but first compares all ranks' calls in each collective. If they differ,
 * every rank fails with GS_E_USAGE, "rank 1 calls broadcast of 7 f32, rank 0 all_reduce of 8 f32, call 12". Either all
 * ranks of a comm check, or none. `inner` is taken over, except on failure (GS_E_MEMORY). */
GS_API gs_status gs_comm_checked_create(gs_comm *inner, gs_comm **out);

/* Put each of the comms into checking mode if GRADSUM_CHECK=1. GS_E_USAGE: the variable is neither 1 nor 0. After a
 * failure the caller still frees the comms. */
gs_status gs_comm_check_if_wanted(int count, gs_comm **comms);

/* Check that all processes have the same GRADSUM_CHECK, GRADSUM_FAULT (inject/inject.h) and link and, if there is a
 * link, the same clock. Otherwise a rank that checks calls, for example, would wait for one that does not. This takes
 * one collective on the comm between the processes, before it becomes part of a world. GS_E_USAGE on every process:
 * "process 1 and process 0 differ in --link (none versus 50us,125MB/s)". */
gs_status gs_comm_agree(gs_comm *processes, const gs_link *);
