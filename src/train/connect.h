/* The workers of a run before it begins: on which devices and cores they are, and how they reach each other. */
#pragma once

#include <sched.h>
#include "train/train.h"

/* Is each device of this list cpu? */
bool gs_devices_are_cpu(const char *devices);

/* The CPUs of worker i of this process, which has `local` workers. Returns how many; 0: it is not bound. Ask before a
 * worker is bound. Workers are bound if settings->bind says so, there is more than one, and each has a CPU for each of
 * its threads. Workers on OpenCL devices are not, since OpenCL has threads of its own. Nor are those of processes that
 * `gradsum launch` did not start: mpirun has bound them, or was told not to. */
int gs_worker_share(const gs_settings *, int i, int local, cpu_set_t *share);

/* Connect this process with the others of settings->processes, of which there are some. *step: from which step it goes
 * on, 0 from the beginning, -1 without --resume; then rank 0's. */
gs_status gs_connect_processes(const gs_settings *, const char *purpose, int64_t *step, gs_comm **out);

/* Around the comms of this process's workers what a run may ask for: faults, slow links, checks. On failure they are
 * still to be freed. */
gs_status gs_wrap_if_wanted(const gs_settings *, int local, gs_comm **comms);
