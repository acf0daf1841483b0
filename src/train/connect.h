/* The workers of a run before it begins: their devices, their cores, and the connections between them. */
#pragma once

#include <sched.h>
#include "train/train.h"

/* Whether every device of the list is cpu. */
bool gs_devices_are_cpu(const char *devices);

/* The CPUs to which worker i of the `local` workers of this process is bound. Returns how many; 0: it is not bound. To
 * be called before any worker is bound. Workers are bound if settings->bind is set, there is more than one, and each
 * has a CPU for each of its threads. Two kinds are not: workers on OpenCL devices, which have threads of their own, and
 * those of processes that `gradsum launch` did not start: mpirun has bound them, or was told not to. */
int gs_worker_share(const gs_settings *, int i, int local, cpu_set_t *share);

/* Connect this process with the others of settings->processes, at least one. *step: the step at which it resumes, 0 for
 * a new run, -1 without --resume; on return rank 0's. */
gs_status gs_connect_processes(const gs_settings *, const char *purpose, int64_t *step, gs_comm **out);

/* Wrap the comms of this process's workers as the run asks: injected faults, slow links, checks. After a failure the
 * caller still frees them. */
gs_status gs_wrap_if_wanted(const gs_settings *, int local, gs_comm **comms);
