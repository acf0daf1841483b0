#include "train/sweep.h"
#include "core/median.h"
#include "train/settings.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the list of batches ---- */

static gs_status add_batch(gs_sweep *s, uint64_t batch, const char *text) {
    uint64_t last = s->batches > 0 ? s->batch[s->batches - 1] : 0;
    if (batch > s->samples)
        return gs_fail(GS_E_USAGE,
                       "--batch %s: %" PRIu64 " is larger than the training set, which has %zu sample%s",
                       text, batch, s->samples, gs_s(s->samples));
    if (batch <= last)
        return gs_fail(GS_E_USAGE, "--batch %s: %" PRIu64 " comes after %" PRIu64 ": the batches must grow",
                       text, batch, last);
    if (s->batches == GS_SWEEP_MOST)
        return gs_fail(GS_E_USAGE, "--batch %s: more than %d batches", text, GS_SWEEP_MOST);
    s->batch[s->batches++] = (size_t)batch;
    return GS_OK;
}

/* Continue the list by the factor between its last two batches, up to the batch before `end`. */
static gs_status add_between(gs_sweep *s, uint64_t end, const char *text) {
    for (;;) {
        const uint64_t a = s->batch[s->batches - 2], b = s->batch[s->batches - 1];
        const uint64_t next = b * b / a; /* a, b < 2^32, because a training set's order is 32-bit */
        if (next * a != b * b || next > end)
            return gs_fail(GS_E_USAGE,
                           "--batch %s: '...' continues by the factor %g, from %" PRIu64 " to %g, and misses "
                           "%" PRIu64,
                           text, (double)b / (double)a, b, (double)b * (double)b / (double)a, end);
        if (next == end) return GS_OK;
        GS_TRY(add_batch(s, next, text));
    }
}

gs_status gs_sweep_batches(gs_sweep *s, const char *text) {
    bool between = false; /* the last word was "..." */
    s->batches = 0;
    for (const char *from = text;; from++) {
        char word[24];
        const size_t length = strcspn(from, ",");
        snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1), from);
        from += length;
        const bool dots = strcmp(word, "...") == 0, all = strcmp(word, "all") == 0,
                   digits = *word && strspn(word, "0123456789") == strlen(word);
        const uint64_t number = all ? s->samples : digits ? strtoull(word, NULL, 10) : 0;
        if (dots && (between || s->batches < 2 || !*from))
            return gs_fail(GS_E_USAGE,
                           "--batch %s: '...' needs two numbers before it and one after it, such as "
                           "32,64,...,2048",
                           text);
        if (!dots && number == 0)
            return gs_fail(GS_E_USAGE,
                           "--batch %s: '%s' is not a whole number of samples from 1 up, 'all', or '...'",
                           text, word);
        if (between && number <= s->samples) GS_TRY(add_between(s, number, text));
        if (!dots) GS_TRY(add_batch(s, number, text));
        between = dots;
        if (!*from) return GS_OK;
    }
}

/* ---- the runs ---- */

/* The context of an observer of one run. */
typedef struct watcher {
    gs_sweep_run *run;
    double target;
    const gs_observer *forward;
} watcher;

static void on_test(void *context, const gs_test_report *report) {
    watcher *w = context;
    gs_sweep_run *r = w->run;
    if (!r->reached && report->accuracy >= w->target) {
        r->reached = true;
        r->at = *report;
    }
    r->tests[r->count++] = *report;
}

static void on_step(void *context, int epoch, uint64_t done, uint64_t of, const gs_score *score) {
    const watcher *w = context;
    w->forward->step(w->forward->context, epoch, done, of, score);
}

static gs_status train_one(const gs_sweep *s, gs_sweep_run *r) {
    gs_settings settings = s->settings;
    watcher w = {.run = r, .target = s->target, .forward = s->observer};
    gs_observer observer = {.context = &w, .test = on_test};
    if (s->observer && s->observer->step) observer.step = on_step;
    settings.batch = r->batch;
    settings.seed = r->seed;
    settings.tests = GS_SWEEP_TESTS;
    settings.keep_going = true; /* a run that diverges is also a row of the table */
    /* no epoch has more tests (train/epochs.c) */
    const size_t room = (size_t)settings.epochs * GS_SWEEP_TESTS;
    GS_TRY(GS_NEW(r->tests, room, "the curve of batch %zu", r->batch));
    r->rates = gs_rates_of(&settings, r->batch, s->samples);
    gs_status status = gs_train(&settings, &observer, &r->result);
    if (s->seeds == 1) GS_TRY(gs_context(status, "batch %zu", r->batch));
    GS_TRY(gs_context(status, "batch %zu, seed %" PRIu64, r->batch, r->seed));
    gs_result_free(&r->result);
    r->diverged = !isfinite(r->result.train_loss) || !isfinite(r->result.test_loss);
    r->ran = !r->result.interrupted;
    return GS_OK;
}

