#include "log/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/clock.h"
#include "core/units.h"
#include "core/memory.h"
#include "io/file.h"
#include "io/json.h"
#include "model/model_text.h"
#include "train/options/options.h"
#include "train/strategy.h"

struct gs_log {
    gs_log_options options;
    gs_observer next;
    char path[4200]; /* the path of one of the files: see path_of */
    FILE *metrics;   /* NULL: not open */
    gs_events *events;
    bool failed;        /* nothing more is written */
    char problem[1000]; /* if it failed: the reason */

    int workers;
    int cores;            /* cores that the process may use; rank 0 itself may be bound to one of them */
    struct cJSON *about;  /* run.json as first written */
    gs_memory_use memory; /* rank 0's memory */
    double bytes_of_data;
    gs_worker *rank0; /* from the start to the end of training */

    /* Training time in seconds is gs_seconds() - `paused`; evaluations do not count. */
    double paused;
    double time; /* when the last step ended */
    int epoch;
    uint64_t total;      /* steps in total */
    double last_samples; /* samples of the last step */

    /* sums since the last line: */
    double since, loss, correct, samples, phase[GS_PHASES];
    uint64_t steps;
    uint64_t skipped; /* how many of these steps skipped the update (f16) */
    float loss_scale;
};

/* ---- errors ---- */

/* Report the first failure; it ends the log. */
static void check(gs_log *log, gs_status status) {
    char problem[1200];
    if (status == GS_OK || log->failed) return;
    log->failed = true;
    snprintf(log->problem, sizeof log->problem, "%s", gs_message());
    snprintf(problem, sizeof problem, "--log %s: %s; the log stops here, training continues",
             log->options.folder, gs_message());
    if (log->next.note) log->next.note(log->next.context, problem);
}

static const char *path_of(gs_log *log, const char *name) {
    snprintf(log->path, sizeof log->path, "%s/%s", log->options.folder, name);
    return log->path;
}

/* ---- metrics.jsonl. Lines are written by hand: cJSON would take longer than everything else that a log does in a step
 * ---- */

/* JSON has neither NaN nor infinity: a diverged loss becomes null. */
static void add_number(FILE *f, const char *name, double value) {
    if (isfinite(value))
        fprintf(f, ",\"%s\":%.9g", name, value);
    else
        fprintf(f, ",\"%s\":null", name);
}

static void add_share(FILE *f, const double share[GS_PHASES]) {
    for (int p = 0; p < GS_PHASES; p++)
        fprintf(f, "%s\"%s\":%.4f", p == 0 ? ",\"share\":{" : ",", gs_phase_names[p], share[p]);
    fprintf(f, "}");
}

/* Flush every line at once, so that it survives if the run is killed. */
static gs_status end_line(FILE *f) {
    fputs("}\n", f);
    if (fflush(f) == 0 && !ferror(f)) return GS_OK;
    return gs_fail(GS_E_FILE, "cannot write metrics.jsonl: %s", strerror(errno));
}

static void add_numbers(FILE *f, const gs_log_number *x, int count) {
    for (int i = 0; i < count; i++)
        if (x[i].key) add_number(f, x[i].key, x[i].value);
}

static gs_status write_worker_line(FILE *f, int epoch, int worker, const gs_worker_report *r) {
    fprintf(f, "{\"kind\":\"worker\",\"epoch\":%d,\"worker\":%d", epoch, worker);
    add_number(f, "samples_per_s", r->samples_per_s);
    double sum = 0;
    for (int p = 0; p < GS_PHASES; p++) sum += r->share[p];
    if (sum > 0) add_share(f, r->share);
    return end_line(f);
}

/* ---- run.json ---- */

static double bytes_of_set(const gs_dataset *set) {
    return (double)set->count * (double)gs_sample_bytes(set);
}

/* The command line of each process; "processes" gives their number. */
static void add_command(cJSON *o, const gs_log *log) {
    cJSON *command = cJSON_CreateStringArray((const char *const *)log->options.argv, log->options.argc);
    cJSON_InsertItemInArray(command, 0, cJSON_CreateString("gradsum"));
    cJSON_AddItemToObject(o, "command", command);
}

