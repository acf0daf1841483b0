/* --checkpoint DIR: the run regularly writes the state from which it can resume (train/state.h) into a folder.
 *
 *     steps    | 1 .. 100 | copy | 101 .. 200 | copy | 201 .. 217 | copy          SIGTERM: it ends here
 *     written               \--> step-100       \--> step-200       \--> step-217
 *
 *     train --checkpoint DIR --checkpoint-every 100 --keep 3
 *     train --resume DIR --checkpoint DIR               continues with step 218, and reaches the same bits
 *
 * A checkpoint is due every N steps (or some seconds after the last one), when any process of the run receives SIGUSR1
 * (gs_checkpoint_requested), and at the end, even if a signal ends the run. All workers must take it after the same
 * step, because each may hold only a part of the state. Rank 0 decides when a checkpoint is taken, and tells the others
 * through the counts that each step sums anyway. The same counts carry requests to stop (GS_STAT_STOP):
 *
 *     1        a worker was asked to stop: the run ends after this step
 *     1/2      rank 0: take a checkpoint after this step
 *     1/4096   a worker was asked for a checkpoint: rank 0 decides in a later step
 *
 * These sums are exact. Checkpoints thus need no additional message, and change no rounding.
 *
 * A step waits until the state has been copied into rank 0's memory, but not for the disk: a thread writes the copy
 * (core/jobs.h). A checkpoint that falls due during the write is taken when the thread is done. With --sync local the
 * workers have the same weights only after an average, so checkpoints wait for the next one.
 *
 * If a checkpoint cannot be written, training continues, older checkpoints stay, and observer->note reports the
 * failure. Only a failure of the last checkpoint loses anything; the run's result then says so.
 *
 * Source: Mohan, Phanishayee, Chidambaram, "CheckFreq: frequent, fine-grained DNN checkpointing" (FAST 2021): a step
 * waits for the snapshot, but not for the write.
 */
#pragma once

#include "train/train.h"

/* How many checkpoints the folder keeps. */
int gs_checkpoints_kept(const gs_settings *);
