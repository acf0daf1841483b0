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

/* Connect the `local` workers of this process with each other and, over settings->processes, with those of others.
 * `comms` has an entry for each, NULL at first; what is there after a failure is to be freed. purpose: what the
 * processes were started for, which must be the same for all of them. agree: called when the processes are connected;
 * of a single process with NULL. */
gs_status gs_connect_workers(const gs_settings *, const char *purpose, int local,
                             gs_status (*agree)(void *context, gs_comm *processes), void *context,
                             gs_comm **comms);
