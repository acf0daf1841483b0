/* How long the stages of a pipeline waited (pipeline.c). */
#pragma once

#include "parallel/cut.h"
#include "parallel/schedule.h"
#include "train/result.h"

/* Seconds of some steps. */
typedef struct gs_stage_times {
    double span; /* on stage 0: from the first forward of a step to its last backward; on the others 0 */
    double seconds[2][GS_RUNS]; /* of forward, of backward passes of each run; 0 for other stages' runs */
} gs_stage_times;

/* How long the stages waited, by cause, from sums over all stages of one or more pipelines. GS_E_USAGE: a deadlock;
 * GS_E_MEMORY. */
gs_status gs_bubble_of(const gs_pipeline *, const gs_instructions *lists, const gs_stage_times *,
                       gs_bubble *out);
