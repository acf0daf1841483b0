/* The epochs of one worker: steps, and the tests within and after an epoch. Other observers of a run: hooks.h. */
#include "core/clock.h"
#include "train/hooks.h"
#include "train/strategy.h"
#include "train/worker_report.h"
#include "train/state.h"

#include <math.h>

/* *clock: the time when training began, plus the time spent since then on anything but training. */
static gs_status test(gs_worker *w, gs_event *e, double *clock) {
    gs_score score;
    GS_TRY(w->device->ops->finish(w->device));
    const double paused = gs_seconds();
    GS_TRY(gs_context(gs_evaluate(w, w->test_set, &score, NULL), "test after step %llu",
                      (unsigned long long)w->step));
    const double now = gs_seconds();
    e->test =
        (gs_test_report){w->step, paused - *clock, score.loss / score.samples, score.correct / score.samples};
    *clock += now - paused;
    w->measured.times.since = now;
    e->total.stop = score.stop; /* a signal ended the test: the results cover only part of the test set */
    if (!score.stop) GS_HOOKS(after_test, w, e);
    return GS_OK;
}

/* Run the epoch's last test, and end the epoch. */
static gs_status end_epoch(gs_worker *w, gs_event *e, double *clock) {
    gs_result *r = e->result;
    if (w->settings->tests > 0 && !e->total.stop) GS_TRY(test(w, e, clock));
    r->interrupted = e->total.stop;
    if (w->settings->tests == 0 || r->interrupted) return GS_OK;
    r->test_loss = e->test.loss;
    r->test_accuracy = e->test.accuracy;
    r->tested_epoch = e->epoch;
    return GS_OK;
}

/* True if a test is due before the epoch's end. (The epoch's last test follows its last step.) */
static bool is_test_due(const gs_worker *w, const gs_event *e) {
    const size_t tests = (size_t)w->settings->tests;
    return tests > 1 && !w->strategy->apart && e->done < e->of &&
           e->done * tests / e->of != (e->done - 1) * tests / e->of;
}

gs_status gs_epoch_begin(gs_worker *w, gs_event *e) {
    const gs_settings *s = w->settings;
    e->of = (size_t)gs_steps_of_epoch(w->train_set->count, w->batch);
    e->done = (size_t)(w->step % e->of); /* steps done by an earlier run */
    if (s->steps && s->steps - w->step < e->of - e->done) e->of = e->done + (size_t)(s->steps - w->step);
    e->total = (gs_score){0};
    return w->strategy->begin_epoch ? w->strategy->begin_epoch(w, e->of) : GS_OK;
}

gs_status gs_epoch_step(gs_worker *w, gs_event *e) {
    gs_score *total = &e->total, *score = &e->score;
    e->done++;
    GS_TRY(gs_context(gs_step(w, score), "epoch %d, step %zu", e->epoch, e->done));
    total->loss += score->loss;
    total->correct += score->correct;
    total->samples += score->samples;
    total->stop = score->stop;
    GS_HOOKS(after_step, w, e);
    gs_step_times_ended(&w->measured.times, gs_seconds(), w->micro_batch.batch == w->batch);
    return GS_OK;
}

gs_status gs_epoch_end(gs_worker *w, gs_event *e) {
    if (w->strategy->end_epoch)
        GS_TRY(gs_context(w->strategy->end_epoch(w, &e->total), "end of epoch %d", e->epoch));
    e->score = e->total;
    GS_HOOKS(after_steps, w, e);
    return w->device->ops->finish(w->device);
}

gs_status gs_train_epochs(gs_worker *w, gs_result *result) {
    const gs_settings *s = w->settings;
    const uint64_t steps = gs_steps_of_epoch(w->train_set->count, w->batch);
    gs_event e = {.result = result, .epoch = 1 + (int)(w->step / steps)};
    double seconds = 0, samples = 0, clock;
    result->train_loss = result->test_loss = result->test_accuracy = NAN; /* until measured */
    GS_TRY(gs_begin_training(w));
    const gs_busy_clock begun = gs_busy_begin();
    for (; e.epoch <= s->epochs && !(s->steps && w->step >= s->steps) && !result->interrupted; e.epoch++) {
        const gs_measured then = w->measured;
        e.then = &then;
        e.begun_at = w->step;
        w->measured.times.since = gs_seconds();
        clock = gs_seconds() - seconds;
        GS_TRY(gs_epoch_begin(w, &e));
        while (e.done < e.of && !e.total.stop && !e.diverged) {
            GS_TRY(gs_epoch_step(w, &e));
            if (!e.total.stop && !e.diverged && is_test_due(w, &e)) GS_TRY(test(w, &e, &clock));
        }
        GS_TRY(gs_epoch_end(w, &e));
        e.seconds = gs_seconds() - clock - seconds;
        seconds += e.seconds;
        samples += e.total.samples / gs_model_targets(w->model);
        result->train_loss = e.total.loss / e.total.samples;
        GS_TRY(end_epoch(w, &e, &clock));
        GS_HOOKS(after_epoch, w, &e);
    }
    gs_busy busy = w->process ? w->process->busy : (gs_busy){.cpus = 1};
    busy.waited = gs_busy_waited(&begun, (double)busy.cpus / (w->process ? w->process->processes_here : 1));
    clock = gs_seconds();
    e.epoch = (int)((w->step + steps - 1) / steps);
    if (s->begin && gs_state_has_ended(s->begin, s, NULL, 0)) /* the run is only tested */
        GS_TRY(end_epoch(w, &e, &clock));
    e.seconds = seconds;
    result->samples_per_s = seconds > 0 ? samples / seconds : 0;
    result->waited = seconds > 0 ? gs_loader_waited(w->loader) / seconds : 0;
    GS_TRY(gs_report_steps(w, result));
    GS_HOOKS(end, w, &e);
    GS_TRY(gs_report_workers(w, &(gs_measured){0}, seconds, &busy, &result->worker));
    gs_busy_text(&busy, result->busy);
    return GS_OK;
}
