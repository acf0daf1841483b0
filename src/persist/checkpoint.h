/* --checkpoint DIR: what a run needs to go on (train/state.h), in a folder, now and then.
 *
 *     steps    | 1 .. 100 | copy | 101 .. 200 | copy | 201 .. 217 | copy          SIGTERM: it ends here
 *     written               \--> step-100       \--> step-200       \--> step-217
 *
 *     train --checkpoint DIR --checkpoint-every 100 --keep 3
 *     train --resume DIR --checkpoint DIR               step 218, and on to the same bits
 *
 * A checkpoint is due every N steps or some seconds after the last one, at SIGUSR1 in any process of the run
 * (gs_checkpoint_requested), and at the end, also where a signal has ended the run. All workers must make it after the
 * same step, for each may hold a part. So rank 0 decides, and tells the others in the counts that are summed in each
 * step anyway, where a wish to stop is told too (GS_STAT_STOP):
 *
 *     1        a worker was asked to stop: the run ends after this step
 *     1/2      rank 0: a checkpoint after this step
 *     1/4096   a worker was asked for a checkpoint: rank 0 will see to it, in a later step
 *
 * These sums are exact, so no message and no rounding is new.
 *
 * A step waits for a copy in the memory of rank 0, and for no disk: a thread writes (core/jobs.h). While it does, none
 * is due; what has become due meanwhile is made when it has ended. With --sync local, whose workers have the same
 * weights only when they meet, checkpoints wait for that.
 *
 * If one cannot be written, training goes on, and the older ones stay; observer->note is told. Only where the last one
 * fails has the run lost something, and its result says so.
 *
 * Source: Mohan, Phanishayee, Chidambaram, "CheckFreq: frequent, fine-grained DNN checkpointing" (FAST 2021): a
 * snapshot that a step waits for, and a write that it does not wait for.
 */
#pragma once

#include "train/train.h"

/* How many checkpoints stay in the folder. */
int gs_checkpoints_kept(const gs_settings *);
