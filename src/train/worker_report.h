/* What each worker of a run did. All workers call what gathers it. */
#pragma once

#include "core/busy.h"
#include "train/worker.h"

/* What each worker has done since then, in `seconds` of training: one report for each, to be freed with free(). */
gs_status gs_report_workers(gs_worker *, const gs_measured *since, double seconds, gs_busy *busy,
                            gs_worker_report **out);

/* The devices of all workers, in the same way. */
gs_status gs_report_devices(gs_worker *, gs_device_report **out);

/* What the steps of a run took: times, messages, and what strategy and reducer report. */
gs_status gs_report_steps(gs_worker *, gs_result *);

/* The times of a process's workers, each divided by `of` of them: phases, overlap, offload, waits for the loader. */
void gs_result_clear_times(gs_result *);
void gs_result_add_times(gs_result *mean, const gs_result *, int of);

/* What --recompute costs this worker: operations of a sample, in its layers alone. */
typedef struct gs_recomputed {
    double again, forward, backward;
    int segments;
} gs_recomputed;

gs_recomputed gs_worker_recomputes(const gs_worker *);
