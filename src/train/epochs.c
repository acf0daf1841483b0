#include "train/elastic/carry.h"
#include "train/internal.h"
#include "train/reducer.h"
#include "train/offload/offload.h"
#include "train/run.h"
#include "train/state.h"
#include "train/tensor/tensor.h"

#include "core/clock.h"
#include "train/digest/digest.h"

#include <math.h>
#include <stdlib.h>

/* Measures the seconds of training, without those of evaluations. */
typedef struct stopwatch {
    double before;  /* in the epochs before this one */
    double started; /* when this one began, moved on by each evaluation */
} stopwatch;

/* score->stop: a signal has ended it, and its numbers are those of a part of the test set. */
static gs_status test(gs_worker *w, stopwatch *watch, const gs_observer *observer, gs_score *score) {
    GS_TRY(w->device->ops->finish(w->device));
    double paused = gs_seconds(), seconds = watch->before + paused - watch->started;
    GS_TRY(
        gs_context(gs_evaluate(w, w->test_set, score), "test after step %llu", (unsigned long long)w->step));
    double now = gs_seconds();
    watch->started += now - paused;
    gs_step_times_begin(&w->measured.times, now);
    if (score->stop) return GS_OK;
    gs_test_report report = {w->step, seconds, score->loss / score->samples, score->correct / score->samples};
    if (observer->test) observer->test(observer->context, &report);
    return gs_check_test_loss(w, score->loss);
}

/* Is it time for one of the evaluations within an epoch, after `done` of its steps? */
static bool is_test_due(const gs_worker *w, size_t done, size_t steps) {
    size_t tests = (size_t)w->settings->tests;
    if (tests < 2 || w->strategy->apart || done == steps) return false; /* the last one is not within it */
    return done * tests / steps != (done - 1) * tests / steps;
}

/* The steps of one epoch; *total is the sum over its samples. */
static gs_status one_epoch(gs_worker *w, int epoch, stopwatch *watch, const gs_observer *observer,
                           gs_score *total) {
    const gs_settings *s = w->settings;
    size_t steps = (size_t)gs_steps_of_epoch(w->train_set->count, w->batch);
    const size_t done = (size_t)(w->step % steps); /* by an earlier run */
    if (s->steps && s->steps - w->step < steps - done) steps = done + (size_t)(s->steps - w->step);
    *total = (gs_score){0};
    if (w->strategy->begin_epoch) GS_TRY(w->strategy->begin_epoch(w, steps));
    bool diverged = false;
    for (size_t i = done; i < steps && !total->stop && !diverged; i++) {
        gs_score score;
        GS_TRY(gs_context(gs_step(w, &score), "epoch %d, step %zu", epoch, i + 1));
        gs_digest_tell(w, observer);
        GS_TRY(gs_carry_keep(w));
        if (s->test_hook) s->test_hook(w);
        GS_TRY(gs_verify(w));
        total->loss += score.loss;
        total->correct += score.correct;
        total->samples += score.samples;
        total->stop = score.stop;
        bool bad = gs_watch_loss(w, score.loss, w->step) || gs_is_hopeless(w);
        diverged = bad && !w->strategy->apart; /* these tell each other by the request to stop */
        if (!diverged && !total->stop) GS_TRY(gs_checkpoints_after_step(w, observer, &score));
        if (observer->step) observer->step(observer->context, epoch, i + 1, steps, &score);
        gs_step_times_ended(&w->measured.times, gs_seconds(), w->piece.batch == w->batch);
        if (!total->stop && !diverged && is_test_due(w, i + 1, steps)) {
            GS_TRY(test(w, watch, observer, &score));
            total->stop = score.stop;
        }
    }
    if (w->strategy->end_epoch)
        GS_TRY(gs_context(w->strategy->end_epoch(w, total), "end of epoch %d", epoch));
    gs_watch_loss(w, total->loss, w->step);
    GS_TRY(gs_check_divergence(w));
    if (w->strategy->apart && !total->stop) GS_TRY(gs_checkpoints_after_step(w, observer, total));
    return w->device->ops->finish(w->device);
}

/* What the workers have sent: the mean, and the maximum of one worker. */
static gs_status collect_sent(gs_worker *w, gs_result *result) {
    double steps = (double)(w->step - w->begun_at), sum = w->measured.sent;
    GS_TRY(gs_comm_all_reduce(w->comm, &sum, 1, GS_F64, GS_SUM));
    double most = w->measured.sent;
    GS_TRY(gs_comm_all_reduce(w->comm, &most, 1, GS_F64, GS_MAX));
    result->sent = steps > 0 ? sum / steps / w->comm->size : 0;
    result->sent_most = steps > 0 ? most / steps : 0;
    return GS_OK;
}

