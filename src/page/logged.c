#include "page/logged.h"
#include "core/memory.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "core/text.h"
#include <sys/stat.h>
#include "io/file.h"
#include "io/json.h"

/* Larger files are not read. All of run.json goes into the page, including three copies of the model's text. */
enum { MOST_OF_TRACE = 256 << 20, MOST_OF_METRICS = 1 << 30, MOST_OF_RUN = 4 << 20, LONGEST_EVENT = 1 << 12 };

/* ---- tables ---- */

#define SHARES "share.data", "share.forward", "share.backward", "share.sync", "share.update"
static const char *const step_columns[] = {"step", "time",          "loss", "accuracy",
                                           "lr",   "samples_per_s", SHARES, NULL};
static const char *const epoch_columns[] = {"step",          "time",          "train_loss", "test_loss",
                                            "test_accuracy", "samples_per_s", NULL};
static const char *const worker_columns[] = {"worker", "samples_per_s", SHARES, NULL};

static gs_logged_table table_with(const char *const *columns) {
    gs_logged_table t = {.column = columns};
    while (columns[t.columns]) t.columns++;
    return t;
}

double *gs_logged_row(gs_logged_table *t) {
    if (!gs_grow(&t->cell, t->rows, &t->room, (size_t)t->columns * sizeof *t->cell)) return NULL;
    double *row = t->cell + t->rows++ * (size_t)t->columns;
    for (int i = 0; i < t->columns; i++) row[i] = NAN;
    return row;
}

static const cJSON *field(const cJSON *o, const char *name) {
    const char *dot = strchr(name, '.');
    if (!dot) return cJSON_GetObjectItemCaseSensitive(o, name);
    char outer[16];
    snprintf(outer, sizeof outer, "%.*s", (int)(dot - name), name);
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(o, outer), dot + 1);
}

static gs_status add_line(gs_logged_table *t, const cJSON *line) {
    double *row = gs_logged_row(t);
    if (!row) return gs_fail(GS_E_MEMORY, "no memory for %zu lines of a log", t->rows);
    for (int i = 0; i < t->columns; i++) {
        const cJSON *f = field(line, t->column[i]);
        if (cJSON_IsNumber(f) && isfinite(f->valuedouble)) row[i] = f->valuedouble;
    }
    return GS_OK;
}

/* ---- files ---- */

static gs_status cannot_read(const char *path, int error) {
    return gs_fail(GS_E_FILE, "cannot read %s: %s", path, strerror(error));
}

GS_PRINTF(2, 3) static void say(gs_logged *log, const char *format, ...) {
    va_list args;
    if (log->notes == GS_LOGGED_NOTES) return;
    va_start(args, format);
    vsnprintf(log->note[log->notes++], GS_LOGGED_NOTE, format, args);
    va_end(args);
}

/* *text is NULL if the file cannot be read; a note then names it and what is `missing` without it. GS_E_MEMORY. */
static gs_status read_file(gs_logged *log, const char *path, int most, const char *missing, char **text,
                           size_t *length) {
    struct stat s;
    const gs_status status = gs_file_read(path, (uint64_t)most, text, length);
    if (!*text && status != GS_E_MEMORY && stat(path, &s) == 0 && S_ISREG(s.st_mode) && s.st_size > most)
        say(log, "%s is too large, above %d MB: %s.", basename(path), most >> 20, missing);
    else if (!*text && status != GS_E_MEMORY)
        say(log, "%s cannot be read: %s.", basename(path), missing);
    return status == GS_E_MEMORY ? status : GS_OK;
}

/* ---- run.json ---- */

static gs_status check_format(const char *path, const cJSON *run) {
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(run, "format");
    const cJSON *version = cJSON_GetObjectItemCaseSensitive(run, "version");
    if (!cJSON_IsString(format) || strcmp(format->valuestring, "gradsum-run") != 0)
        return gs_fail(GS_E_FORMAT, "%s is not part of a training log: its \"format\" is %s, not gradsum-run",
                       path, cJSON_IsString(format) ? format->valuestring : "missing");
    if (!cJSON_IsNumber(version) || version->valuedouble != 1)
        return gs_fail(GS_E_FORMAT, "%s has version %g of the format; this gradsum reads version 1", path,
                       cJSON_IsNumber(version) ? version->valuedouble : NAN);
    return GS_OK;
}

