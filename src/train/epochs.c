#include "train/modes.h"
#include "train/overlap.h"

#include "core/clock.h"

#include <stdlib.h>

/* Tells the seconds of training, in which evaluations do not count. */
typedef struct stopwatch {
    double before;  /* in the epochs before this one */
    double started; /* when this one began, moved on by each evaluation */
} stopwatch;

static gs_status test(gs_worker *w, stopwatch *watch, const gs_observer *observer, gs_score *score) {
    GS_TRY(w->device->ops->finish(w->device));
    double paused = gs_seconds(), seconds = watch->before + paused - watch->started;
    GS_TRY(
        gs_context(gs_evaluate(w, w->test_set, score), "test after step %llu", (unsigned long long)w->step));
    double now = gs_seconds();
    watch->started += now - paused;
    gs_step_times_begin(&w->step_times, now);
    gs_test_report report = {w->step, seconds, score->loss / score->samples, score->correct / score->samples};
    if (w->comm->rank == 0 && observer && observer->test) observer->test(observer->context, &report);
    return GS_OK;
}

/* Is it time for one of the evaluations within an epoch, after `done` of its steps? */
static bool is_test_due(const gs_worker *w, size_t done, size_t steps) {
    size_t tests = (size_t)w->settings->tests;
    if (tests < 2 || w->local || w->async || done == steps) return false; /* the last one is not within it */
    return done * tests / steps != (done - 1) * tests / steps;
}

/* The steps of one epoch; *score is the sum over its samples. */
static gs_status one_epoch(gs_worker *w, int epoch, stopwatch *watch, const gs_observer *observer,
                           gs_score *total) {
    const gs_settings *s = w->settings;
    size_t count = w->train_set->count, steps = (count + w->batch - 1) / w->batch;
    if (s->steps && s->steps - w->step < steps) steps = (size_t)(s->steps - w->step);
    *total = (gs_score){0};
    if (w->async) GS_TRY(gs_async_begin_epoch(w, steps));
    for (size_t i = 0; i < steps && !total->stop; i++) {
        size_t first = i * w->batch, batch = count - first < w->batch ? count - first : w->batch;
        gs_score score;
        GS_TRY(gs_context(gs_step(w, first, batch, &score), "epoch %d, step %zu", epoch, i + 1));
        w->samples += (double)gs_own_samples(w, batch);
        if (s->test_hook) s->test_hook(w);
        GS_TRY(gs_verify(w));
        total->loss += score.loss;
        total->correct += score.correct;
        total->samples += score.samples;
        total->stop = score.stop;
        if (w->comm->rank == 0 && observer && observer->step)
            observer->step(observer->context, epoch, i + 1, steps, &score);
        gs_step_times_ended(&w->step_times, gs_seconds(), batch == w->batch);
        if (!total->stop && is_test_due(w, i + 1, steps)) GS_TRY(test(w, watch, observer, &score));
    }
    if (w->local) GS_TRY(gs_context(gs_local_end_epoch(w, total), "end of epoch %d", epoch));
    if (w->async) GS_TRY(gs_context(gs_async_end_epoch(w, total), "end of epoch %d", epoch));
    return w->device->ops->finish(w->device);
}

/* What the workers have sent: the mean, and the most that one has. */
static gs_status collect_sent(gs_worker *w, gs_result *result) {
    double steps = (double)w->step, sum = w->sent;
    GS_TRY(w->comm->ops->all_reduce(w->comm, &sum, 1, GS_F64, GS_SUM));
    double most = w->sent;
    GS_TRY(w->comm->ops->all_reduce(w->comm, &most, 1, GS_F64, GS_MAX));
    result->sent = steps > 0 ? sum / steps / w->comm->size : 0;
    result->sent_most = steps > 0 ? most / steps : 0;
    return GS_OK;
}

gs_status gs_train_epochs(gs_worker *w, const gs_observer *observer, gs_result *result) {
    const gs_settings *s = w->settings;
    double seconds = 0, samples = 0, waited = 0;
    GS_TRY(gs_warm_up(w));
    if (s->bucket && w->comm->size > 1) GS_TRY(gs_overlap_create(w, &w->overlap));
    size_t most = w->overlap ? gs_overlap_most(w->overlap) : w->model->params + GS_STATS;
    gs_sync_array gradients = {most, s->wire, GS_STATS};
    GS_TRY(gs_sync_create_wire(w->scheme, w->comm, gradients, &w->sync));
    GS_TRY(w->comm->ops->barrier(w->comm));
    GS_TRY(gs_record_start(w, observer));
    if (w->comm->rank == 0 && observer && observer->start) observer->start(observer->context, w);
    for (int epoch = 1; epoch <= s->epochs && !(s->steps && w->step >= s->steps); epoch++) {
        gs_score train, score;
        double waited_before = gs_loader_waited(w->loader);
        gs_work_done before = gs_work_done_by(w);
        stopwatch watch = {.before = seconds, .started = gs_seconds()};
        gs_step_times_begin(&w->step_times, watch.started);
        GS_TRY(one_epoch(w, epoch, &watch, observer, &train));
        double took = gs_seconds() - watch.started;
        waited += gs_loader_waited(w->loader) - waited_before;
        seconds += took;
        samples += train.samples;
        result->interrupted = train.stop;
        result->train_loss = train.loss / train.samples;
        if (train.stop) {
            GS_TRY(gs_record_epoch(w, observer, epoch, &before, took, true));
            break;
        }
        GS_TRY(test(w, &watch, observer, &score));
        result->test_loss = score.loss / score.samples;
        result->test_accuracy = score.correct / score.samples;
        bool last = epoch == s->epochs || (s->steps && w->step >= s->steps);
        GS_TRY(gs_record_epoch(w, observer, epoch, &before, took, last));
        gs_epoch_report report = {epoch,
                                  w->step,
                                  result->train_loss,
                                  train.correct / train.samples,
                                  result->test_loss,
                                  result->test_accuracy,
                                  train.samples / took};
        if (w->comm->rank == 0 && observer && observer->epoch) observer->epoch(observer->context, &report);
    }
    result->steps = w->step;
    result->samples_per_s = seconds > 0 ? samples / seconds : 0;
    result->step_median = gs_step_times_median(&w->step_times);
    result->waited = seconds > 0 ? waited / seconds : 0;
    for (int p = 0; p < GS_PHASES; p++)
        result->phase[p] = w->measured ? w->phase[p] / (double)w->measured : 0;
    if (w->async) GS_TRY(gs_async_staleness(w, &result->staleness));
    if (w->overlap) result->overlap = gs_overlap_measured(w->overlap, w->step);
    GS_TRY(collect_sent(w, result));
    GS_TRY(gs_report_workers(w, &(gs_work_done){0}, seconds, &result->worker));
    result->params = w->model->params;
    result->weights = malloc(result->params * sizeof(float) + 1);
    if (!result->weights) return gs_fail(GS_E_MEMORY, "no memory for a copy of %zu weights", result->params);
    return gs_model_read_weights(w->model, result->weights);
}
