/* What this process may use of its machine. Everything that divides cores or memory asks here: the number of threads,
 * binding, waiting, `doctor` and `--fit`.
 *
 * Two things limit the CPUs. The mask (taskset, mpirun, a container's cpuset) says which ones; the quota of a control
 * group (docker --cpus, Kubernetes, systemd) for how much of the time. With a quota of one CPU two threads on two CPUs
 * run half of the time each, and one that spins spends the time of the other. */
#pragma once

#include <sched.h>
#include <stdbool.h>

typedef struct gs_usable {
    int cpus; /* for how many threads there is time: CPUs of the mask, or the quota rounded up; at least 1 */
    double quota; /* CPUs' worth of time, where that is less than the CPUs of the mask; 0: no such limit */
    double bytes; /* of memory, the machine's or the limit of a group; 0: unknown */
    double free;  /* of these, how many this process may still take without others being swapped out */
    double machine_bytes;
} gs_usable;

gs_usable gs_usable_here(void);

/* The same with another folder as the root of /proc and /sys; for tests. */
gs_usable gs_usable_under(const char *root);

/* ---- workers get their own cores ----
 *
 * Linux tends to wake two threads on one core while another is idle. Two workers that wait for each other there
 * (core/wait.h) take 50 us or 100 us for what takes 1 us on two cores, in one run and not in the next. Therefore each
 * worker is bound to its share of the CPUs that this process may use, as mpirun does. */

/* Should ranks on this transport ("threads", "shm", "gloo", "mpi") be bound? All except those over Gloo, in every
 * command. Gloo 0.5.0 runs a thread in each process. If a message arrives while the rank's thread holds the lock of
 * that connection, Gloo's thread does not sleep: it polls until it gets the lock. If it occupies the rank's only core,
 * the rank cannot release the lock until the next tick of the scheduler, 4 ms later: a ring of 1 KiB took 4 to 8 ms
 * instead of 0.2. An unbound rank can continue on another idle core. */
bool gs_cores_may_bind(const char *transport);

/* Share i of n of the CPUs in `allowed`. CPUs of one core (hyperthreads) have the same number in `core_of`. Cores stay
 * whole while there is one for each share; after that their hyperthreads are divided. Shares differ by one core, or one
 * CPU, at most. false: there are more shares than CPUs. */
bool gs_cores_divide(const cpu_set_t *allowed, const int core_of[CPU_SETSIZE], int i, int n,
                     cpu_set_t *share);

/* The same for the CPUs that the calling thread may use: those that taskset, a container, mpirun or a job scheduler has
 * left it. Also false if the system does not say which they are, or with a quota: that limits the time on all of them,
 * and every container of the machine would choose the same ones. */
bool gs_cores_share(int i, int n, cpu_set_t *share);

/* From here on the calling thread, and all threads that it starts, use only these CPUs. false: the system refuses. */
bool gs_cores_bind(const cpu_set_t *share);

/* Both at once, for thread i of n that may use the same CPUs. false: the thread is not bound. */
bool gs_cores_bind_share(int i, int n);