static void add_devices(cJSON *o, const gs_log *log) {
    cJSON *devices = cJSON_AddArrayToObject(o, "devices");
    for (int r = 0; r < log->workers; r++) {
        const gs_device_report *d = &log->rank0->devices[r];
        cJSON_AddItemToArray(devices,
                             GS_JSON_OBJECT(GS_FIELD("worker", r), GS_FIELD("device", d->device),
                                            GS_FIELD("name", d->description), GS_FIELD("host", d->host)));
    }
}

/* The device's description includes OpenBLAS's kernels. Processes that use shared memory have met over Gloo, too. */
static void add_versions(cJSON *o, const gs_log *log) {
    cJSON *versions = cJSON_AddObjectToObject(o, "versions");
    const gs_rendezvous *p = log->rank0->settings->processes;
    gs_device_info *list;
    const char *problem;
    int count, r = 0;
    GS_JSON_ADD(versions, GS_FIELD("gradsum", GRADSUM_VERSION), GS_FIELD("compiler", __VERSION__));
    if (p && p->size > 1 && !(p->transport && strcmp(p->transport, "mpi") == 0))
        cJSON_AddStringToObject(versions, "gloo", gs_comm_gloo_version());
    while (r < log->workers && strncmp(log->rank0->devices[r].device, "cl", 2) != 0) r++;
    if (r == log->workers || gs_device_list(&list, &count, &problem) != GS_OK) return;
    for (int i = 0; i < count; i++)
        if (strncmp(list[i].name, "cl", 2) == 0 && !cJSON_GetObjectItem(versions, "opencl"))
            cJSON_AddStringToObject(versions, "opencl", list[i].note);
    free(list);
}

static cJSON *describe(const gs_log *log) {
    const gs_worker *w = log->rank0;
    const gs_settings *s = w->settings, in_use = gs_settings_in_use(w);
    size_t batch = w->batch, count = w->train_set->count, steps = (count + batch - 1) / batch;
    char sums[GS_SUMS_TEXT], started[32];
    const time_t now = time(NULL);
    struct tm utc;
    cJSON *o = GS_JSON_OBJECT(GS_FIELD("format", "gradsum-run"), GS_FIELD("version", 1),
                              GS_FIELD("program", "gradsum " GRADSUM_VERSION));
    add_command(o, log);
    strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    GS_JSON_ADD(o, GS_FIELD("started", started), GS_FIELD("host_cores", log->cores));
    bool named = s->model && gs_model_named(s->model);
    GS_JSON_ADD(o, GS_FIELD("model", named ? s->model : w->model->text),
                GS_FIELD("model_text", w->model->text),
                GS_FIELD("parameters", gs_model_whole(w->model)->params), GS_FIELD("train_samples", count),
                GS_FIELD("test_samples", w->test_set->count), GS_FIELD("steps_per_epoch", steps),
                GS_FIELD("workers", log->workers),
                GS_FIELD("processes", s->processes && s->processes->size > 0 ? s->processes->size : 1),
                GS_FIELD("sync_chosen", w->sync->scheme->name), GS_FIELD("sums", gs_sums_text(w, sums)),
                GS_FIELD("transport", w->comm->ops->name), GS_FIELD("log_every", log->options.every));
    gs_run_options_json(&in_use, GS_JSON_LOG, o);
    add_devices(o, log);
    add_versions(o, log);
    return o;
}

/* A full disk has no room for a second run.json. Therefore the first one ends with blanks, which are overwritten at the
 * end of the run. */
enum { ROOM_FOR_END = 8192 };

static bool write_into(const char *path, const char *text) {
    const size_t bytes = strlen(text);
    struct stat s;
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    const bool fits = file >= 0 && fstat(file, &s) == 0 && (size_t)s.st_size > bytes &&
                      (size_t)s.st_size <= bytes + ROOM_FOR_END; /* the new text covers all of the old one */
    const bool written = fits && pwrite(file, text, bytes, 0) == (ssize_t)bytes;
    if (file >= 0) close(file);
    return written;
}

