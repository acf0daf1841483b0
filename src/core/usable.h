/* What this process may use of its machine. Everything that divides cores or memory asks here: the number of threads,
 * binding, waiting, `doctor`, `--cache` and `--fit`.
 *
 * Two things limit the CPUs: the mask (taskset, mpirun, a container's cpuset) says which ones, and the quota of a
 * control group (docker --cpus, Kubernetes, systemd) for how much of the time. With a quota of one CPU two threads on
 * two CPUs run half of the time each, and one that spins spends the time of the other.
 */
#pragma once

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
