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

/* ---- tables ---- */

#define SHARES "share.data", "share.forward", "share.backward", "share.sync", "share.update"
static const char *const step_columns[] = {"step", "time",          "loss", "accuracy",
                                           "lr",   "samples_per_s", SHARES, NULL};
static const char *const epoch_columns[] = {"step",          "time",          "train_loss", "test_loss",
                                            "test_accuracy", "samples_per_s", NULL};
static const char *const worker_columns[] = {"worker", "samples_per_s", SHARES, NULL};

gs_logged_table gs_logged_table_of(const char *const *columns) {
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

void gs_logged_say(gs_logged *log, const char *format, ...) {
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
    gs_status status = gs_file_read(path, GS_LOGGED_MOST, &text, &length);
    if (status == GS_E_MEMORY) return status;
    if (!text) {
        gs_logged_say(log, "run.json cannot be read: the model, the workers and the devices are not known.");
        return GS_OK;
    }
    log->run = gs_json_parse(text, length, NULL);
    free(text);
    if (!cJSON_IsObject(log->run)) {
        cJSON_Delete(log->run);
        log->run = NULL;
        gs_logged_say(log, "run.json is damaged: the model, the workers and the devices are not known.");
        return GS_OK;
    }
    GS_TRY(check_format(path, log->run));
    const cJSON *ended = cJSON_GetObjectItemCaseSensitive(log->run, "ended");
    const cJSON *problem = cJSON_GetObjectItemCaseSensitive(ended, "log");
    if (cJSON_IsString(problem))
        gs_logged_say(log, "The log is incomplete: %s.", gs_printable(problem->valuestring));
    const cJSON *busy = cJSON_GetObjectItemCaseSensitive(ended, "busy");
    if (cJSON_IsString(busy))
        gs_logged_say(log, "The machine was busy: %s.",
                      gs_printable_into(why, sizeof why, busy->valuestring, ""));
    if (!ended) gs_logged_say(log, "This run has not ended: it is still running, or it was killed.");
    return GS_OK;
}

/* ---- metrics.jsonl ---- */

enum { LONGEST_LINE = 1 << 16 };

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
 * not say where a line ends that has a 0 in it. */
static size_t read_line(FILE *f, char *text) {
    size_t length = 0;
    for (int c = 0; c != '\n' && length < LONGEST_LINE - 1 && (c = getc_unlocked(f)) != EOF;)
        text[length++] = (char)c;
    text[length] = 0;
    return length;
}

static gs_status read_lines(gs_logged *log, FILE *f, char *text, damage *d) {
    size_t length = 0;
    for (size_t number = 1; (length = read_line(f, text)) > 0; number++) {
        bool ends = text[length - 1] == '\n', whole = (ends || feof(f)) && !memchr(text, 0, length);
        cJSON *line = whole ? gs_json_parse(text, strlen(text), NULL) : NULL;
        gs_logged_table *t = table_of(log, line);
        gs_status status = t ? add_line(t, line) : GS_OK;
        bool good = cJSON_IsObject(line);
        cJSON_Delete(line);
        GS_TRY(status);
        if (good || strspn(text, " \r\n") == length) continue;
        d->cut = !ends && feof(f);
        if (!d->cut && d->lines++ == 0) d->first = number;
        while (!ends && (length = read_line(f, text)) > 0) ends = text[length - 1] == '\n'; /* its rest */
    }
    return ferror(f) ? gs_fail(GS_E_FILE, "%s", strerror(errno)) : GS_OK;
}

static gs_status read_metrics(gs_logged *log, const char *path) {
    uint64_t size;
    damage d = {0};
    FILE *f;
    if (gs_file_open_stream(path, &f, &size) != GS_OK) {
        gs_logged_say(log, "metrics.jsonl cannot be read: no curves.");
        return GS_OK;
    }
    char *text = malloc(LONGEST_LINE);
    gs_status status = text ? read_lines(log, f, text, &d) : gs_fail(GS_E_MEMORY, "no memory for a line");
    fclose(f);
    free(text);
    if (d.lines > 0)
        gs_logged_say(log, "metrics.jsonl is damaged: %zu line%s left out, the first of them line %zu.",
                      d.lines, d.lines > 1 ? "s are" : " is", d.first);
    if (d.cut) gs_logged_say(log, "The last line of metrics.jsonl is cut off; it is left out.");
    if (status == GS_OK && log->steps.rows + log->epochs.rows == 0)
        gs_logged_say(log, "metrics.jsonl has no step and no epoch yet: no curves.");
    return gs_context(status, "%s", path);
}

/* ---- all ---- */

gs_logged gs_logged_empty(void) {
    return (gs_logged){.steps = gs_logged_table_of(step_columns),
                       .epochs = gs_logged_table_of(epoch_columns),
                       .workers = gs_logged_table_of(worker_columns)};
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
    gs_status status = gs_file_read(trace, GS_LOGGED_MOST, &text, &length);
    if (status == GS_E_MEMORY) return status;
    if (!text) {
        gs_logged_say(log, "trace.json cannot be read: no timeline.");
        return GS_OK;
    }
    status = gs_logged_read_trace(log, text, length);
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
    gs_logged_trace_free(&log->trace);
    *log = gs_logged_empty();
}
