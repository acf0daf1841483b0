/* What a run tells its observer on rank 0 about all workers, for a log. */
#include "train/internal.h"
#include "train/timeline/timeline.h"

#include <stdlib.h>

gs_status gs_record_start(gs_worker *w, const gs_observer *o) {
    gs_device_report *devices;
    if (!w->settings->record) return GS_OK;
    if (w->settings->trace.first) GS_TRY(gs_timeline_create(w, &w->timeline));
    gs_status status = gs_report_devices(w, &devices);
    if (status == GS_OK && o->devices) o->devices(o->context, devices, w->comm->size);
    free(devices);
    return status;
}

/* Between two epochs, because there all workers are at the same place whatever --sync is. */
static gs_status timeline(gs_worker *w, const gs_observer *o) {
    gs_timeline_part *parts;
    GS_TRY(gs_timeline_gather(w, &parts));
    if (parts && o->timeline) o->timeline(o->context, parts, w->comm->size);
    gs_timeline_parts_free(parts, w->comm->size);
    gs_timeline_free(w->timeline);
    w->timeline = NULL;
    return GS_OK;
}

gs_status gs_record_epoch(gs_worker *w, const gs_observer *o, int epoch, const gs_measured *since,
                          double seconds, bool last) {
    gs_worker_report *reports;
    gs_busy unused = {.cpus = 1};
    if (!w->settings->record) return GS_OK;
    gs_status status = gs_report_workers(w, since, seconds, &unused, &reports);
    if (status == GS_OK && o->workers) o->workers(o->context, epoch, reports, w->comm->size);
    free(reports);
    if (status == GS_OK && w->timeline && (last || w->step >= w->settings->trace.last))
        status = timeline(w, o);
    return status;
}
