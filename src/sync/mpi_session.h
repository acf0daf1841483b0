/* MPI of this process: begun once, ended once. Only for src/sync/. */
#ifndef GS_SYNC_MPI_SESSION_H
#define GS_SYNC_MPI_SESSION_H

#include "core/error.h"

/* Begin MPI, which waits for all processes that mpirun has started; if it has begun before, return at once.
 * *level is what MPI allows to threads: MPI_THREAD_MULTIPLE is asked for. MPI ends when the process does,
 * unless gs_mpi_break was called. GS_E_PEER: the others did not begin within `timeout` seconds, or MPI was
 * broken before. */
gs_status gs_mpi_begin(double timeout, int *level);

/* An operation has failed: MPI is not used any more, and not ended either. MPI_Finalize would go on with what
 * is under way, in memory that is not there any more, and wait for ranks that are lost. Open MPI's mpirun
 * takes a process that leaves without MPI_Finalize, but with an exit status other than 0, for one that failed:
 * it ends the others, and its own exit status is that of the first one. */
void gs_mpi_break(void);

#endif
