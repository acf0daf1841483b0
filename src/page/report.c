#include "page/report.h"
#include "core/version.h"
#include "io/json.h"
#include "page/page.h"

#include <math.h>
#include <string.h>

/* One run's share of the page's limit of `all` points or events, kept between `least` and `most`. */
static inline size_t room_of(int all, int runs, int least, int most) {
    int part = all / (runs > 0 ? runs : 1);
    return (size_t)(part > most ? most : part < least ? least : part);
}

enum { ALL_BARS = 16000, MOST_BARS = 8000, LEAST_BARS = 200 };

/* ---- the timeline of a run ---- */

/* An event in compact form: [ph, pid, tid, ts, dur, cat, name, id, args]; for a bar, args holds only the step. */
static cJSON *event_in_short(const cJSON *e, bool is_bar) {
    static const char *const fields[] = {"ph", "pid", "tid", "ts", "dur", "cat", "name", "id", "args"};
    cJSON *row = cJSON_CreateArray();
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const cJSON *f = cJSON_GetObjectItemCaseSensitive(e, fields[i]);
        if (is_bar && strcmp(fields[i], "args") == 0) f = cJSON_GetObjectItemCaseSensitive(f, "step");
        cJSON_AddItemToArray(row, f ? cJSON_Duplicate(f, true) : cJSON_CreateNull());
    }
    return row;
}

/* A run's first bars and memory samples, as many of each as fit on a page with `of` runs, and the other events up to
 * the last of them. */
static void add_trace(cJSON *run, const gs_logged_trace *t, int of) {
    size_t bars = room_of(ALL_BARS, of, LEAST_BARS, MOST_BARS), samples = bars;
    cJSON *o = cJSON_AddObjectToObject(run, "trace"), *events = cJSON_AddArrayToObject(o, "events");
    for (size_t i = 0; i < t->events; i++) {
        const gs_logged_event *event = &t->event[i];
        if ((event->is_bar && bars-- == 0) || (event->is_sample && samples-- == 0)) break;
        cJSON *e = gs_json_parse(t->text + event->at, t->length - event->at, NULL);
        cJSON_AddItemToArray(events, event_in_short(e, event->is_bar));
        cJSON_Delete(e);
    }
    cJSON_AddNumberToObject(o, "all", (double)t->bars);
}

cJSON *gs_report_number(double x) {
    if (fabs(x) >= 1e4 && fabs(x) < 1e15) x = round(x);
    return x == floor(x) ? gs_json_number(x) : gs_json_rounded(x, 5);
}

/* ---- curves ---- */

enum { MOST_POINTS = 400, ALL_POINTS = 6000, LEAST_POINTS = 60 };

typedef struct spread {
    double mean, min, max;
} spread;

/* The mean, minimum and maximum of rows first .. end - 1 of a column; all NaN if no row has a number. */
static spread spread_of(const gs_logged_table *t, int column, size_t first, size_t end) {
    spread s = {NAN, NAN, NAN};
    double sum = 0;
    size_t count = 0;
    for (size_t r = first; r < end; r++) {
        double x = gs_logged_cell(t, r, column);
        if (isnan(x)) continue;
        s.min = fmin(s.min, x); /* fmin(NaN, x) is x */
        s.max = fmax(s.max, x);
        sum += x;
        count++;
    }
    if (count > 0) s.mean = sum / (double)count;
    return s;
}

/* Columns 0 .. columns - 1 of a table, thinned to about `most` points; columns from 2 on also keep their extremes. */
static cJSON *add_curves(cJSON *o, const char *name, const gs_logged_table *t, int columns, size_t most) {
    cJSON *curves = cJSON_AddObjectToObject(o, name);
    size_t each = t->rows > most ? (t->rows + most - 1) / most : 1; /* rows per point */
    for (int c = 0; c < columns; c++) {
        const bool extremes = each > 1 && c >= 2;
        char low[64], high[64];
        snprintf(low, sizeof low, "%s_min", t->column[c]);
        snprintf(high, sizeof high, "%s_max", t->column[c]);
        cJSON *mean = cJSON_AddArrayToObject(curves, t->column[c]),
              *min = extremes ? cJSON_AddArrayToObject(curves, low) : NULL,
              *max = extremes ? cJSON_AddArrayToObject(curves, high) : NULL;
        for (size_t first = 0; first < t->rows; first += each) {
            size_t end = first + each < t->rows ? first + each : t->rows;
            spread s = spread_of(t, c, first, end);
            cJSON_AddItemToArray(mean, gs_report_number(s.mean));
            if (extremes) cJSON_AddItemToArray(min, gs_report_number(s.min));
            if (extremes) cJSON_AddItemToArray(max, gs_report_number(s.max));
        }
    }
    GS_JSON_ADD(curves, GS_FIELD("rows", t->rows), GS_FIELD("each", each));
    return curves;
}

/* ---- means over a run ---- */

static bool is_of(const gs_logged_table *t, size_t row, double worker) {
    return worker < 0 || gs_logged_cell(t, row, GS_LOGGED_WORKER) == worker;
}

