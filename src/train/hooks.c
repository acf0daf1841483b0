/* The list of hooks, and the short hooks: progress and log, a hook for tests, and the weights at the end of a run. */
#include "train/hooks.h"
#include "train/diverged.h"
#include "train/strategy.h"
#include "train/worker_report.h"
#include "train/state.h"
#include "train/timeline.h"

#include <math.h>
#include <stdlib.h>

/* ---- weights ---- */

static gs_status make_weights(gs_worker *w, gs_result *result) {
    const gs_model *whole = gs_model_whole(w->model);
    result->params = whole->params;
    if (result->weights) return GS_OK;
    return gs_host_alloc(w, GS_MEMORY_WEIGHTS, whole->saved * sizeof(float), &result->weights);
}

gs_status gs_read_weights(gs_worker *w, gs_result *result) {
    GS_TRY(make_weights(w, result));
    GS_TRY(gs_partition_weights(w, result->weights));
    return gs_check_weights(w, result->weights);
}

/* With --keep best, rank 0 copies the weights after the epoch with the highest test accuracy so far (for text, the
 * lowest loss); of equally good epochs, the first. If each rank holds only a part of the weights, all ranks take part
 * in gathering the copy; otherwise the other ranks hold the same weights and do nothing. */
static gs_status keep_best(gs_worker *w, int epoch, gs_result *r) {
    const bool better = w->test_set->text ? r->test_loss < r->kept_loss : r->test_accuracy > r->kept_accuracy;
    if (!w->settings->keep.best || r->interrupted || !(better || r->kept_epoch == 0)) return GS_OK;
    if (w->comm->rank != 0 && !gs_weights_are_divided(w->model)) return GS_OK;
    r->kept_epoch = 0; /* the kept weights are being overwritten */
    GS_TRY(gs_read_weights(w, r));
    r->kept_epoch = epoch;
    r->kept_accuracy = r->test_accuracy;
    r->kept_loss = r->test_loss;
    return GS_OK;
}

static gs_status end_weights(gs_worker *w, gs_event *e) {
    if (w->settings->save_state) GS_TRY(gs_state_create(w, &e->result->state));
    if (w->settings->save_state) GS_TRY(gs_state_fill(w, e->result->state));
    return e->result->kept_epoch ? make_weights(w, e->result) : gs_read_weights(w, e->result);
}

/* ---- reports to rank 0's observer ---- */

static gs_status begin_report(gs_worker *w) {
    const gs_settings *s = w->settings;
    const gs_observer *o = w->observer;
    if (s->record && s->trace.first) GS_TRY(gs_timeline_create(w, &w->timeline));
    if (s->record || gs_workers_differ(w)) GS_TRY(gs_report_devices(w, &w->devices));
    if (o->start) o->start(o->context, w);
    return GS_OK;
}

static gs_status tell_step(gs_worker *w, gs_event *e) {
    const gs_observer *o = w->observer;
    if (o->step) o->step(o->context, e->epoch, e->done, e->of, &e->score);
    return GS_OK;
}

static gs_status tell_test(gs_worker *w, gs_event *e) {
    if (w->observer->test) w->observer->test(w->observer->context, &e->test);
    return GS_OK;
}

/* Called between two epochs, where all workers meet whatever --sync is. */
static gs_status tell_timeline(gs_worker *w) {
    const gs_observer *o = w->observer;
    gs_rank_timeline *parts;
    GS_TRY(gs_timeline_gather(w, &parts));
    if (parts && o->timeline) o->timeline(o->context, parts, w->comm->size);
    gs_rank_timelines_free(parts, w->comm->size);
    gs_timeline_free(w->timeline);
    w->timeline = NULL;
    return GS_OK;
}

static gs_status record_epoch(gs_worker *w, const gs_event *e) {
    const gs_settings *s = w->settings;
    const bool last = e->result->interrupted || e->epoch == s->epochs || (s->steps && w->step >= s->steps);
    gs_worker_report *reports;
    gs_busy unused = {.cpus = 1};
    const gs_status status = gs_report_workers(w, e->then, e->seconds, &unused, &reports);
    if (status == GS_OK && w->observer->workers)
        w->observer->workers(w->observer->context, e->epoch, reports, w->comm->size);
    free(reports);
    return status == GS_OK && w->timeline && (last || w->step >= s->trace.last) ? tell_timeline(w) : status;
}

static gs_status tell_epoch(gs_worker *w, gs_event *e) {
    const gs_result *r = e->result;
    const double norms = w->measured.norms - e->then->norms, steps = (double)(w->step - e->begun_at);
    const gs_epoch_report report = {e->epoch,
                                    w->step,
                                    e->begun_at % gs_steps_of_epoch(w->train_set->count, w->batch),
                                    r->train_loss,
                                    e->total.correct / e->total.samples,
                                    r->test_loss,
                                    r->test_accuracy,
                                    e->total.samples / gs_model_targets(w->model) / e->seconds,
                                    w->settings->clip > 0 ? norms / steps : (double)NAN};
    GS_TRY(keep_best(w, e->epoch, e->result));
    if (w->settings->record) GS_TRY(record_epoch(w, e));
    if (w->observer->epoch && !r->interrupted) w->observer->epoch(w->observer->context, &report);
    return GS_OK;
}

/* ---- the list ---- */

static gs_status call_test_hook(gs_worker *w, gs_event *e) {
    (void)e;
    if (w->settings->test_hook) w->settings->test_hook(w);
    return GS_OK;
}

static const gs_hook of_test = {.after_step = call_test_hook},
                     report = {.begin = begin_report, .after_test = tell_test, .after_epoch = tell_epoch},
                     progress = {.after_step = tell_step, .end = end_weights};

/* The order matters. The hook for tests causes faults that verify must find. The report hook reports a test before the
 * divergence hook ends the run. Divergence precedes checkpoints, so that a diverged run writes no checkpoint. */
const gs_hook *const gs_hooks[] = {&gs_hook_timeline,
                                   &gs_hook_dry_run,
                                   &gs_hook_digest,
                                   &gs_hook_snapshots,
                                   &of_test,
                                   &gs_hook_verify,
                                   &report,
                                   &gs_hook_divergence,
                                   &gs_hook_checkpoints,
                                   &progress,
                                   NULL};
