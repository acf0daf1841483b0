/* What one worker does during some steps, thread by thread: begin and end of all that it does there.
 *
 *     row 0, compute   | step 4                                                                        |
 *                      | load | forward                | backward               | sync       | update |
 *                             | 1.linear | 3.linear |    | 3.linear | 1.linear |   | send | receive |
 *     row 1, sync      with --bucket alone: the thread that sums while backward runs
 *     row 2, loader    the thread that gathers samples
 *     row 3 + r        with --sync async, on rank 0: the thread that serves worker r
 *
 * Only the steps settings->trace.first .. trace.last are recorded; all others cost one comparison. A recorded step
 * waits for its device after each layer, which takes time that other steps do not lose, on OpenCL above all.
 *
 * At the end rank 0 gets the spans of all workers, with all times measured from the beginning of training. On one
 * machine all processes read the same clock. A worker on another machine counts from the end of the barrier that all
 * passed before the first step, so its spans can be off by as long as a message takes.
 */
#pragma once

#include "train/train.h"

enum { GS_ROW_COMPUTE, GS_ROW_SYNC, GS_ROW_LOADER, GS_ROW_SERVER };

typedef enum gs_span_kind {
    GS_SPAN_STEP,
    GS_SPAN_PHASE,          /* of the step; index: gs_phase */
    GS_SPAN_FORWARD_LAYER,  /* index: the layer's number */
    GS_SPAN_BACKWARD_LAYER, /* the same */
    GS_SPAN_SEND,           /* index: the rank that gets the message */
    GS_SPAN_RECEIVE,        /* index: the rank that it comes from; has the wait for it in it */
    GS_SPAN_BUCKET,         /* a sum of --bucket; index: which, from 0 */
    GS_SPAN_GATHER,         /* the loader; step: the one that the samples are for, which may come later */
} gs_span_kind;

typedef struct gs_span {
    double start, end;     /* seconds since training began */
    uint64_t step;         /* from 1 */
    uint64_t bytes;        /* send, receive: of the message; gather: of the samples */
    uint64_t first, count; /* send, receive: elements of the array of gradients; 0 0: not such a part */
    int32_t row, kind, index;
    int32_t round; /* of a scheme, from 1; 0: none */
} gs_span;

/* One worker's spans, in the order in which they ended, row by row. */
typedef struct gs_timeline_part {
    gs_span *span;
    size_t count;
    uint64_t lost; /* that there was no memory for */
} gs_timeline_part;

/* All ranks call it after the same barrier. GS_E_MEMORY. */
gs_status gs_timeline_create(gs_worker *, gs_timeline **out);
void gs_timeline_free(gs_timeline *); /* NULL is allowed */

/* Around each step of the worker, which may have no timeline. */
gs_status gs_timeline_step_begins(gs_worker *);
void gs_timeline_step_ends(gs_worker *);

/* Is the step that the worker is in recorded? */
bool gs_timeline_records(const gs_worker *);

/* What has just ended. Nothing is recorded where the step is not. */
void gs_timeline_phase(gs_worker *, gs_phase, double start, double end);
void gs_timeline_bucket(gs_worker *, int bucket, double start, double end);
/* A message other than those of a scheme, which are recorded by themselves: in step `step`, in the thread of row
 * `row`. */
void gs_timeline_message(gs_worker *, int row, uint64_t step, bool received, int peer, size_t bytes,
                         double start);

/* Rank 0 gets all: parts[rank], one for each, to be freed by gs_timeline_parts_free; the others get NULL. All call it,
 * between two steps. */
gs_status gs_timeline_gather(gs_worker *, gs_timeline_part **parts);
void gs_timeline_parts_free(gs_timeline_part *parts, int workers);