static gs_status write_run(gs_log *log, int room) {
    gs_file_writer w;
    const char *path = path_of(log, "run.json");
    char *text = gs_json_to_text(log->about, true);
    gs_status status = text ? gs_file_writer_open(path, &w) : gs_fail(GS_E_MEMORY, "no memory for run.json");
    if (status == GS_OK) fprintf(w.file, "%s%*s\n", text, room, "");
    if (status == GS_OK) status = gs_file_writer_commit(&w);
    if (status == GS_E_FILE && room == 0 && write_into(path, text)) status = GS_OK;
    cJSON_free(text);
    return status;
}

/* Write how the run ended, even if the rest of the log has failed. r: the result, if the run succeeded. */
static gs_status write_end_of_run(gs_log *log, const char *failure, const gs_result *r) {
    char why[1100] = "done", sha256[65];
    if (!r) snprintf(why, sizeof why, "failed: %s", failure);
    if (r && r->interrupted) snprintf(why, sizeof why, "interrupted");
    cJSON *e = cJSON_AddObjectToObject(log->about, "ended");
    GS_JSON_ADD(e, GS_FIELD("why", (const char *)why), GS_FIELD("seconds", log->time),
                GS_FIELD("steps", log->total));
    if (r && !r->interrupted && r->test_accuracy >= 0)
        cJSON_AddNumberToObject(e, "test_accuracy", r->test_accuracy);
    if (r) {
        gs_sha256(r->weights, r->params * sizeof(float), sha256);
        cJSON_AddStringToObject(e, "weights_sha256", sha256);
    }
    if (r && *r->busy) cJSON_AddStringToObject(e, "busy", r->busy);
    if (log->failed) cJSON_AddStringToObject(e, "log", log->problem);
    if (r && r->sent > 0)
        GS_JSON_ADD(e, GS_FIELD("sent_bytes_a_step", r->sent),
                    GS_FIELD("sent_bytes_a_step_most", r->sent_most));
    cJSON *m = cJSON_AddObjectToObject(log->about, "memory");
    for (int k = 0; k < GS_MEMORY_KINDS; k++)
        if (k != GS_MEMORY_DATA)
            GS_JSON_ADD(m, GS_FIELD(gs_memory_word((gs_memory_kind)k), log->memory.bytes[k]));
    GS_JSON_ADD(m, GS_FIELD("data", log->bytes_of_data), GS_FIELD("peak_resident", gs_peak_memory()));
    return write_run(log, 0);
}

/* ---- the beginning ---- */

static gs_status open_files(gs_log *log) {
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
    if (!(log->metrics = fopen(path_of(log, "metrics.jsonl"), "axe")))
        return gs_fail(GS_E_FILE, "--log %s: cannot write %s: %s", folder, log->path, strerror(errno));
    return gs_context(gs_events_open(folder, &log->events), "--log %s", folder);
}

/* No run was written: remove the files, so that the folder can be used again. */
static void discard(gs_log *log) {
    fclose(log->metrics);
    log->metrics = NULL;
    unlink(path_of(log, "metrics.jsonl"));
    gs_events_close(log->events, false);
    log->events = NULL;
    rmdir(log->options.folder); /* if there is nothing else in it */
}

gs_status gs_log_open(const gs_log_options *options, gs_log **out) {
    GS_TRY(GS_NEW(*out, 1, "a log"));
    gs_log *log = *out;
    log->options = *options;
    if (options->every == 0) log->options.every = 1;
    log->cores = gs_cpu_cores();
    if (options->next) log->next = *options->next;
    gs_status status = open_files(log);
    if (status == GS_OK) return GS_OK;
    if (log->metrics) discard(log);
    gs_log_free(log);
    *out = NULL;
    return status;
}

