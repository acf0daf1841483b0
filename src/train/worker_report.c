#include "train/modes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t gs_own_samples(const gs_worker *w, size_t batch) {
    int parts = w->exact ? GS_EXACT_SHARDS : w->comm->size, each = parts / w->comm->size;
    gs_shard first = gs_shard_of(batch, w->comm->rank * each, parts);
    gs_shard last = gs_shard_of(batch, w->comm->rank * each + each - 1, parts);
    return last.first + last.count - first.first;
}

/* What a worker shows the others. */
typedef struct part {
    gs_worker_report report;
    double samples, seconds;
} part;

/* The workers begin and end an epoch together, so there is one time of the run, rank 0's: with it their speeds add up
 * to that of the run. */
static gs_status gather(const gs_worker *w, const part *mine, part *all, gs_worker_report *out) {
    GS_TRY(w->comm->ops->all_gather(w->comm, mine, all, sizeof *mine, GS_U8));
    for (int r = 0; r < w->comm->size; r++) {
        out[r] = all[r].report;
        out[r].samples_per_s = all[0].seconds > 0 ? all[r].samples / all[0].seconds : 0;
    }
    return GS_OK;
}

gs_status gs_report_workers(gs_worker *w, double seconds, gs_result *result) {
    part mine;
    double sum = 0;
    memset(&mine, 0, sizeof mine); /* padding too: the whole struct travels */
    mine.samples = w->samples;
    mine.seconds = seconds;
    snprintf(mine.report.device, sizeof mine.report.device, "%s", w->device->name);
    for (int p = 0; p < GS_PHASES; p++) sum += w->phase[p];
    for (int p = 0; p < GS_PHASES; p++) mine.report.share[p] = sum > 0 ? w->phase[p] / sum : 0;
    result->worker = calloc((size_t)w->comm->size, sizeof *result->worker);
    part *all = calloc((size_t)w->comm->size, sizeof *all);
    gs_status status = GS_OK;
    if (!result->worker || !all)
        status = gs_fail(GS_E_MEMORY, "no memory for a report of %d workers", w->comm->size);
    if (status == GS_OK) status = gather(w, &mine, all, result->worker);
    free(all);
    return status;
}
