/* Ranks that are threads of this process: for sums and collectives that are looked at from outside. */
#pragma once

#include "comm/comm.h"
#include "comm/link.h"

/* What one rank does. *comm is its comm as a thread; work may put another one there, and free the first. */
typedef gs_status gs_rank_work(void *context, int rank, gs_comm **comm);

/* Run `work` in `count` threads, and wait for all. The comm of one that fails is aborted, so that nobody waits for it.
 * Returns the failure that began it, not that of a rank which merely lost another. GS_E_MEMORY: not all could be
 * started. */
gs_status gs_ranks_run(int count, double timeout, gs_rank_work *work, void *context);

/* All ranks begin at about the same moment, from which is measured: *start. Over links a barrier is not enough, because
 * its last message may reach one rank two latencies later than another. There all agree on a moment, and sleep until it
 * has come; *start is that moment, also for a rank that wakes later. */
gs_status gs_ranks_begin(gs_comm *, const gs_link *, double *start);
