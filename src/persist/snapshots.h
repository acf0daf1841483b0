/* launch --elastic: each process keeps the run's state in memory, and the survivors continue when a process is lost.
 *
 *     generation 1   rank 0    .. 56 | 57             holds copies of steps 55 and 56
 *                    rank 1    .. 56 | 57 | 58        of steps 56 and 57: it is one step ahead of rank 0
 *                    rank 2    .. 56 | 57 X           lost
 *     generation 2   rank 0          | 57 | 58 ..     all continue after step 56, the last that all survivors hold,
 *                    rank 1          | 57 | 58 ..     in the same epoch and sample order
 *                    rank 2          | 57 | 58 ..     new: receives the state from the first survivor, as all do
 *
 * Each step sums over all ranks, so no rank ends step k + 1 before all have ended step k. Survivors are therefore at
 * most one step apart, and copies of the last two steps suffice. A copy holds the weights, batch_norm's statistics, the
 * optimiser's vectors and the loss scale. The step determines the position in the epoch (train/state.h). At each
 * rendezvous survivors compare the SHA-256 of their copies. Cost: memory for two copies, and time for one in each step.
 *
 * Each process must hold the whole state: one worker per process, with --sync allreduce or --exact.
 */
#pragma once

#include "train/state.h"

typedef struct gs_snapshots gs_snapshots;

/* GS_E_MEMORY. */
gs_status gs_snapshots_create(gs_snapshots **out);
void gs_snapshots_free(gs_snapshots *); /* NULL is allowed */

/* GS_E_USAGE: these settings do not allow an elastic run. */
gs_status gs_snapshots_check(const gs_settings *);

/* After a rendezvous, set *begin to the state, including weights, from which all continue; the snapshots own it. If no
 * process survived, *begin is unchanged. If `processes` is NULL, this process is alone. GS_E_DIFFER: the survivors'
 * states differ. Does nothing if `snapshots` is NULL. */
gs_status gs_snapshots_settle(gs_snapshots *, gs_comm *processes, const gs_state **begin);
