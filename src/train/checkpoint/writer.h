/* A thread that writes checkpoints, while the worker of rank 0 trains.
 *
 *     worker     steps | copy | steps                   | copy | steps
 *     thread             \--> write, fsync, rename      ^  \--> write, ...
 *                                                       idle: the copy is the worker's again
 *
 * There is one copy. It is the worker's while the thread is idle, and the thread's from start to the end of the
 * write.
 */
#pragma once

#include "train/checkpoint/folder.h"

typedef struct gs_checkpoint_job {
    const char *folder;
    gs_model *plan; /* what the weights are of */
    const gs_optimizer_ops *ops;
    uint64_t per_epoch; /* steps */
    int keep;
    bool any_value; /* write weights that are not finite, too */
    float *weights; /* the copy, */
    gs_state *state;
} gs_checkpoint_job;

/* What it has done so far. */
typedef struct gs_checkpoint_done {
    int written, failed;
    uint64_t step, bytes; /* of the last one that was written */
    double seconds;       /* of writing, in all */
    bool last_failed;
    char message[600]; /* of the last failure */
} gs_checkpoint_done;

typedef struct gs_checkpoint_writer gs_checkpoint_writer;

/* The job must live as long. GS_E_MEMORY. */
gs_status gs_checkpoint_writer_create(const gs_checkpoint_job *, gs_checkpoint_writer **out);
/* Ends what is being written first. NULL is allowed. */
void gs_checkpoint_writer_free(gs_checkpoint_writer *);

bool gs_checkpoint_writer_is_idle(gs_checkpoint_writer *);
/* Write the copy. It must be idle. */
void gs_checkpoint_writer_start(gs_checkpoint_writer *);
/* Until it is idle. */
void gs_checkpoint_writer_wait(gs_checkpoint_writer *);
/* While it is idle. */
const gs_checkpoint_done *gs_checkpoint_writer_done(const gs_checkpoint_writer *);
