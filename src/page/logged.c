#include "page/logged.h"
#include "core/memory.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/text.h"
#include <sys/stat.h>

#include "io/file.h"
#include "io/json.h"

/* Larger files are not read; all of a run.json goes into the page, and it holds a model's text three times. */
enum { MOST = 256 << 20, MOST_OF_RUN = 4 << 20, LONGEST_LINE = 1 << 16 };
static const uint64_t MOST_OF_METRICS = (uint64_t)4 << 30;

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

/* A damaged run.json takes nothing from the curves. */
static gs_status read_run(gs_logged *log, const char *path) {
    char *text, why[400];
    size_t length;
    struct stat s;
    const bool too_large = stat(path, &s) == 0 && s.st_size > MOST_OF_RUN;
    gs_status status = gs_file_read(path, MOST_OF_RUN, &text, &length);
    if (status == GS_E_MEMORY) return status;
    if (text) log->run = gs_json_parse(text, length, NULL);
    if (!cJSON_IsObject(log->run)) {
        cJSON_Delete(log->run);
        log->run = NULL;
        say(log, "run.json %s: the model, the workers and the devices are not known.",
            text        ? "is damaged"
            : too_large ? "is too large, above 4 MB"
                        : "cannot be read");
        free(text);
        return GS_OK;
    }
    free(text);
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

/* What could not be read of the lines. */
typedef struct damage {
    size_t lines, first;
    bool cut; /* the last line has no end */
} damage;

/* The next line, with its newline if that fits, otherwise as much as fits; 0: there is none. Not by fgets, which does
 * not say where a line ends that has a 0 in it, nor by getline, which takes memory for a line of any length. */
static size_t read_line(FILE *f, char text[LONGEST_LINE]) {
    size_t length = 0;
    for (int c = 0; c != '\n' && length < LONGEST_LINE - 1 && (c = getc_unlocked(f)) != EOF;)
        text[length++] = (char)c;
    text[length] = 0;
    return length;
}

static gs_status read_lines(gs_logged *log, FILE *f, damage *d) {
    char text[LONGEST_LINE];
    size_t length;
    gs_status status = GS_OK;
    for (size_t number = 1; status == GS_OK && (length = read_line(f, text)) > 0; number++) {
        bool ends = text[length - 1] == '\n';
        const bool whole = (ends || feof(f)) && !memchr(text, 0, length);
        cJSON *line = whole ? gs_json_parse(text, length, NULL) : NULL;
        gs_logged_table *t = table_of(log, line);
        if (t) status = add_line(t, line);
        const bool good = cJSON_IsObject(line) || strspn(text, " \r\n") == length;
        cJSON_Delete(line);
        if (good) continue;
        d->cut = !ends && feof(f);
        if (!d->cut && d->lines++ == 0) d->first = number;
        while (!ends && (length = read_line(f, text)) > 0) ends = text[length - 1] == '\n'; /* its rest */
    }
    if (status == GS_OK && ferror(f)) return gs_fail(GS_E_FILE, "%s", strerror(errno));
    return status;
}

static gs_status read_metrics(gs_logged *log, const char *path) {
    uint64_t size;
    damage d = {0};
    FILE *f;
    if (gs_file_open_stream(path, &f, &size) != GS_OK) {
        say(log, "metrics.jsonl cannot be read: no curves.");
        return GS_OK;
    }
    if (size > MOST_OF_METRICS) say(log, "metrics.jsonl is too large, above 4 GB: no curves.");
    const gs_status status = size > MOST_OF_METRICS ? GS_OK : read_lines(log, f, &d);
    fclose(f);
    if (d.lines > 0)
        say(log, "metrics.jsonl is damaged: %zu line%s left out, the first of them line %zu.", d.lines,
            d.lines > 1 ? "s are" : " is", d.first);
    if (d.cut) say(log, "The last line of metrics.jsonl is cut off; it is left out.");
    if (status == GS_OK && log->steps.rows + log->epochs.rows == 0)
        say(log, "metrics.jsonl has no step and no epoch yet: no curves.");
    return gs_context(status, "%s", path);
}

/* ---- trace.json: the events of a trace in Chrome's format, read one by one, so that of a file that was cut off all
 * that is whole is found. What is read: complete events ("X"), names of processes and threads ("M"), counters ("C") of
 * memory, and the two ends of arrows ("s", "f"). Source: "Trace Event Format" of the Chromium project, which Perfetto
 * and chrome://tracing read ---- */

static gs_status no_memory(void) {
    return gs_fail(GS_E_MEMORY, "no memory for the events of a trace");
}

static gs_status grow(void *array, size_t used, size_t *room, size_t size) {
    return gs_grow(array, used, room, size) ? GS_OK : no_memory();
}

static const char *text_of(const cJSON *o, const char *name) {
    const cJSON *f = cJSON_GetObjectItemCaseSensitive(o, name);
    return cJSON_IsString(f) ? f->valuestring : "";
}

static double number_of(const cJSON *o, const char *name) {
    const cJSON *f = cJSON_GetObjectItemCaseSensitive(o, name);
    return cJSON_IsNumber(f) ? f->valuedouble : NAN;
}

/* A whole number that is small enough to be one; -1 for anything else. */
static long whole_of(const cJSON *o, const char *name) {
    double x = number_of(o, name);
    return x >= 0 && x < 1e15 ? (long)x : -1;
}

enum { MOST_ROWS = 512 };

/* The row of a thread, made when it is met first; there are few. -1 where there are too many. */
static gs_status row_of(gs_logged_trace *t, const cJSON *e, int *row) {
    static const char *const usual[] = {"compute", "sync", "loader"};
    long process = whole_of(e, "pid"), thread = whole_of(e, "tid");
    for (size_t i = 0; i < t->rows; i++)
        if (t->row[i].process == process && t->row[i].thread == thread) {
            *row = (int)i;
            return GS_OK;
        }
    *row = -1;
    if (t->rows == MOST_ROWS) return GS_OK;
    GS_TRY(grow(&t->row, t->rows, &t->row_room, sizeof *t->row));
    gs_logged_row_name *r = &t->row[t->rows];
    *r = (gs_logged_row_name){.process = process, .thread = thread};
    snprintf(r->worker, sizeof r->worker, "worker %ld", process);
    if (thread >= 0 && thread < 3)
        gs_printable_into(r->text, sizeof r->text, usual[thread], "");
    else
        snprintf(r->text, sizeof r->text, "thread %ld", thread);
    *row = (int)t->rows++;
    return GS_OK;
}

/* Metadata may come before or after the events that they name. */
static gs_status add_metadata(gs_logged_trace *t, const cJSON *e, gs_logged_table *processes) {
    const char *what = text_of(e, "name"),
               *name = text_of(cJSON_GetObjectItemCaseSensitive(e, "args"), "name");
    int row;
    if (strcmp(what, "thread_name") == 0) {
        GS_TRY(row_of(t, e, &row));
        if (row >= 0) gs_printable_into(t->row[row].text, GS_LOGGED_TEXT, name, "");
    } else if (strcmp(what, "process_name") == 0) {
        GS_TRY(grow(&t->name, t->names, &t->name_room, sizeof *t->name));
        gs_printable_into(t->name[t->names], GS_LOGGED_TEXT, name, "");
        double *pair = gs_logged_row(processes);
        if (!pair) return no_memory();
        pair[0] = (double)whole_of(e, "pid");
        pair[1] = (double)t->names++;
    }
    return GS_OK;
}

/* The number of a name; the last ones are tried first, as names come in groups. */
static gs_status name_of(gs_logged_trace *t, const char *text, int *name) {
    char copy[GS_LOGGED_TEXT];
    gs_printable_into(copy, sizeof copy, text, "");
    for (size_t i = t->names; i-- > 0 && t->names - i <= 256;)
        if (strcmp(t->name[i], copy) == 0) {
            *name = (int)i;
            return GS_OK;
        }
    GS_TRY(grow(&t->name, t->names, &t->name_room, sizeof *t->name));
    memcpy(t->name[t->names], copy, sizeof copy);
    *name = (int)t->names++;
    return GS_OK;
}

static gs_status add_event(gs_logged_trace *t, const cJSON *e) {
    double start = number_of(e, "ts"), length = number_of(e, "dur");
    if (!isfinite(start) || !isfinite(length) || length < 0) return GS_OK;
    GS_TRY(grow(&t->event, t->events, &t->event_room, sizeof *t->event));
    gs_logged_event *event = &t->event[t->events];
    *event = (gs_logged_event){.start = start, .length = length};
    event->step = whole_of(cJSON_GetObjectItemCaseSensitive(e, "args"), "step");
    gs_printable_into(event->category, sizeof event->category, text_of(e, "cat"), "");
    GS_TRY(row_of(t, e, &event->row));
    GS_TRY(name_of(t, text_of(e, "name"), &event->name));
    if (event->row >= 0) t->events++;
    return GS_OK;
}

/* An end of an arrow. Ids are kept as text: a number or a string may stand there. */
static gs_status add_flow(gs_logged_trace *t, const cJSON *e, bool is_start) {
    const cJSON *id = cJSON_GetObjectItemCaseSensitive(e, "id");
    double at = number_of(e, "ts");
    char text[32] = "";
    int row;
    if (cJSON_IsString(id)) gs_printable_into(text, sizeof text, id->valuestring, "");
    if (cJSON_IsNumber(id)) snprintf(text, sizeof text, "%.17g", id->valuedouble);
    if (!*text || !isfinite(at)) return GS_OK;
    GS_TRY(row_of(t, e, &row));
    if (row < 0) return GS_OK;
    GS_TRY(grow(&t->flow, t->flows, &t->flow_room, sizeof *t->flow));
    gs_logged_flow *f = &t->flow[t->flows++];
    *f = is_start ? (gs_logged_flow){.from = row, .to = -1, .sent = at}
                  : (gs_logged_flow){.from = -1, .to = row, .received = at};
    memcpy(f->id, text, sizeof text);
    return GS_OK;
}

static const char *const memory_columns[] = {"pid",       "ts",          "weights",           "gradients",
                                             "optimizer", "state",       "communication",     "workspace",
                                             "data",      "activations", "activations, free", NULL};

static gs_status add_memory(gs_logged_trace *t, const cJSON *e) {
    const cJSON *bytes = cJSON_GetObjectItemCaseSensitive(e, "args");
    const double at = number_of(e, "ts");
    if (strcmp(text_of(e, "name"), "memory") != 0 || !isfinite(at)) return GS_OK;
    double *row = gs_logged_row(&t->memory);
    if (!row) return no_memory();
    row[GS_LOGGED_MEMORY_PID] = (double)whole_of(e, "pid");
    row[GS_LOGGED_MEMORY_TIME] = at;
    for (int i = GS_LOGGED_MEMORY_KINDS; memory_columns[i]; i++) {
        const double x = number_of(bytes, memory_columns[i]);
        row[i] = x >= 0 && x < 1e18 ? x : 0;
    }
    return GS_OK;
}

static gs_status add(gs_logged_trace *t, const cJSON *e, gs_logged_table *processes) {
    const char *phase = text_of(e, "ph");
    if (strcmp(phase, "X") == 0) return add_event(t, e);
    if (strcmp(phase, "M") == 0) return add_metadata(t, e, processes);
    if (strcmp(phase, "C") == 0) return add_memory(t, e);
    if (strcmp(phase, "s") == 0) return add_flow(t, e, true);
    return strcmp(phase, "f") == 0 ? add_flow(t, e, false) : GS_OK;
}

/* Of two that start together the longer one comes first: the other lies within it. */
static int by_start(const void *a, const void *b) {
    const gs_logged_event *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return (x->length < y->length) - (x->length > y->length);
}

/* Both ends of an arrow come together, its start first. */
static int by_id(const void *a, const void *b) {
    const gs_logged_flow *x = a, *y = b;
    int order = strcmp(x->id, y->id);
    return order ? order : (x->from < 0) - (y->from < 0);
}

static void join_flows(gs_logged_trace *t) {
    size_t whole = 0;
    if (t->flows > 1) qsort(t->flow, t->flows, sizeof *t->flow, by_id);
    for (size_t i = 0; i + 1 < t->flows; i++) {
        const gs_logged_flow *a = &t->flow[i], *b = &t->flow[i + 1];
        if (strcmp(a->id, b->id) != 0 || a->from < 0 || b->to < 0) continue;
        t->flow[whole] = *a;
        t->flow[whole].to = b->to;
        t->flow[whole++].received = b->received;
        i++;
    }
    t->flows = whole;
}

static int by_worker(const void *a, const void *b) {
    const gs_logged_row_name *x = a, *y = b;
    if (x->process != y->process) return x->process < y->process ? -1 : 1;
    return (x->thread > y->thread) - (x->thread < y->thread);
}

static void sort_rows(gs_logged_trace *t) {
    gs_logged_row_name before[MOST_ROWS];
    int place[MOST_ROWS] = {0};
    if (t->rows == 0) return;
    memcpy(before, t->row, t->rows * sizeof *before);
    qsort(t->row, t->rows, sizeof *t->row, by_worker);
    for (size_t i = 0; i < t->rows; i++)
        for (size_t j = 0; j < t->rows; j++)
            if (by_worker(&before[i], &t->row[j]) == 0) place[i] = (int)j;
    for (size_t i = 0; i < t->events; i++) t->event[i].row = place[t->event[i].row];
    for (size_t i = 0; i < t->flows; i++) {
        t->flow[i].from = place[t->flow[i].from];
        t->flow[i].to = place[t->flow[i].to];
    }
}

static void finish(gs_logged_trace *t, const gs_logged_table *processes) {
    for (size_t p = 0; p < processes->rows; p++)
        for (size_t i = 0; i < t->rows; i++)
            if (t->row[i].process == (long)gs_logged_cell(processes, p, 0))
                memcpy(t->row[i].worker, t->name[(size_t)gs_logged_cell(processes, p, 1)], GS_LOGGED_TEXT);
    if (t->events > 1) qsort(t->event, t->events, sizeof *t->event, by_start);
    join_flows(t);
    sort_rows(t);
}

static const char *blanks(const char *at) {
    return at + strspn(at, " \t\r\n");
}

/* Where the first event is: after "traceEvents": [, or after the [ of a trace that is only an array. */
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

static gs_status read_events(gs_logged *log, const char *at, const char *end, gs_logged_table *processes) {
    size_t read = 0;
    for (at = blanks(at); *at != ']'; at = blanks(at)) {
        const char *after = NULL;
        cJSON *e = gs_json_parse(at, (size_t)(end - at), &after);
        if (!e) {
            say(log, "trace.json is %s after %zu event%s; the timeline shows those.",
                *at ? "cut off or damaged" : "cut off", read, gs_s(read));
            return GS_OK;
        }
        gs_status status = add(&log->trace, e, processes);
        cJSON_Delete(e);
        GS_TRY(status);
        read++;
        at = blanks(after);
        if (*at == ',') at++;
    }
    return GS_OK;
}

static gs_status read_trace(gs_logged *log, const char *text, size_t length) {
    static const char *const pair[] = {"pid", "name", NULL};
    gs_logged_table processes = table_with(pair);
    const char *first = first_event(text);
    gs_status status = GS_OK;
    log->trace.memory = table_with(memory_columns);
    if (first)
        status = read_events(log, first, text + length, &processes);
    else
        say(log, "trace.json has no list of events: no timeline.");
    finish(&log->trace, &processes);
    free(processes.cell);
    return status;
}

static void free_trace(gs_logged_trace *t) {
    free(t->event);
    free(t->row);
    free(t->flow);
    free(t->name);
    free(t->memory.cell);
    *t = (gs_logged_trace){0};
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

static gs_status read_files(gs_logged *log, const char *run, const char *metrics, const char *trace) {
    char *text;
    size_t length;
    struct stat s;
    GS_TRY(read_run(log, run));
    GS_TRY(read_metrics(log, metrics));
    if (stat(trace, &s) != 0 && errno == ENOENT) return GS_OK;
    gs_status status = gs_file_read(trace, MOST, &text, &length);
    if (status == GS_E_MEMORY) return status;
    if (!text) {
        say(log, "trace.json cannot be read: no timeline.");
        return GS_OK;
    }
    status = read_trace(log, text, length);
    free(text);
    return status;
}

gs_status gs_logged_read(const char *folder, gs_logged *log) {
    static const char *const names[3] = {"run.json", "metrics.jsonl", "trace.json"};
    char path[3][PATH_MAX];
    *log = gs_logged_empty();
    for (int i = 0; i < 3; i++)
        if (snprintf(path[i], sizeof path[i], "%s/%s", folder, names[i]) >= PATH_MAX)
            return cannot_read(folder, ENAMETOOLONG);
    GS_TRY(check_folder(folder, path[0], path[1]));
    gs_status status = read_files(log, path[0], path[1], path[2]);
    if (status != GS_OK) gs_logged_free(log);
    return status;
}

void gs_logged_free(gs_logged *log) {
    cJSON_Delete(log->run);
    free(log->steps.cell);
    free(log->epochs.cell);
    free(log->workers.cell);
    free_trace(&log->trace);
    *log = gs_logged_empty();
}
