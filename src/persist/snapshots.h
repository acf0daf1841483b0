/* launch --elastic: each process has the state of the run in its memory, with which the others go on when one is lost.
 *
 *     generation 1   rank 0    .. 56 | 57             its copies are of steps 55 and 56
 *                    rank 1    .. 56 | 57 | 58        of 56 and 57: it has ended a step that rank 0 has not
 *                    rank 2    .. 56 | 57 X           lost
 *     generation 2   rank 0          | 57 | 58 ..     all go on after step 56, the last one that all survivors have,
 *                    rank 1          | 57 | 58 ..     in the same epoch and order
 *                    rank 2          | 57 | 58 ..     new: like all it gets the state from the first survivor
 *
 * A step is a sum over all ranks: nobody ends step k + 1 before all have ended step k. So the steps of survivors are at
 * most one apart, and copies of the last two are enough: weights, batch_norm's statistics, the optimiser's vectors, the
 * loss scale. Their place in the epoch follows from the step (train/state.h). At each rendezvous the survivors compare
 * the SHA-256 of their copies. The price is memory for two copies, and a copy in each step.
 *
 * Only where each process has it all: one worker in each, the all-reduce or --exact.
 */
#pragma once

#include "train/state.h"

typedef struct gs_snapshots gs_snapshots;

/* GS_E_MEMORY. */
gs_status gs_snapshots_create(gs_snapshots **out);
void gs_snapshots_free(gs_snapshots *); /* NULL is allowed */

/* GS_E_USAGE: such a run cannot be elastic. */
gs_status gs_snapshots_check(const gs_settings *);

/* The processes have met (NULL: this one is alone): from which step do they go on? *begin: the state of it and its
 * weights, in the snapshots; it stays as it is if none has one. GS_E_DIFFER: the survivors' states are not the same.
 * Nothing where `snapshots` is NULL. */
gs_status gs_snapshots_settle(gs_snapshots *, gs_comm *processes, const gs_state **begin);
