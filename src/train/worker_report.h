/* What each worker of a run did. All workers call gs_report_workers, gs_report_devices and gs_report_steps. */
#pragma once

#include "core/busy.h"
#include "train/worker.h"

/* What each worker did since then, in `seconds` of training: one report per worker, to be freed with free(). */
gs_status gs_report_workers(gs_worker *, const gs_measured *since, double seconds, gs_busy *busy,
                            gs_worker_report **out);

/* The devices of all workers, to be freed with free(). */
gs_status gs_report_devices(gs_worker *, gs_device_report **out);

/* Times and messages of a run's steps, and the reports of strategy and reducer. */
gs_status gs_report_steps(gs_worker *, gs_result *);

/* What --recompute costs this worker: operations per sample, of its own layers. */
typedef struct gs_recomputed {
    double again, forward, backward;
    int segments;
} gs_recomputed;

gs_recomputed gs_worker_recomputes(const gs_worker *);