/* Without run.json, the curves are still shown. */
static gs_status read_run(gs_logged *log, const char *path) {
    static const char missing[] = "the model, the workers and the devices are not known";
    char *text, why[400];
    size_t length;
    GS_TRY(read_file(log, path, MOST_OF_RUN, missing, &text, &length));
    if (!text) return GS_OK;
    log->run = gs_json_parse(text, length, NULL);
    free(text);
    if (!cJSON_IsObject(log->run)) {
        cJSON_Delete(log->run);
        log->run = NULL;
        say(log, "run.json is damaged: %s.", missing);
        return GS_OK;
    }
    GS_TRY(check_format(path, log->run));
    const cJSON *ended = cJSON_GetObjectItemCaseSensitive(log->run, "ended");
    const cJSON *problem = cJSON_GetObjectItemCaseSensitive(ended, "log");
    if (cJSON_IsString(problem)) say(log, "The log is incomplete: %s.", gs_printable(problem->valuestring));
    const cJSON *busy = cJSON_GetObjectItemCaseSensitive(ended, "busy");
    if (cJSON_IsString(busy))
        say(log, "The machine was busy: %s.", gs_printable_into(why, sizeof why, busy->valuestring, ""));
    if (!ended)
        say(log, "This run has not ended: it is still running, or it was killed, or its disk was full.");
    return GS_OK;
}

/* ---- metrics.jsonl ---- */

static gs_logged_table *table_of(gs_logged *log, const cJSON *line) {
    const cJSON *kind = cJSON_GetObjectItemCaseSensitive(line, "kind");
    if (!cJSON_IsString(kind)) return NULL;
    if (strcmp(kind->valuestring, "step") == 0) return &log->steps;
    if (strcmp(kind->valuestring, "epoch") == 0) return &log->epochs;
    return strcmp(kind->valuestring, "worker") == 0 ? &log->workers : NULL;
}

static gs_status read_metrics(gs_logged *log, const char *path) {
    char *text;
    size_t length, number = 0, damaged = 0, first = 0;
    bool cut = false; /* the last line is incomplete */
    gs_status status = read_file(log, path, MOST_OF_METRICS, "no curves", &text, &length);
    for (const char *at = text, *next; status == GS_OK && text && at < text + length; at = next) {
        const char *newline = memchr(at, '\n', (size_t)(text + length - at));
        next = newline ? newline + 1 : text + length;
        const size_t bytes = (size_t)(next - at);
        cJSON *line = memchr(at, 0, bytes) ? NULL : gs_json_parse(at, bytes, NULL);
        gs_logged_table *t = table_of(log, line);
        if (t) status = add_line(t, line);
        const bool good = cJSON_IsObject(line) || strspn(at, " \r\n") >= bytes;
        cJSON_Delete(line);
        number++;
        cut = !good && !newline;
        if (!good && newline && damaged++ == 0) first = number;
    }
    if (damaged > 0)
        say(log, "metrics.jsonl is damaged: %zu line%s left out, the first of them line %zu.", damaged,
            damaged > 1 ? "s are" : " is", first);
    if (cut) say(log, "The last line of metrics.jsonl is cut off; it is left out.");
    if (status == GS_OK && text && log->steps.rows + log->epochs.rows == 0)
        say(log, "metrics.jsonl has no step and no epoch yet: no curves.");
    free(text);
    return gs_context(status, "%s", path);
}

/* ---- trace.json: events in Chrome's format, parsed one at a time so that a truncated file still yields its intact
 * events. We keep complete events ("X"), the names of processes and threads ("M"), counters ("C"), and the two ends of
 * arrows ("s", "f"). Source: "Trace Event Format" of the Chromium project, which Perfetto and chrome://tracing read
 * ---- */

static double number_of(const cJSON *o, const char *name) {
    const cJSON *f = cJSON_GetObjectItemCaseSensitive(o, name);
    return cJSON_IsNumber(f) ? f->valuedouble : NAN;
}

static gs_status add_event(gs_logged_trace *t, const cJSON *e, size_t at, size_t length) {
    const cJSON *phase = cJSON_GetObjectItemCaseSensitive(e, "ph");
    const char kind = cJSON_IsString(phase) && strlen(phase->valuestring) == 1 ? *phase->valuestring : '-';
    const bool is_bar = kind == 'X';
    const double time = kind == 'M' ? 0 : number_of(e, "ts"), took = is_bar ? number_of(e, "dur") : 0;
    if (!strchr("XMCsf", kind) || !isfinite(time) || !(took >= 0 && took < INFINITY)) return GS_OK;
    if (length > LONGEST_EVENT) {
        t->left_out++;
        return GS_OK;
    }
    if (!gs_grow(&t->event, t->events, &t->room, sizeof *t->event))
        return gs_fail(GS_E_MEMORY, "no memory for the events of a trace");
    t->event[t->events++] = (gs_logged_event){kind == 'M' ? -INFINITY : time, at, is_bar, kind == 'C'};
    t->bars += is_bar;
    return GS_OK;
}