/* ---- during the run ---- */

/* Memory on the device, plus memory offloaded from it. */
static gs_memory_use memory_of(const gs_log *log) {
    gs_memory_use use, offloaded;
    gs_ledger_now(&log->rank0->device->memory, GS_ON_DEVICE, &use);
    gs_ledger_now(&log->rank0->device->memory, GS_OFFLOADED, &offloaded);
    for (int k = 0; k < GS_MEMORY_KINDS; k++) use.bytes[k] += offloaded.bytes[k];
    return use;
}

static void on_start(void *context, const gs_worker *w) {
    gs_log *log = context;
    log->rank0 = (gs_worker *)w;
    log->workers = w->devices ? w->comm->size : 0; /* 0: the caller did not set settings->record */
    log->about = describe(log);
    log->bytes_of_data = bytes_of_set(w->train_set) + bytes_of_set(w->test_set);
    check(log, write_run(log, ROOM_FOR_END));
    if (log->next.start) log->next.start(log->next.context, w);
    log->paused = gs_seconds();
    log->memory = memory_of(log);
}

/* Compute each phase's share of the time since the last line. False: no step was measured since then. */
static bool take_share(gs_log *log, double share[GS_PHASES]) {
    double sum = 0;
    for (int p = 0; p < GS_PHASES; p++) sum += share[p] = log->rank0->measured.phase[p] - log->phase[p];
    memcpy(log->phase, log->rank0->measured.phase, sizeof log->phase);
    for (int p = 0; p < GS_PHASES && sum > 0; p++) share[p] /= sum;
    return sum > 0;
}

static gs_status write_step_line(const gs_log *log, const double *share) {
    static const char *const of_share[GS_PHASES] = {"share/data", "share/forward", "share/backward",
                                                    "share/sync", "share/update"};
    const gs_worker *w = log->rank0;
    const double speed = log->samples / gs_model_targets(w->model) / (log->time - log->since);
    gs_log_number x[8 + GS_PHASES] = {{"time", NULL, log->time},
                                      {"loss", "loss", log->loss / log->samples},
                                      {"accuracy", "accuracy", log->correct / log->samples},
                                      {"lr", "learning_rate", gs_decimal(w->optimizer->lr)},
                                      {"samples_per_s", "samples_per_s", speed}};
    int n = 5;
    if (w->settings->clip > 0) x[n++] = (gs_log_number){"gradient_norm", NULL, w->optimizer->norm};
    if (log->loss_scale > 0) {
        x[n++] = (gs_log_number){"loss_scale", NULL, (double)log->loss_scale};
        x[n++] = (gs_log_number){"skipped", NULL, (double)log->skipped};
    }
    fprintf(log->metrics, "{\"kind\":\"step\",\"step\":%" PRIu64 ",\"epoch\":%d", w->step, log->epoch);
    /* without a sum of gradients in each step, the line covers only this worker */
    if (w->strategy->apart && log->workers > 1) fprintf(log->metrics, ",\"worker\":0");
    add_numbers(log->metrics, x, n);
    if (share) add_share(log->metrics, share);
    for (int p = 0; share && p < GS_PHASES; p++) x[n++] = (gs_log_number){NULL, of_share[p], share[p]};
    GS_TRY(end_line(log->metrics));
    return gs_events_numbers(log->events, w->step, x, n);
}

static void write_step(gs_log *log) {
    double share[GS_PHASES];
    check(log, write_step_line(log, take_share(log, share) ? share : NULL));
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
    if (!log->failed && (log->steps == log->options.every || done == of || score->stop)) write_step(log);
    if (log->next.step) log->next.step(log->next.context, epoch, done, of, score);
}

/* An evaluation has ended. It began after the run had trained for report->seconds. */
static void on_test(void *context, const gs_test_report *report) {
    gs_log *log = context;
    if (report->seconds > log->time) log->time = report->seconds; /* never go back: the clocks differ */
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
    for (int r = 0; r < workers && status == GS_OK && !log->failed; r++)
        status = write_worker_line(log->metrics, epoch, r, &reports[r]);
    check(log, status);
    if (log->next.workers) log->next.workers(log->next.context, epoch, reports, workers);
}

