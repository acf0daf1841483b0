/* A record of a run: `gradsum train --log DIR` writes, as it goes, into a folder:
 *
 *     run.json          what was run: command, model, data, settings, devices; at the end: how it ended, memory
 *     metrics.jsonl     one JSON object per line: "step", "worker" and "epoch"
 *     trace.json        some steps, thread by thread, for Perfetto and chrome://tracing (trace.c)
 *     events.out.tfevents.*   the curves and histograms of weights and gradients, for TensorBoard (events.c)
 *
 * Rank 0 writes all of it. Lines are written one by one, so that a run that is killed leaves all but its last moment.
 * The last line may be cut off; readers must accept that. trace.json is whole or
 * not there, and so is run.json, unless the run is killed while it writes its end on a full disk.
 *
 * A log never costs a run: when something cannot be written, `tell` is called once with a sentence, the
 * log ends there, and training goes on.
 */
#pragma once

#include "train/train.h"

typedef struct gs_log gs_log;

typedef struct gs_log_options {
    const char *folder;
    uint64_t every;          /* steps from one line of metrics.jsonl to the next; 0 is 1 */
    int argc;                /* the command that is run: "train" and its options */
    char *const *argv;       /* must live as long as the log */
    const gs_observer *next; /* called for everything that the log is called for; may be NULL */
    void (*tell)(void *context, const char *problem); /* in the thread of rank 0's worker */
    void *context;
} gs_log_options;

/* Make the folder, if it is not there, and begin in it. Called by the process of rank 0 before gs_train. A program that
 * ignores the signal SIGXFSZ gets an error, like that of a full disk, for a file that may not grow any more, and does
 * not end. GS_E_FILE: the folder cannot be made or written to, is something else, or holds a log already. */
gs_status gs_log_open(const gs_log_options *, gs_log **out);

/* The observer to pass to gs_train. */
gs_observer gs_log_observer(gs_log *);

/* The run has ended: with `status` and its message, or with a result. */
void gs_log_end(gs_log *, gs_status status, const gs_result *);

/* Did the log end before the run? */
bool gs_log_failed(const gs_log *);

/* NULL is allowed. */
void gs_log_free(gs_log *);
