#include "train/modes.h"

#include "core/clock.h"

#include <stdlib.h>

/* The steps of one epoch; *score is the sum over its samples. */
static gs_status one_epoch(gs_worker *w, int epoch, const gs_observer *observer, gs_score *total) {
    const gs_settings *s = w->settings;
    size_t count = w->train_set->count, steps = (count + w->batch - 1) / w->batch;
    if (s->steps && s->steps - w->step < steps) steps = (size_t)(s->steps - w->step);
    gs_epoch_order(s->seed, (uint64_t)epoch, count, w->order);
    *total = (gs_score){0};
    if (w->async) GS_TRY(gs_async_begin_epoch(w, steps));
    for (size_t i = 0; i < steps && !total->stop; i++) {
        size_t first = i * w->batch, batch = count - first < w->batch ? count - first : w->batch;
        gs_score score;
        GS_TRY(gs_context(gs_step(w, first, batch, &score), "epoch %d, step %zu", epoch, i + 1));
        if (s->test_hook) s->test_hook(w);
        GS_TRY(gs_verify(w));
        total->loss += score.loss;
        total->correct += score.correct;
        total->samples += score.samples;
        total->stop = score.stop;
        if (w->comm->rank == 0 && observer && observer->step)
            observer->step(observer->context, epoch, i + 1, steps, &score);
    }
    if (w->local) GS_TRY(gs_context(gs_local_end_epoch(w, total), "end of epoch %d", epoch));
    if (w->async) GS_TRY(gs_context(gs_async_end_epoch(w, total), "end of epoch %d", epoch));
    return w->device->ops->finish(w->device);
}

gs_status gs_train_epochs(gs_worker *w, const gs_observer *observer, gs_result *result) {
    const gs_settings *s = w->settings;
    double seconds = 0, samples = 0;
    GS_TRY(gs_warm_up(w));
    GS_TRY(gs_sync_create(w->scheme, w->comm, w->model->params + GS_STATS, &w->sync));
    GS_TRY(w->comm->ops->barrier(w->comm));
    if (w->comm->rank == 0 && observer && observer->start) observer->start(observer->context, w);
    for (int epoch = 1; epoch <= s->epochs && !(s->steps && w->step >= s->steps); epoch++) {
        gs_score train, test;
        double start = gs_seconds();
        GS_TRY(one_epoch(w, epoch, observer, &train));
        double took = gs_seconds() - start;
        seconds += took;
        samples += train.samples;
        result->interrupted = train.stop;
        result->train_loss = train.loss / train.samples;
        if (train.stop) break;
        GS_TRY(gs_context(gs_evaluate(w, w->test_set, &test), "test after epoch %d", epoch));
        result->test_loss = test.loss / test.samples;
        result->test_accuracy = test.correct / test.samples;
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
    for (int p = 0; p < GS_PHASES; p++)
        result->phase[p] = w->measured ? w->phase[p] / (double)w->measured : 0;
    if (w->async) GS_TRY(gs_async_staleness(w, &result->staleness));
    result->params = w->model->params;
    result->weights = malloc(result->params * sizeof(float) + 1);
    if (!result->weights) return gs_fail(GS_E_MEMORY, "no memory for a copy of %zu weights", result->params);
    return gs_model_read_weights(w->model, result->weights);
}