static void on_timeline(void *context, const gs_rank_timeline *parts, int workers) {
    gs_log *log = context;
    if (!log->failed) check(log, gs_trace_write(path_of(log, "trace.json"), log->rank0, parts));
    if (log->next.timeline) log->next.timeline(log->next.context, parts, workers);
}

static gs_status write_epoch_line(const gs_log *log, const gs_epoch_report *r) {
    const bool tested = !isnan(r->test_loss); /* false with --tests 0 */
    const gs_log_number x[] = {{"time", NULL, log->time},
                               {"train_loss", "epoch/train_loss", r->train_loss},
                               {"train_accuracy", NULL, r->train_accuracy},
                               {"test_loss", tested ? "test/loss" : NULL, r->test_loss},
                               {"test_accuracy", tested ? "test/accuracy" : NULL, r->test_accuracy},
                               {"samples_per_s", "epoch/samples_per_s", r->samples_per_s},
                               {isnan(r->gradient_norm) ? NULL : "gradient_norm", NULL, r->gradient_norm}};
    enum { COUNT = sizeof x / sizeof *x };
    fprintf(log->metrics, "{\"kind\":\"epoch\",\"epoch\":%d,\"step\":%" PRIu64, r->epoch, r->steps);
    add_numbers(log->metrics, x, COUNT);
    if (r->before) fprintf(log->metrics, ",\"steps_before\":%" PRIu64, r->before);
    GS_TRY(end_line(log->metrics));
    return gs_events_numbers(log->events, r->steps, x, COUNT);
}

/* Write histograms of gradients only if the workers sum gradients and rank 0 holds all of them. */
static gs_status write_epoch(gs_log *log, const gs_epoch_report *r) {
    bool shown = !log->rank0->strategy->apart && gs_updates_all(log->rank0) &&
                 !log->rank0->optimizer->ops->overwrites_gradient && log->last_samples > 0;
    float scale = shown ? (float)(1 / log->last_samples) : 0;
    GS_TRY(write_epoch_line(log, r));
    if (log->rank0->model->weights_apart || log->rank0->model->undivided)
        return GS_OK; /* rank 0 holds only part of the weights */
    return gs_events_layers(log->events, r->steps, log->rank0->model, scale);
}

static void on_epoch(void *context, const gs_epoch_report *r) {
    gs_log *log = context;
    if (!log->failed) check(log, write_epoch(log, r));
    if (log->next.epoch) log->next.epoch(log->next.context, r);
    log->memory = memory_of(log);
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
                         .workers = on_workers,
                         .timeline = on_timeline,
                         .note = on_note};
}

/* ---- the end ---- */

static gs_status write_end(gs_log *log, const char *failure, const gs_result *r) {
    GS_TRY(write_end_of_run(log, failure, r));
    if (fsync(fileno(log->metrics)) != 0)
        return gs_fail(GS_E_FILE, "cannot write metrics.jsonl: %s", strerror(errno));
    const gs_status status = gs_events_close(log->events, true);
    log->events = NULL;
    return status;
}

bool gs_log_end(gs_log *log, gs_status status, const gs_result *result) {
    gs_error run = {0};
    gs_error_keep(&run, status);
    log->rank0 = NULL;
    if (status != GS_OK) result = NULL;
    if (!log->about) /* the run failed before the first step */
        discard(log);
    else if (!log->failed)
        check(log, write_end(log, run.message, result));
    else
        write_end_of_run(log, run.message, result); /* the log's failure has already been reported */
    gs_error_again(&run);                           /* keep the run's message as the last one */
    return !log->failed;
}

void gs_log_free(gs_log *log) {
    if (!log) return;
    if (log->metrics) fclose(log->metrics);
    gs_events_close(log->events, true);
    cJSON_Delete(log->about);
    free(log);
}
