/* Executing the instructions of a pipeline in virtual time, without the work.
 *
 * Each stage has a clock, which an instruction advances by its duration. A receive waits until its message arrives, and
 * a send waits while two messages of this pair of stages are under way, as in comm.h. The result depends on the lists
 * and the given times alone.
 */
#pragma once

#include "parallel/schedule.h"

typedef struct gs_pipeline_times {
    /* [run], run r = chunk x p + stage: seconds for a micro-batch; NULL: 1 and 2. */
    const double *forward, *backward;
    double message; /* from a send until it can be received; the sender's clock does not move */
} gs_pipeline_times;

typedef struct gs_pipeline_run {
    double *end;   /* [stages]: when each has executed its last instruction; may be NULL */
    double *busy;  /* [stages]: how long each computed; may be NULL */
    double took;   /* the largest end */
    double bubble; /* 1 - (the sum of busy) / (p x took) */
    size_t early;  /* messages that arrived before an earlier wanted one of the same stage */
} gs_pipeline_run;

/* Execute the lists of all stages. GS_E_USAGE: a deadlock; the message names a stage and what it waits for.
 * GS_E_MEMORY. */
gs_status gs_pipeline_in_virtual_time(const gs_pipeline *, const gs_instructions *lists,
                                      const gs_pipeline_times *, gs_pipeline_run *out);