gs_status gs_sweep_prepare(gs_sweep *s) {
    if (s->batches < 1) return gs_fail(GS_E_USAGE, "a sweep needs at least one batch");
    if (s->seeds < 1 || s->seeds > GS_SWEEP_MOST)
        return gs_fail(GS_E_USAGE, "--seeds: '%d' is not a whole number from 1 to %d", s->seeds,
                       GS_SWEEP_MOST);
    GS_TRY(gs_check_each_setting(&s->settings));
    GS_TRY(gs_check_settings(&s->settings));
    GS_TRY(GS_NEW(s->run, s->batches * s->seeds, "a sweep of %d runs", s->batches * s->seeds));
    s->count = s->batches * s->seeds;
    for (int i = 0; i < s->count; i++) {
        s->run[i].batch = s->batch[i / s->seeds];
        s->run[i].seed = s->settings.seed + (uint64_t)(i % s->seeds);
    }
    if (s->settings.threads == 0)
        s->settings.threads = gs_worker_threads(&s->settings, gs_devices_count(s->settings.devices));
    return GS_OK;
}

gs_status gs_sweep_train(gs_sweep *s) {
    for (int i = 0; i < s->count && !gs_stop_requested; i++) {
        GS_TRY(train_one(s, &s->run[i]));
        if (s->run[i].ran && s->done) s->done(s->context, s, &s->run[i]);
    }
    return GS_OK;
}

void gs_sweep_free(gs_sweep *s) {
    for (int i = 0; i < s->count; i++) free(s->run[i].tests);
    free(s->run);
    s->run = NULL;
    s->count = s->batches = 0;
}

/* ---- all seeds of a batch ---- */

gs_spread gs_spread_of(const double *values, int count) {
    double sorted[GS_SWEEP_MOST] = {0};
    int finite = 0;
    for (int i = 0; i < count; i++) {
        sorted[i] = isfinite(values[i]) ? values[i] : INFINITY;
        finite += isfinite(values[i]) != 0;
    }
    gs_sort_doubles(sorted, count);
    return (gs_spread){finite > 0 ? sorted[0] : NAN, finite > 0 ? sorted[finite - 1] : NAN,
                       (sorted[(count - 1) / 2] + sorted[count / 2]) / 2};
}

static double steps_of(const gs_sweep_run *r) {
    return r->reached ? (double)r->at.step : INFINITY;
}

gs_sweep_line gs_sweep_line_of(const gs_sweep *s, int i) {
    gs_sweep_line line = {.batch = s->batch[i]};
    double steps[GS_SWEEP_MOST], seconds[GS_SWEEP_MOST], accuracy[GS_SWEEP_MOST], speed[GS_SWEEP_MOST];
    const double an_epoch = ceil((double)s->samples / (double)line.batch);
    for (int k = 0; k < s->seeds; k++) {
        const gs_sweep_run *r = &s->run[i * s->seeds + k];
        if (!r->ran) continue;
        steps[line.runs] = steps_of(r);
        seconds[line.runs] = r->reached ? r->at.seconds : INFINITY;
        accuracy[line.runs] = r->result.test_accuracy;
        speed[line.runs++] = r->result.samples_per_s;
        line.reached += r->reached;
        line.diverged += r->diverged;
        line.rates = r->rates;
    }
    if (line.runs == 0) return line;
    line.steps = gs_spread_of(steps, line.runs);
    line.epochs =
        (gs_spread){line.steps.least / an_epoch, line.steps.most / an_epoch, line.steps.median / an_epoch};
    line.seconds = gs_spread_of(seconds, line.runs);
    line.accuracy = gs_spread_of(accuracy, line.runs);
    line.samples_per_s = gs_spread_of(speed, line.runs);
    const double median = gs_median(steps, line.runs); /* for an even number, the lower of the middle two */
    for (const gs_sweep_run *r = &s->run[i * s->seeds]; !line.middle; r++)
        if (r->ran && steps_of(r) == median) line.middle = r;
    return line;
}
