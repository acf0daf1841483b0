/* How long the stages of a pipeline waited (pipeline.c). */
#pragma once

#include "parallel/cut.h"
#include "parallel/schedule.h"
#include "train/result.h"

/* Times of one or more steps, in seconds. */
typedef struct gs_stage_times {
    double span; /* on stage 0: from a step's first forward to its last backward; on other stages 0 */
    double seconds[2][GS_RUNS]; /* of each run's forward and backward passes; 0 for other stages' runs */
} gs_stage_times;

/* Compute how long the stages waited, by cause. The times are summed over all stages of one or more pipelines.
 * GS_E_USAGE: a deadlock. GS_E_MEMORY. */
gs_status gs_bubble_of(const gs_pipeline *, const gs_instructions *lists, const gs_stage_times *,
                       gs_bubble *out);
