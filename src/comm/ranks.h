/* Ranks as threads of this process, to run sums and collectives outside training. */
#pragma once

#include "comm/comm.h"
#include "comm/link.h"

/* The work of one rank. *comm is its comm; work may replace it, and free the first one. */
typedef gs_status gs_rank_work(void *context, int rank, gs_comm **comm);

/* Run `work` in `count` threads, and wait for all. If a rank fails, its comm is aborted, so that no one waits for it.
 * Returns the original failure, not that of a rank which lost another. GS_E_MEMORY: not all could be started. */
gs_status gs_ranks_run(int count, double timeout, gs_rank_work *work, void *context);

/* All ranks begin at about the same moment, *start, from which they measure. Over links a barrier does not suffice,
 * because its last message may reach one rank two latencies later than another. There all agree on a moment, and sleep
 * until then; *start is that moment, also for a rank that wakes later. */
gs_status gs_ranks_begin(gs_comm *, const gs_link *, double *start);