static int by_time(const void *a, const void *b) {
    const gs_logged_event *x = a, *y = b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static const char *blanks(const char *at) {
    return at + strspn(at, " \t\r\n");
}

/* Finds the first event: after "traceEvents": [, or after the [ if the trace is only an array. */
static const char *first_event(const char *text) {
    const char *at = blanks(text);
    if (*at == '[') return at + 1;
    const char *name = strstr(at, "\"traceEvents\"");
    if (!name) return NULL;
    at = blanks(name + strlen("\"traceEvents\""));
    if (*at++ != ':') return NULL;
    at = blanks(at);
    return *at == '[' ? at + 1 : NULL;
}

static gs_status read_events(gs_logged *log, const char *at) {
    gs_logged_trace *t = &log->trace;
    size_t read = 0;
    for (at = blanks(at); *at != ']'; at = blanks(at)) {
        const char *after = NULL;
        cJSON *e = gs_json_parse(at, (size_t)(t->text + t->length - at), &after);
        if (!e) {
            say(log, "trace.json is %s after %zu event%s; the timeline shows those.",
                *at ? "cut off or damaged" : "cut off", read, gs_s(read));
            return GS_OK;
        }
        gs_status status = add_event(t, e, (size_t)(at - t->text), (size_t)(after - at));
        cJSON_Delete(e);
        GS_TRY(status);
        read++;
        at = blanks(after);
        if (*at == ',') at++;
    }
    return GS_OK;
}

static gs_status read_trace(gs_logged *log, const char *path) {
    gs_logged_trace *t = &log->trace;
    struct stat s;
    if (stat(path, &s) != 0 && errno == ENOENT) return GS_OK;
    GS_TRY(read_file(log, path, MOST_OF_TRACE, "no timeline", &t->text, &t->length));
    if (!t->text) return GS_OK;
    const char *first = first_event(t->text);
    if (!first) say(log, "trace.json has no list of events: no timeline.");
    const gs_status status = first ? read_events(log, first) : GS_OK;
    if (t->left_out > 0)
        say(log, "trace.json has %zu event%s of more than %d bytes, left out of the timeline.", t->left_out,
            gs_s(t->left_out), LONGEST_EVENT);
    if (t->events > 1) qsort(t->event, t->events, sizeof *t->event, by_time);
    return status;
}

/* ---- all ---- */

gs_logged gs_logged_empty(void) {
    return (gs_logged){.steps = table_with(step_columns),
                       .epochs = table_with(epoch_columns),
                       .workers = table_with(worker_columns)};
}

static gs_status check_folder(const char *folder, const char *run, const char *metrics) {
    struct stat s;
    if (stat(folder, &s) != 0) return cannot_read(folder, errno);
    if (!S_ISDIR(s.st_mode)) return gs_fail(GS_E_FORMAT, "%s is not a folder; a training log is one", folder);
    if (stat(run, &s) == 0 || stat(metrics, &s) == 0) return GS_OK;
    if (errno != ENOENT) return cannot_read(metrics, errno);
    return gs_fail(
        GS_E_FORMAT,
        "%s is not a training log: it has neither run.json nor metrics.jsonl (gradsum train --log DIR "
        "writes one)",
        folder);
}

gs_status gs_logged_read(const char *folder, gs_logged *log) {
    static const char *const names[3] = {"run.json", "metrics.jsonl", "trace.json"};
    char path[3][PATH_MAX];
    *log = gs_logged_empty();
    for (int i = 0; i < 3; i++)
        if (snprintf(path[i], sizeof path[i], "%s/%s", folder, names[i]) >= PATH_MAX)
            return cannot_read(folder, ENAMETOOLONG);
    GS_TRY(check_folder(folder, path[0], path[1]));
    gs_status status = read_run(log, path[0]);
    if (status == GS_OK) status = read_metrics(log, path[1]);
    if (status == GS_OK) status = read_trace(log, path[2]);
    if (status != GS_OK) gs_logged_free(log);
    return status;
}

void gs_logged_free(gs_logged *log) {
    cJSON_Delete(log->run);
    free(log->steps.cell);
    free(log->epochs.cell);
    free(log->workers.cell);
    free(log->trace.text);
    free(log->trace.event);
    *log = gs_logged_empty();
}
