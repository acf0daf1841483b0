/* MPI of this process: begun once, ended once. Only for src/comm/. */
#pragma once

#include <stdbool.h>
#include "core/error.h"

/* Begin MPI, which waits for all processes that mpirun started. If it has begun before, return at once. *level is the
 * thread support that MPI provides; MPI_THREAD_MULTIPLE is requested. MPI ends when the process does, unless
 * gs_mpi_break was called. GS_E_PEER: the others did not begin within `timeout` seconds, or MPI was broken before. */
gs_status gs_mpi_begin(double timeout, int *level);

/* MPI_Init does not say for whom it waits. This finds a process of the same mpirun on this machine that is stopped
 * (SIGSTOP): its rank and its process number. False: there is none. Processes on other machines cannot be seen. In
 * siblings.c. */
bool gs_mpi_stopped_sibling(int *rank, long *pid);

/* An operation has failed: from here on MPI is neither used nor finalised. MPI_Finalize would go on with operations
 * under way, in memory that no longer exists, and wait for ranks that are lost. Open MPI's mpirun takes a process that
 * exits without MPI_Finalize and with a status other than 0 for a failed one: it ends the others, and its own exit
 * status is that of the first failed process. */
void gs_mpi_break(void);
