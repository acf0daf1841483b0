/* Executes a pipeline's instructions in virtual time, without doing the work.
 *
 * Each stage has a clock, which an instruction advances by its duration. A receive waits until its message arrives. A
 * send waits while two messages from this stage to the same peer are under way, as in comm.h. The result depends only
 * on the lists and the given times.
 */
#pragma once

#include "parallel/schedule.h"

typedef struct gs_pipeline_times {
    /* [run], where run r = chunk x p + stage: seconds for a micro-batch. NULL: 1 forward, 2 backward. */
    const double *forward, *backward;
    double message; /* time until a sent message can be received; the sender's clock does not advance */
} gs_pipeline_times;

typedef struct gs_pipeline_run {
    double *end;   /* [stages]: when each has executed its last instruction; may be NULL */
    double *busy;  /* [stages]: how long each computed; may be NULL */
    double took;   /* the latest end */
    double bubble; /* 1 - (the sum of busy) / (p x took) */
    size_t early;  /* messages received before the one that the stage wanted */
} gs_pipeline_run;

/* Execute all stages' lists. GS_E_USAGE: a deadlock; the message names a stage and what it waits for. GS_E_MEMORY. */
gs_status gs_pipeline_in_virtual_time(const gs_pipeline *, const gs_instructions *lists,
                                      const gs_pipeline_times *, gs_pipeline_run *out);
