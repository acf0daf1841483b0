/* --checkpoint DIR: the run regularly writes what it needs to resume (train/state.h) into a folder.
 *
 *     steps    | 1 .. 100 | copy | 101 .. 200 | copy | 201 .. 217 | copy          SIGTERM: it ends here
 *     written               \--> step-100       \--> step-200       \--> step-217
 *
 *     train --checkpoint DIR --checkpoint-every 100 --keep 3
 *     train --resume DIR --checkpoint DIR               step 218, and on to the same bits
 *
 * A checkpoint is due every N steps or some seconds after the last one, at SIGUSR1 in any process of the run
 * (gs_checkpoint_requested), and at the end, also when a signal ends the run. All workers must take it after the same
 * step, because each may hold a part. Rank 0 decides, and tells the others through the counts that each step sums
 * anyway, which also carry a request to stop (GS_STAT_STOP):
 *
 *     1        a worker was asked to stop: the run ends after this step
 *     1/2      rank 0: a checkpoint after this step
 *     1/4096   a worker was asked for a checkpoint: rank 0 decides on it in a later step
 *
 * These sums are exact: checkpoints cost no message and change no rounding.
 *
 * A step waits for a copy into the memory of rank 0, but not for the disk: a thread writes (core/jobs.h). Meanwhile no
 * checkpoint is due; one that falls due is taken when the thread is done. With --sync local the workers have the same
 * weights only when they meet, and checkpoints wait for that.
 *
 * If a checkpoint cannot be written, training continues, the older ones stay, and observer->note reports it. Only if
 * the last one fails, the run has lost something, and its result says so.
 *
 * Source: Mohan, Phanishayee, Chidambaram, "CheckFreq: frequent, fine-grained DNN checkpointing" (FAST 2021): a step
 * waits for the snapshot, and not for the write.
 */
#pragma once

#include "train/train.h"

/* How many checkpoints the folder keeps. */
int gs_checkpoints_kept(const gs_settings *);
