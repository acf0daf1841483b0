/* Where a pipeline is cut (parallel/cut.h), by the times of its layers: all workers must know before they begin.
 *
 * Times differ from worker to worker and from run to run. So the process of rank 0 measures (predict/times.h), cuts
 * the model, and tells the other processes where. From then on the cut is a setting like any other: the same run again
 * is the one with --pipeline-cut set to it. No result depends on it, only who computes what.
 */
#pragma once

#include "comm/comm.h"

struct gs_run;

/* Is this a run whose cut is to be measured, and which has no other mistake that would be found first? */
bool gs_cut_is_open(const struct gs_run *);

/* Settle run->settings.pipeline_cut, if it is open on all processes; else what differs is told later, with all other
 * options (options/agreement.c). processes NULL: there is this one alone. */
gs_status gs_cut_settle(struct gs_run *, gs_comm *processes);
