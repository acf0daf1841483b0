/* The instructions of a pipeline in virtual time: the workers that would execute them, without the work.
 *
 * Each stage has a clock. An instruction moves it on by what it takes; a receive waits for the moment when the message
 * is there, and, as comm.h has it, a send waits while two messages of this pair of stages are under way. So what comes
 * out depends on the lists and these numbers alone.
 */
#pragma once

#include "parallel/schedule.h"

typedef struct gs_pipeline_times {
    /* [run], run r = chunk x p + stage: seconds of a micro-batch; NULL: 1 and 2. */
    const double *forward, *backward;
    double message; /* from a send to the moment when it can be received; the sender's clock does not move */
} gs_pipeline_times;

typedef struct gs_pipeline_run {
    double *end;   /* of each stage: when it has executed its last instruction; NULL: not wanted */
    double *busy;  /* how long it computed; NULL: not wanted */
    double took;   /* the largest end */
    double bubble; /* 1 - (the sum of busy) / (p x took) */
    size_t early;  /* messages that came before one from the same stage that was wanted first */
} gs_pipeline_run;

/* Execute the lists of all stages. out->end and out->busy: NULL, or room for p numbers. GS_E_USAGE: they end in a
 * deadlock; the message names a stage and what it waits for. GS_E_MEMORY. */
gs_status gs_pipeline_in_virtual_time(const gs_pipeline *, const gs_instructions *lists,
                                      const gs_pipeline_times *, gs_pipeline_run *out);
