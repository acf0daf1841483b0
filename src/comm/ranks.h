/* Ranks as threads of this process, to run sums and collectives outside training. */
#pragma once

#include "comm/comm.h"
#include "comm/link.h"

/* The work of one rank. *comm is its comm, which it may free and replace. */
typedef gs_status gs_rank_work(void *context, int rank, gs_comm **comm);

/* Run `work` in `count` threads, and wait for all of them. If a rank fails, its comm is aborted, so that no one waits
 * for it. Returns the original failure, not that of a rank that lost another. GS_E_MEMORY: not all threads started. */
gs_status gs_ranks_run(int count, double timeout, gs_rank_work *work, void *context);

/* Make all ranks begin at about the same time, *start, from which they measure. Over links a barrier does not suffice,
 * because its last message may reach one rank two latencies later than another. There all ranks agree on a time and
 * sleep until then; *start is the agreed time, even for a rank that wakes later. */
gs_status gs_ranks_begin(gs_comm *, const gs_link *, double *start);
