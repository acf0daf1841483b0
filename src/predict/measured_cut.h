/* --pipeline-cut measured: cuts a pipeline (parallel/cut.h) by the times of its layers, before workers begin.
 *
 * Times differ between workers and between runs, so the process of rank 0 measures (predict/times.h), cuts the model,
 * and broadcasts the cut. From then on the cut is a setting like any other: giving this cut to --pipeline-cut repeats
 * the run. The cut decides which worker computes what; it does not change results.
 */
#pragma once

#include "predict/times.h"

struct gs_run;

/* Cut the model `plan` for settings->pipeline stages by the times of its layers. GS_E_USAGE. */
gs_status gs_cut_by_times(const gs_settings *, const gs_model *plan, const gs_layer_times *,
                          gs_cut_report *out);

/* True if the run's cut must be measured, and no check of its settings would fail first. */
bool gs_cut_is_open(const struct gs_run *);

/* Set run->settings.pipeline_cut if it is open on all processes. If it is open only on some, the difference is reported
 * later, with all other options (options/agreement.c). If `processes` is NULL, there is only this process. */
gs_status gs_cut_settle(struct gs_run *, gs_comm *processes);
