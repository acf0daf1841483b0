#include "log/internal.h"

#include <errno.h>
#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/decimal.h"
#include "core/memory.h"
#include "train/strategy.h"

struct gs_log {
    gs_log_options options;
    gs_observer next;
    char *path; /* of one of the files: see path_of */
    size_t path_size;
    FILE *metrics; /* NULL: none */
    gs_events *events;
    bool failed;
    char problem[1000]; /* if so: why */

    gs_log_run run;
    gs_device_report *devices;
    char *run_text; /* run.json as it was written at the beginning */
    gs_log_memory memory;
    gs_worker *rank0; /* from start to the end of training */

    /* Seconds of training, in which evaluations do not count: now - `paused`. */
    double paused;
    double time; /* of the last step */
    int epoch;
    uint64_t total;      /* steps */
    double last_samples; /* of the last step */
    bool alone;          /* a step tells of one worker alone */

    /* since the last line: */
    double since, loss, correct, samples, phase[GS_PHASES];
    uint64_t steps;
    uint64_t skipped; /* of these, in f16 */
    float loss_scale;
};

/* ---- errors ---- */

static void fail(gs_log *log) {
    char problem[1200];
    if (log->failed) return;
    log->failed = true;
    snprintf(log->problem, sizeof log->problem, "%s", gs_message());
    snprintf(problem, sizeof problem, "--log %s: %s; the log stops here, training continues",
             log->options.folder, gs_message());
    if (log->options.tell) log->options.tell(log->options.context, problem);
}

/* Is there a log to write to? After a failure nothing is written any more. */
static bool is_open(const gs_log *log) {
    return !log->failed;
}

static void check(gs_log *log, gs_status status) {
    if (status != GS_OK) fail(log);
}

static const char *path_of(gs_log *log, const char *name) {
    snprintf(log->path, log->path_size, "%s/%s", log->options.folder, name);
    return log->path;
}

/* ---- the beginning ---- */

static gs_status check_folder(gs_log *log) {
    static const char *const files[] = {"run.json", "metrics.jsonl", "trace.json"};
    const char *folder = log->options.folder;
    struct stat s;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return gs_fail(GS_E_FILE, "--log %s: cannot create the folder: %s", folder, strerror(errno));
    if (stat(folder, &s) != 0) return gs_fail(GS_E_FILE, "--log %s: %s", folder, strerror(errno));
    if (!S_ISDIR(s.st_mode)) return gs_fail(GS_E_FILE, "--log %s: it is a file; wanted a folder", folder);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (access(path_of(log, files[i]), F_OK) == 0)
            return gs_fail(GS_E_FILE, "--log %s: the folder already holds a log (%s); choose another one",
                           folder, files[i]);
    return GS_OK;
}

static gs_status begin(gs_log *log) {
    const char *folder = log->options.folder;
    log->path_size = strlen(folder) + 64;
    log->path = malloc(log->path_size);
    if (!log->path) return gs_fail(GS_E_MEMORY, "no memory for a log");
    GS_TRY(check_folder(log));
    GS_TRY(gs_context(gs_metrics_open(path_of(log, "metrics.jsonl"), &log->metrics), "--log %s", folder));
    return gs_context(gs_events_open(folder, &log->events), "--log %s", folder);
}

/* Nothing was written, and the folder can be used again. */
static void discard(gs_log *log) {
    if (!log->metrics) return;
    fclose(log->metrics);
    log->metrics = NULL;
    unlink(path_of(log, "metrics.jsonl"));
    gs_events_discard(log->events);
    log->events = NULL;
    rmdir(log->options.folder); /* if there is nothing else in it */
}

gs_status gs_log_open(const gs_log_options *options, gs_log **out) {
    gs_log *log = calloc(1, sizeof *log);
    *out = log;
    if (!log) return gs_fail(GS_E_MEMORY, "no memory for a log");
    log->options = *options;
    log->run.cores = gs_cpu_cores();
    if (options->next) log->next = *options->next;
    gs_status status = begin(log);
    if (status == GS_OK) return GS_OK;
    discard(log);
    gs_log_free(log);
    *out = NULL;
    return status;
}

/* ---- while it goes ---- */

