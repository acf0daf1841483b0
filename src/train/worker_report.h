/* Reports on each worker of a run. All workers call gs_report_workers, gs_report_devices and gs_report_steps. */
#pragma once

#include "train/worker.h"

/* Report what each worker did after `since`, in `seconds` of training. *out: one report per worker; free() it. */
gs_status gs_report_workers(gs_worker *, const gs_measured *since, double seconds, gs_busy *busy,
                            gs_worker_report **out);

/* List the devices of all workers; release with free(). */
gs_status gs_report_devices(gs_worker *, gs_device_report **out);

/* Report times and messages of a run's steps, and the reports of strategy and reducer. */
gs_status gs_report_steps(gs_worker *, gs_result *);

/* The cost of --recompute for this worker: operations per sample, in its own layers. */
typedef struct gs_recomputed {
    double again, forward, backward;
    int segments;
} gs_recomputed;

gs_recomputed gs_worker_recomputes(const gs_worker *);
