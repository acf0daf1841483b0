/* The part of its machine that this process may use. All code that divides cores or memory asks here: thread counts,
 * binding, waiting, `doctor` and `--fit`.
 *
 * Two things limit the CPUs. The mask (taskset, mpirun, a container's cpuset) says which ones this process may use; a
 * control group's quota (docker --cpus, Kubernetes, systemd) says for how much of the time. With a quota of one CPU,
 * two threads on two CPUs each run half the time, and a spinning thread uses up the other's time. */
#pragma once

#include <sched.h>
#include <stdbool.h>

typedef struct gs_usable {
    int cpus; /* threads that can run at once: the CPUs in the mask or, if less, the quota rounded up; at least 1 */
    double quota; /* CPUs' worth of time, if less than the CPUs in the mask; 0: no such limit */
    double bytes; /* memory: the machine's, or a control group's limit; 0: unknown */
    double free;  /* bytes that this process can still allocate before other memory is swapped out */
    double machine_bytes;
} gs_usable;

gs_usable gs_usable_here(void);

/* For tests: uses another folder as the root of /proc and /sys. */
gs_usable gs_usable_under(const char *root);

/* ---- workers get their own cores ----
 *
 * Linux tends to wake two threads on one core while another is idle. If two workers wait for each other on one core
 * (core/wait.h), a wait of 1 us becomes 50 us or 100 us, in one run and not in the next. Therefore each worker is bound
 * to its share of the CPUs that this process may use, as mpirun does. */

/* Should every command bind ranks on this transport ("threads", "shm", "gloo", "mpi")? Yes, except on Gloo. Gloo 0.5.0
 * runs a thread in each process. If a message arrives while the rank's thread holds that connection's lock, Gloo's
 * thread does not sleep: it polls until it gets the lock. If it occupies the rank's only core, the rank cannot release
 * the lock until the next tick of the scheduler, 4 ms later: a ring of 1 KiB took 4 to 8 ms instead of 0.2 ms. An
 * unbound rank can continue on another idle core. */
bool gs_cores_may_bind(const char *transport);

/* Divide the CPUs in `allowed` into n shares, and set *share to share i. CPUs of the same core (hyperthreads) have the
 * same number in `core_of`. Cores stay whole if there are enough for all shares; otherwise their hyperthreads are
 * divided. Shares differ by at most one core or one CPU. False: there are more shares than CPUs. */
bool gs_cores_divide(const cpu_set_t *allowed, const int core_of[CPU_SETSIZE], int i, int n,
                     cpu_set_t *share);

/* gs_cores_divide for the CPUs that the calling thread may use: those left to it by taskset, a container, mpirun or a
 * job scheduler. Also false if the system does not report these CPUs, or under a quota: a quota limits the time on all
 * CPUs, and every container on the machine would choose the same ones. */
bool gs_cores_share(int i, int n, cpu_set_t *share);

/* From now on the calling thread, and all threads that it starts, use only these CPUs. False: the system refuses. */
bool gs_cores_bind(const cpu_set_t *share);

/* gs_cores_share and gs_cores_bind, for thread i of n threads that may use the same CPUs. False: the thread is not
 * bound. */
bool gs_cores_bind_share(int i, int n);