static void on_devices(void *context, const gs_device_report *devices, int workers) {
    gs_log *log = context;
    size_t bytes = (size_t)workers * sizeof *devices;
    log->devices = malloc(bytes);
    if (!log->devices) {
        check(log, gs_fail(GS_E_MEMORY, "no memory for the devices of %d workers", workers));
        return;
    }
    memcpy(log->devices, devices, bytes);
    log->run.workers = workers;
}

static void on_start(void *context, const gs_worker *w) {
    gs_log *log = context;
    time_t now = time(NULL);
    struct tm utc;
    log->rank0 = (gs_worker *)w;
    log->run.options = &log->options;
    log->run.rank0 = w;
    log->run.devices = log->devices;
    log->alone = w->strategy->apart;
    strftime(log->run.started, sizeof log->run.started, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    if (is_open(log)) check(log, gs_log_write_run(path_of(log, "run.json"), &log->run, &log->run_text));
    if (log->next.start) log->next.start(log->next.context, w);
    log->paused = gs_seconds();
    log->memory = gs_log_memory_of(w);
}

/* The shares of the phases since the last line, if a step was measured there. */
static bool take_share(gs_log *log, double share[GS_PHASES]) {
    double sum = 0;
    for (int p = 0; p < GS_PHASES; p++) sum += share[p] = log->rank0->measured.phase[p] - log->phase[p];
    memcpy(log->phase, log->rank0->measured.phase, sizeof log->phase);
    for (int p = 0; p < GS_PHASES && sum > 0; p++) share[p] /= sum;
    return sum > 0;
}

static void write_step(gs_log *log) {
    gs_log_step s = {.step = log->rank0->step,
                     .epoch = log->epoch,
                     .worker = log->alone && log->run.workers > 1 ? 0 : -1,
                     .time = log->time,
                     .loss = log->loss / log->samples,
                     .accuracy = log->correct / log->samples,
                     .lr = gs_decimal(log->rank0->optimizer->lr),
                     .samples_per_s =
                         log->samples / gs_model_answers(log->rank0->model) / (log->time - log->since)};
    s.gradient_norm = log->rank0->settings->clip > 0 ? log->rank0->optimizer->norm : -1;
    s.loss_scale = (double)log->loss_scale;
    s.skipped = log->skipped;
    s.has_share = take_share(log, s.share);
    gs_status status = gs_metrics_step(log->metrics, &s);
    if (status == GS_OK) status = gs_events_step(log->events, &s);
    check(log, status);
    log->since = log->time;
    log->loss = log->correct = log->samples = 0;
    log->steps = log->skipped = 0;
}

static void on_step(void *context, int epoch, uint64_t done, uint64_t of, const gs_score *score) {
    gs_log *log = context;
    log->time = gs_seconds() - log->paused;
    log->epoch = epoch;
    log->total = log->rank0->step;
    log->last_samples = score->samples;
    log->loss += score->loss;
    log->correct += score->correct;
    log->samples += score->samples;
    log->steps++;
    log->loss_scale = score->loss_scale;
    log->skipped += score->skipped;
    uint64_t every = log->options.every ? log->options.every : 1;
    if (is_open(log) && (log->steps == every || done == of || score->stop)) write_step(log);
    if (log->next.step) log->next.step(log->next.context, epoch, done, of, score);
}

/* An evaluation is over; it began when the run had trained for report->seconds. */
static void on_test(void *context, const gs_test_report *report) {
    gs_log *log = context;
    if (report->seconds > log->time) log->time = report->seconds; /* never back: the two clocks began apart */
    log->paused = gs_seconds() - log->time;
    if (log->next.test) log->next.test(log->next.context, report);
}

static void on_testing(void *context, size_t done, size_t of) {
    const gs_log *log = context;
    if (log->next.testing) log->next.testing(log->next.context, done, of);
}

static void on_workers(void *context, int epoch, const gs_worker_report *reports, int workers) {
    gs_log *log = context;
    gs_status status = GS_OK;
    for (int r = 0; r < workers && status == GS_OK && is_open(log); r++)
        status = gs_metrics_worker(log->metrics, epoch, r, &reports[r]);
    check(log, status);
    if (log->next.workers) log->next.workers(log->next.context, epoch, reports, workers);
}

static void on_timeline(void *context, const gs_timeline_part *parts, int workers) {
    gs_log *log = context;
    if (is_open(log))
        check(log, gs_trace_write(path_of(log, "trace.json"), log->rank0, log->devices, parts, workers));
    if (log->next.timeline) log->next.timeline(log->next.context, parts, workers);
}

/* Where workers do not sum gradients, or have parts of them, there are none to show. */
static gs_status write_epoch(gs_log *log, const gs_epoch_report *r) {
    bool shown = !log->rank0->strategy->apart && gs_updates_all(log->rank0) &&
                 !log->rank0->optimizer->ops->spends_gradient && log->last_samples > 0;
    float scale = shown ? (float)(1 / log->last_samples) : 0;
    GS_TRY(gs_metrics_epoch(log->metrics, log->time, r));
    GS_TRY(gs_events_epoch(log->events, r));
    if (log->rank0->model->weights_apart || log->rank0->model->undivided)
        return GS_OK; /* rank 0 has a part of them */
    return gs_events_layers(log->events, r->steps, log->rank0->model, scale);
}

static void on_epoch(void *context, const gs_epoch_report *r) {
    gs_log *log = context;
    if (is_open(log)) check(log, write_epoch(log, r));
    if (log->next.epoch) log->next.epoch(log->next.context, r);
    log->memory = gs_log_memory_of(log->rank0);
    log->paused = gs_seconds() - log->time; /* the next epoch's clock starts now */
}

static void on_note(void *context, const char *sentence) {
    const gs_log *log = context;
    if (log->next.note) log->next.note(log->next.context, sentence);
}

gs_observer gs_log_observer(gs_log *log) {
    return (gs_observer){.context = log,
                         .start = on_start,
                         .step = on_step,
                         .epoch = on_epoch,
                         .test = on_test,
                         .testing = on_testing,
                         .devices = on_devices,
                         .workers = on_workers,
                         .timeline = on_timeline,
                         .note = on_note};
}

/* ---- the end ---- */

/* How the run ended: it is told in run.json even where the rest of the log has failed. */
static gs_status write_end_of_run(gs_log *log, gs_status ended, const char *message, const gs_result *r) {
    char why[1100] = "done";
    if (ended != GS_OK) snprintf(why, sizeof why, "failed: %s", message);
    if (ended == GS_OK && r->interrupted) snprintf(why, sizeof why, "interrupted");
    gs_log_end_of_run end = {.why = why, .seconds = log->time, .test_accuracy = -1};
    if (log->failed) end.problem = log->problem;
    end.steps = log->total;
    if (ended == GS_OK && !r->interrupted) end.test_accuracy = r->test_accuracy;
    if (ended == GS_OK && *r->busy) end.busy = r->busy;
    if (ended == GS_OK) end.sent = r->sent, end.sent_most = r->sent_most;
    return gs_log_write_end(path_of(log, "run.json"), log->run_text, &end, &log->memory);
}

static gs_status write_end(gs_log *log, gs_status ended, const char *message, const gs_result *r) {
    GS_TRY(write_end_of_run(log, ended, message, r));
    gs_status status = gs_metrics_close(log->metrics);
    log->metrics = NULL;
    GS_TRY(status);
    status = gs_events_close(log->events);
    log->events = NULL;
    return status;
}

void gs_log_end(gs_log *log, gs_status status, const gs_result *result) {
    gs_error run = {0};
    gs_error_keep(&run, status);
    log->rank0 = NULL;
    log->memory.peak_resident = gs_peak_memory();
    if (!log->run.rank0) /* it failed before the first step */
        discard(log);
    else if (is_open(log))
        check(log, write_end(log, status, run.message, result));
    else if (log->run_text)
        write_end_of_run(log, status, run.message, result); /* that the log has failed was said */
    gs_error_again(&run);                                   /* the run's message stays the last one */
}

bool gs_log_failed(const gs_log *log) {
    return log->failed;
}

void gs_log_free(gs_log *log) {
    if (!log) return;
    if (log->metrics) fclose(log->metrics);
    if (log->events) gs_events_close(log->events);
    free(log->devices);
    free(log->run_text);
    free(log->path);
    free(log);
}