static gs_status make_weights(gs_worker *w, gs_result *result) {
    const gs_model *whole = gs_model_whole(w->model);
    const size_t bytes = whole->saved * sizeof(float);
    result->params = whole->params;
    if (result->weights) return GS_OK;
    result->weights = malloc(bytes + 1);
    if (!result->weights) return gs_fail(GS_E_MEMORY, "no memory for a copy of %zu weights", result->params);
    return gs_book_host(w, GS_MEMORY_WEIGHTS, result->weights, bytes);
}

static gs_status read_weights(gs_worker *w, gs_result *result) {
    GS_TRY(make_weights(w, result));
    GS_TRY(gs_holding_weights(w, result->weights));
    return gs_check_weights(w, result->weights);
}

/* With keep_best, rank 0's copy of the weights after an epoch whose test accuracy is the highest so far, or of a text
 * the loss the lowest (of equal ones the first stays). Others have the same weights, and need no copy; but where each
 * has a part of them, all take part in making it, and so have one. */
static gs_status keep_best(gs_worker *w, int epoch, gs_result *result) {
    bool better = w->test_set->text ? result->test_loss < result->kept_loss
                                    : result->test_accuracy > result->kept_accuracy;
    if (!w->settings->keep.best || !(better || result->kept_epoch == 0)) return GS_OK;
    if (w->comm->rank != 0 && !gs_weights_are_divided(w->model)) return GS_OK;
    result->kept_epoch = 0; /* its weights are overwritten */
    GS_TRY(read_weights(w, result));
    result->kept_epoch = epoch;
    result->kept_accuracy = result->test_accuracy;
    result->kept_loss = result->test_loss;
    return GS_OK;
}

/* Nothing is left to do of a run that was resumed: its weights are tested as they are. */
static gs_status test_ended(gs_worker *w, const gs_observer *observer, gs_result *result) {
    gs_score score;
    stopwatch watch = {.started = gs_seconds()};
    result->train_loss = NAN;
    if (w->settings->tests == 0) return GS_OK;
    GS_TRY(test(w, &watch, observer, &score));
    result->interrupted = score.stop;
    if (score.stop) return GS_OK;
    result->test_loss = score.loss / score.samples;
    result->test_accuracy = score.correct / score.samples;
    const uint64_t epoch = gs_steps_of_epoch(w->train_set->count, w->batch);
    result->tested_epoch = (int)((w->step + epoch - 1) / epoch);
    return GS_OK;
}

/* What the strategy needs, and the sum of gradients. */
gs_status gs_make_strategy(gs_worker *w) {
    gs_comm *replicas = w->groups.comm[GS_DP];
    w->groups.met = !w->settings->rehearses;
    if (w->groups.layout.tp > 1) GS_TRY(gs_tensor_create(w));
    if (w->strategy->create) GS_TRY(w->strategy->create(w));
    if (w->reducer) GS_TRY(w->reducer->create(w));
    if (w->tensor) GS_TRY(gs_tensor_create_sums(w));
    GS_TRY(gs_holding_list(w));
    const gs_sync_array sums = {w->sync_most, w->settings->wire, gs_model_tail(w->model)};
    const gs_sync like = {.comm = replicas, .most = w->sync_most, .wire = sums.wire, .tail = sums.tail};
    if (w->settings->rehearses)
        return gs_book_host(w, GS_MEMORY_COMMUNICATION, &w->sync, gs_sync_bytes(&like));
    GS_TRY(gs_sync_create_wire(w->scheme, replicas, sums, &w->sync));
    return gs_book_host(w, GS_MEMORY_COMMUNICATION, w->sync, gs_sync_bytes(w->sync));
}

