/* A record of a run: `gradsum train --log DIR` writes into a folder while it trains:
 *
 *     run.json          what was run: command, model, data, settings, devices; at the end: how it ended, memory
 *     metrics.jsonl     one JSON object per line: "step", "worker" and "epoch"
 *     trace.json        some steps, thread by thread, for Perfetto and chrome://tracing (trace.c)
 *     events.out.tfevents.*   the curves and histograms of weights and gradients, for TensorBoard (events.c)
 *
 * Rank 0 writes all files. It writes line by line, so a killed run loses at most its last moment. Readers must tolerate
 * a last line that is cut off. trace.json and run.json are complete or absent, unless the run is killed while writing
 * the end of run.json on a full disk.
 *
 * A log never ends a run: when something cannot be written, next->note is called once with a sentence, the log stops,
 * and training continues. */
#pragma once

#include "train/train.h"

typedef struct gs_log gs_log;

typedef struct gs_log_options {
    const char *folder;
    uint64_t every;          /* steps between two lines of metrics.jsonl; 0 counts as 1 */
    int argc;                /* of each process, without launch or mpirun: "train" and its options */
    char *const *argv;       /* must live as long as the log */
    const gs_observer *next; /* receives every call that the log receives; may be NULL */
} gs_log_options;

/* Make the folder if needed, and begin the log. The process of rank 0 calls this before gs_train. If the program
 * ignores SIGXFSZ, a file that reaches its size limit causes an error, as a full disk does, and does not end the
 * program. GS_E_FILE: the folder cannot be made or written to, is not a folder, or already holds a log. */
gs_status gs_log_open(const gs_log_options *, gs_log **out);

/* The observer to pass to gs_train. */
gs_observer gs_log_observer(gs_log *);

/* End the log, either with `status` and its message or with a result. False: the log stopped before the run did. */
bool gs_log_end(gs_log *, gs_status status, const gs_result *);

/* NULL is allowed. */
void gs_log_free(gs_log *);
