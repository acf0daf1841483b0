/* Records when each thing that a worker does in some steps begins and ends, thread by thread.
 *
 *     row 0, compute   | step 4                                                                        |
 *                      | load | forward                | backward               | sync       | update |
 *                             | 1.linear | 3.linear |    | 3.linear | 1.linear |   | send | receive |
 *     row 1, sync      only with --bucket: the thread that sums gradients while backward runs
 *     row 2, loader    the thread that gathers samples
 *     row 3, fetcher   with --offload on cpu: the thread that fetches and offloads memory
 *     row 4 + i        with --zero 3: window i of weights, from the start of a unit's gather until its release
 *     row 7 + i        with --zero 2 and 3: window i of gradients, from a unit's backward until they are summed
 *     row 10 + r       with --sync async, on rank 0: the thread that serves worker r
 *
 * Only the steps settings->trace.first .. trace.last are recorded; other steps cost only a comparison. A recorded step
 * waits for its device after each layer, and therefore takes longer than other steps, above all on OpenCL.
 *
 * At the end rank 0 gathers the spans of all workers, with times since training began. On one machine all processes
 * read the same clock. A worker on a different machine counts from the end of the barrier before the first step, so its
 * times may be off by the duration of a message.
 */
#pragma once

#include "train/train.h"

enum { GS_WINDOW_ROWS = 3 /* a model with two lent tensors has a fourth window, which is not recorded */ };

enum {
    GS_ROW_COMPUTE,
    GS_ROW_SYNC,
    GS_ROW_LOADER,
    GS_ROW_FETCHER,
    GS_ROW_WEIGHTS,
    GS_ROW_GRADIENTS = GS_ROW_WEIGHTS + GS_WINDOW_ROWS,
    GS_ROW_SERVER = GS_ROW_GRADIENTS + GS_WINDOW_ROWS
};

typedef enum gs_span_kind {
    GS_SPAN_STEP,
    GS_SPAN_PHASE,          /* a phase of the step; index: gs_phase */
    GS_SPAN_FORWARD_LAYER,  /* index: the layer's number */
    GS_SPAN_BACKWARD_LAYER, /* index: the layer's number */
    GS_SPAN_SEND,           /* index: the receiving rank */
    GS_SPAN_RECEIVE,        /* index: the sending rank; includes the wait for the message */
    GS_SPAN_BUCKET,         /* a sum of --bucket; index: the bucket, from 0 */
    GS_SPAN_GATHER,         /* by the loader; step: the one that will use the samples */
    GS_SPAN_STAGE_FORWARD,  /* in a pipeline; index: the micro-batch; round: the stage's chunk, from 0 */
    GS_SPAN_STAGE_BACKWARD, /* index and round as above */
    GS_SPAN_UNIT_GATHER,    /* ZeRO: all-gather of a unit's weights; index: the unit */
    GS_SPAN_UNIT_REDUCE,    /* ZeRO: reduce-scatter of a unit's gradients */
    GS_SPAN_UNIT_WEIGHTS,   /* a window holds the unit's weights; bytes: of the whole unit */
    GS_SPAN_UNIT_GRADIENTS, /* a window holds the unit's gradients */
    GS_SPAN_TP_CALL, /* --tensor, in a layer's span; count: all ranks' elements; index: gs_tensor_collective */
    GS_SPAN_FETCH,   /* --offload; index: gs_memory_kind */
    GS_SPAN_OFFLOAD, /* index as above */
    GS_SPANS
} gs_span_kind;

typedef struct gs_span {
    double start, end;     /* seconds since training began */
    uint64_t step;         /* from 1 */
    uint64_t bytes;        /* send, receive: of the message; gather: of the samples; else see the kinds */
    uint64_t first, count; /* send, receive: range of the gradients, or 0 0; unit: its parameters */
    int32_t row, kind, index;
    int32_t round; /* round of a sync scheme, from 1; 0: none */
} gs_span;

/* A worker's ledger (core/ledger.h) at one point in a step, for device and host together. */
typedef struct gs_memory_sample {
    double at; /* seconds since training began */
    uint64_t step;
    gs_memory_use use;
    /* Bytes of activations that will still be read: y until its backward ends, dx until the previous layer has computed
     * its own dx (layer/memory/buffer_plan.h). */
    double needed;
} gs_memory_sample;

/* One worker's spans, row by row, in the order of their ends. */
typedef struct gs_rank_timeline {
    gs_span *span;
    size_t count;
    gs_memory_sample *memory; /* in chronological order: after each layer and each phase */
    size_t samples;
    uint64_t lost; /* spans and samples lost for lack of memory */
} gs_rank_timeline;

/* Call this on all ranks, after the same barrier. *out must be freed even after a failure. GS_E_MEMORY. */
gs_status gs_timeline_create(gs_worker *, gs_timeline **out);
void gs_timeline_free(gs_timeline *); /* NULL is allowed */

/* These functions record what has just ended, if the step is recorded (worker->recorded). */
void gs_timeline_bucket(gs_worker *, int bucket, double start, double end);
/* Record any other span, from s->start to s->end by gs_seconds(), in the thread of its row. s->step is filled in. */
void gs_timeline_span(gs_worker *, const gs_span *);
/* Record forward or backward of a micro-batch in a chunk of this worker's stage; its activations take `bytes`. */
void gs_timeline_stage(gs_worker *, bool backward, int micro_batch, int chunk, size_t bytes, double start);
/* Record a message of a step, in the thread of its row. Messages of a sync scheme are recorded automatically. */
void gs_timeline_message(gs_worker *, int row, uint64_t step, bool received, int peer, size_t bytes,
                         double start);

/* Gather all timelines on rank 0: parts[rank], to be freed with gs_rank_timelines_free; NULL on other ranks. Call this
 * on all ranks, between two steps. */
gs_status gs_timeline_gather(gs_worker *, gs_rank_timeline **parts);
void gs_rank_timelines_free(gs_rank_timeline *parts, int workers);