gs_status gs_train_epochs(gs_worker *w, const gs_observer *observer, gs_result *result) {
    static const gs_observer nobody;
    if (w->comm->rank != 0 || !observer) observer = &nobody;
    const gs_settings *s = w->settings;
    double seconds = 0, samples = 0, waited = 0;
    w->observer = observer;
    result->test_loss = result->test_accuracy = NAN; /* until there is a test */
    if (!gs_has_stages(w)) GS_TRY(gs_warm_up(w));    /* a stage's first step is its warm-up */
    if (s->begin) GS_TRY(gs_state_restore(w));
    GS_TRY(gs_digest_create(w));
    GS_TRY(gs_make_strategy(w));
    GS_TRY(gs_checkpoints_create(w));
    GS_TRY(gs_carry_book(w));
    if (w->comm->size > 1 && (gs_has_stages(w) || s->zero || s->tensor > 1))
        GS_TRY(gs_report_devices(w, &w->devices));
    if (w->device->offload) GS_TRY(w->device->ops->settle(w->device));
    w->away_before = w->device->away;
    GS_TRY(gs_carry_keep(w));
    GS_TRY(gs_comm_barrier(w->comm));
    gs_checkpoint_let_go(); /* all have loaded what --resume has found */
    GS_TRY(gs_record_start(w, observer));
    if (observer->start) observer->start(observer->context, w);
    const gs_busy_clock begun = gs_busy_begin();
    const int first = 1 + (int)(w->step / gs_steps_of_epoch(w->train_set->count, w->batch));
    for (int epoch = first; epoch <= s->epochs && !(s->steps && w->step >= s->steps); epoch++) {
        gs_score train, score;
        double waited_before = gs_loader_waited(w->loader);
        gs_measured before = w->measured;
        const uint64_t done_before = w->step;
        stopwatch watch = {.before = seconds, .started = gs_seconds()};
        gs_step_times_begin(&w->measured.times, watch.started);
        GS_TRY(one_epoch(w, epoch, &watch, observer, &train));
        double took = gs_seconds() - watch.started;
        waited += gs_loader_waited(w->loader) - waited_before;
        seconds += took;
        double trained = train.samples / gs_model_answers(w->model);
        samples += trained;
        result->train_loss = train.loss / train.samples;
        double norms = w->measured.norms - before.norms, steps = (double)(w->step - done_before);
        score.stop = train.stop;
        if (!train.stop && s->tests > 0) GS_TRY(test(w, &watch, observer, &score));
        result->interrupted = score.stop;
        if (score.stop) {
            GS_TRY(gs_record_epoch(w, observer, epoch, &before, took, true));
            break;
        }
        if (s->tests > 0) {
            result->test_loss = score.loss / score.samples;
            result->test_accuracy = score.correct / score.samples;
            result->tested_epoch = epoch;
        }
        GS_TRY(keep_best(w, epoch, result));
        bool last = epoch == s->epochs || (s->steps && w->step >= s->steps);
        GS_TRY(gs_record_epoch(w, observer, epoch, &before, took, last));
        gs_epoch_report report = {epoch,
                                  w->step,
                                  result->train_loss,
                                  train.correct / train.samples,
                                  result->test_loss,
                                  result->test_accuracy,
                                  trained / took,
                                  s->clip > 0 ? norms / steps : (double)NAN};
        if (observer->epoch) observer->epoch(observer->context, &report);
    }
    gs_busy busy = w->run ? w->run->busy : (gs_busy){.cpus = 1};
    busy.waited = gs_busy_waited(&begun, (double)busy.cpus / (w->run ? w->run->beside : 1));
    char ended[GS_RUN_HAS_ENDED];
    if (s->begin && gs_state_has_ended(s->begin, s, ended, sizeof ended))
        GS_TRY(test_ended(w, observer, result));
    result->steps = w->step;
    result->samples_per_s = seconds > 0 ? samples / seconds : 0;
    result->step_median = gs_step_times_median(&w->measured.times);
    result->waited = seconds > 0 ? waited / seconds : 0;
    for (int p = 0; p < GS_PHASES; p++)
        result->phase[p] = w->measured.steps ? w->measured.phase[p] / (double)w->measured.steps : 0;
    if (w->strategy->report) GS_TRY(w->strategy->report(w, result));
    if (w->reducer) w->reducer->report(w, result);
    gs_tensor_tell(w, result);
    GS_TRY(gs_report_offload(w, &result->offload));
    GS_TRY(collect_sent(w, result));
    GS_TRY(gs_checkpoints_end(w, observer, seconds, &result->checkpoints));
    GS_TRY(gs_digest_end(w, observer, &result->digest_lost));
    if (s->save_state) GS_TRY(gs_state_take(w, &result->state));
    GS_TRY(result->kept_epoch ? make_weights(w, result)
                              : read_weights(w, result)); /* before the report: its memory */
    GS_TRY(gs_report_workers(w, &(gs_measured){0}, seconds, &busy, &result->worker));
    gs_busy_text(&busy, result->busy);
    return GS_OK;
}
