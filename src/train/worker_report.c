#include "layer/memory/recompute.h"
#include "train/worker_report.h"
#include "train/offload.h"
#include "train/reducer.h"
#include "train/state.h"
#include "train/strategy.h"
#include "train/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* What a worker sends to the others. */
typedef struct part {
    gs_worker_report report;
    double samples, seconds;
    gs_busy busy;
} part;

/* Workers begin and end an epoch together. Rank 0's time is used for all, so that their speeds add up to the run's. */
gs_status gs_report_workers(gs_worker *w, const gs_measured *since, double seconds, gs_busy *busy,
                            gs_worker_report **out) {
    part mine;
    double sum = 0;
    memset(&mine, 0, sizeof mine); /* including padding: the whole struct is sent */
    mine.samples = w->measured.samples - since->samples;
    mine.seconds = seconds;
    mine.busy = *busy;
    snprintf(mine.report.device, sizeof mine.report.device, "%s", w->device->name);
    for (int p = 0; p < GS_PHASES; p++) sum += w->measured.phase[p] - since->phase[p];
    for (int p = 0; p < GS_PHASES; p++)
        mine.report.share[p] = sum > 0 ? (w->measured.phase[p] - since->phase[p]) / sum : 0;
    for (int i = 0; i < GS_MEMORY_PLACES; i++) {
        mine.report.memory[i] = w->device->memory.peak[i];
        if (w->planned) mine.report.planned[i] = w->planned[i];
    }
    part *all;
    GS_TRY(GS_NEW(*out, w->comm->size, "a report of %d workers", w->comm->size));
    GS_TRY(GS_NEW(all, w->comm->size, "a report of %d workers", w->comm->size));
    const gs_status status = gs_comm_all_gather(w->comm, &mine, all, sizeof mine, GS_U8);
    for (int r = 0; r < w->comm->size && status == GS_OK; r++) {
        gs_worker_report *report = &(*out)[r];
        *report = all[r].report;
        report->device[sizeof report->device - 1] = '\0'; /* another program may have sent anything */
        report->samples_per_s = all[0].seconds > 0 ? all[r].samples / all[0].seconds : 0;
        *busy = gs_busy_worse(*busy, all[r].busy);
    }
    free(all);
    return status;
}

gs_status gs_report_devices(gs_worker *w, gs_device_report **out) {
    gs_device_report mine;
    memset(&mine, 0, sizeof mine);
    snprintf(mine.device, sizeof mine.device, "%s", w->device->name);
    snprintf(mine.description, sizeof mine.description, "%s", w->device->description);
    gethostname(mine.host, sizeof mine.host - 1);
    GS_TRY(GS_NEW(*out, w->comm->size, "the devices of %d workers", w->comm->size));
    GS_TRY(gs_comm_all_gather(w->comm, &mine, *out, sizeof mine, GS_U8));
    for (int r = 0; r < w->comm->size; r++) {
        gs_device_report *d = &(*out)[r];
        d->device[sizeof d->device - 1] = d->description[sizeof d->description - 1] =
            d->host[sizeof d->host - 1] = '\0'; /* another program may have sent anything */
    }
    return GS_OK;
}

gs_status gs_report_steps(gs_worker *w, gs_result *r) {
    const gs_measured *m = &w->measured;
    const double steps = (double)(w->step - w->begun_at);
    r->steps = w->step;
    r->step_median = gs_step_times_median(&m->times);
    for (int p = 0; p < GS_PHASES; p++) r->phase[p] = m->steps ? m->phase[p] / (double)m->steps : 0;
    if (w->strategy->report) GS_TRY(w->strategy->report(w, r));
    if (w->reducer) w->reducer->report(w, r);
    gs_tensor_tell(w, r);
    GS_TRY(gs_report_offload(w, &r->offload));
    r->sent = r->sent_most = steps > 0 ? m->sent / steps : 0;
    GS_TRY(gs_comm_all_reduce(w->comm, &r->sent_most, 1, GS_F64, GS_MAX));
    double *const number[] = {&r->sent,
                              &r->waited,
                              &r->overlap.summed,
                              &r->overlap.waited,
                              &r->offload.bytes,
                              &r->offload.in_step.bytes,
                              &r->offload.in_step.busy,
                              &r->offload.in_step.waited};
    enum { NUMBERS = sizeof number / sizeof *number };
    double sum[NUMBERS + GS_PHASES];
    for (int i = 0; i < NUMBERS; i++) sum[i] = *number[i];
    memcpy(sum + NUMBERS, r->phase, sizeof r->phase);
    GS_TRY(gs_comm_all_reduce(w->comm, sum, NUMBERS + GS_PHASES, GS_F64, GS_SUM));
    for (int i = 0; i < NUMBERS; i++) *number[i] = sum[i] / w->comm->size; /* means over all workers */
    for (int p = 0; p < GS_PHASES; p++) r->phase[p] = sum[NUMBERS + p] / w->comm->size;
    return GS_OK;
}

/* ---- results ---- */

void gs_result_free(gs_result *r) {
    free(r->weights);
    r->weights = NULL;
    free(r->worker);
    r->worker = NULL;
    gs_state_free(r->state);
    r->state = NULL;
    gs_staleness_free(&r->staleness);
    free(r->confusion);
    r->confusion = NULL;
    gs_class_names_free(&r->names);
}

/* ---- the cost of --recompute ---- */

static gs_status add_flops(gs_layer *l, void *sum) {
    *(double *)sum += l->other_stage ? 0 : l->flops;
    return GS_OK;
}

/* A stage's ratio of backward to forward operations is assumed to equal that of the whole model. */
gs_recomputed gs_worker_recomputes(const gs_worker *w) {
    gs_recomputed r = {0};
    const double ratio = w->model->flops_backward / w->model->flops_forward;
    const bool whole = !w->strategy->model || !w->train_set;
    const gs_model *m;
    for (int i = 0; (m = gs_worker_model(w, i)); i++) {
        r.again += gs_recompute_flops(m->net);
        (void)gs_layer_walk(m->net, add_flops, &r.forward);
        r.segments += gs_recompute_segments(m->net);
    }
    r.backward = whole ? w->model->flops_backward : ratio * r.forward;
    return r;
}