/* The mean speed, in samples per second, of rows with equally many samples: the harmonic mean. worker < 0: all rows. */
static double speed_of(const gs_logged_table *t, int column, double worker) {
    double seconds = 0;
    size_t count = 0;
    for (size_t r = 0; r < t->rows; r++) {
        double speed = gs_logged_cell(t, r, column);
        if (!is_of(t, r, worker) || !(speed > 0)) continue;
        seconds += 1 / speed;
        count++;
    }
    return count > 0 ? (double)count / seconds : NAN;
}

/* The phases' shares of the time; each row is weighted by its duration. */
static cJSON *shares_of(const gs_logged_table *t, int share, int speed, double worker) {
    double sum[GS_LOGGED_SHARES] = {0}, all = 0;
    for (size_t r = 0; r < t->rows; r++) {
        double rate = gs_logged_cell(t, r, speed), weight = rate > 0 ? 1 / rate : 1;
        if (!is_of(t, r, worker)) continue;
        for (int i = 0; i < GS_LOGGED_SHARES; i++) {
            double x = gs_logged_cell(t, r, share + i);
            if (!(x > 0)) continue;
            sum[i] += weight * x;
            all += weight * x;
        }
    }
    if (all == 0) return cJSON_CreateNull();
    cJSON *shares = cJSON_CreateArray();
    for (int i = 0; i < GS_LOGGED_SHARES; i++) cJSON_AddItemToArray(shares, gs_report_number(sum[i] / all));
    return shares;
}

enum { MOST_WORKERS = 64 };

static void add_workers(cJSON *o, const gs_logged_table *t) {
    cJSON *workers = cJSON_AddArrayToObject(o, "workers");
    for (int w = 0; w < MOST_WORKERS; w++) {
        double speed = speed_of(t, GS_LOGGED_WORKER_SPEED, w);
        if (isnan(speed)) continue;
        cJSON_AddItemToArray(
            workers, GS_JSON_OBJECT(
                         GS_FIELD("worker", w), GS_FIELD("samples_per_s", gs_report_number(speed)),
                         GS_FIELD("share", shares_of(t, GS_LOGGED_WORKER_SHARE, GS_LOGGED_WORKER_SPEED, w))));
    }
}

/* ---- a run ---- */

gs_status gs_report_add(cJSON *report, const char *name, const gs_logged *log, int of) {
    cJSON *o = cJSON_CreateObject();
    if (!o) return gs_fail(GS_E_MEMORY, "no memory for the data of %s", name);
    cJSON_AddItemToArray(cJSON_GetObjectItem(report, "runs"), o);
    cJSON_AddStringToObject(o, "name", name);
    cJSON *notes = cJSON_AddArrayToObject(o, "notes");
    for (int i = 0; i < log->notes; i++) cJSON_AddItemToArray(notes, cJSON_CreateString(log->note[i]));
    cJSON_AddItemToObject(o, "about", log->run ? cJSON_Duplicate(log->run, true) : cJSON_CreateObject());
    size_t points = room_of(ALL_POINTS, of, LEAST_POINTS, MOST_POINTS);
    add_curves(o, "steps", &log->steps, GS_LOGGED_SHARE, points);
    add_curves(o, "epochs", &log->epochs, log->epochs.columns, points / 2);
    double speed = speed_of(&log->epochs, GS_LOGGED_EPOCH_SPEED, -1);
    if (isnan(speed)) speed = speed_of(&log->steps, GS_LOGGED_SPEED, -1);
    GS_JSON_ADD(o, GS_FIELD("samples_per_s", gs_report_number(speed)),
                GS_FIELD("share", shares_of(&log->steps, GS_LOGGED_SHARE, GS_LOGGED_SPEED, -1)));
    add_workers(o, &log->workers);
    add_trace(o, &log->trace, of);
    return GS_OK;
}

/* ---- the page ---- */

cJSON *gs_report_create(int argc, char *const *argv) {
    cJSON *report = GS_JSON_OBJECT(GS_FIELD("version", GRADSUM_VERSION));
    cJSON *command = argc > 0 ? cJSON_AddArrayToObject(report, "command") : NULL;
    if (command) cJSON_AddItemToArray(command, cJSON_CreateString("gradsum"));
    for (int i = 0; i < argc; i++) cJSON_AddItemToArray(command, cJSON_CreateString(argv[i]));
    cJSON_AddArrayToObject(report, "runs");
    return report;
}

cJSON *gs_report_last(const cJSON *report) {
    const cJSON *runs = cJSON_GetObjectItem(report, "runs");
    return cJSON_GetArrayItem(runs, cJSON_GetArraySize(runs) - 1);
}

gs_status gs_report_write(const cJSON *report, const char *title, const char *path) {
    const gs_page page = {.title = title,
                          .style = {gs_page_report_css},
                          .body = gs_page_report_html,
                          .has_charts = true,
                          .script = {gs_page_report_runs_js, gs_page_report_charts_js,
                                     gs_page_report_sweep_js, gs_page_report_memory_js,
                                     gs_page_report_timeline_js, gs_page_report_js}};
    return gs_page_write(path, &page, report);
}
