#include "page/report.h"
#include "io/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ALL_EVENTS = 16000, MOST_EVENTS = 8000, LEAST_EVENTS = 200, ALL_SAMPLES = 8000 };

/* The categories, in the order in which report_timeline.js has their colours. */
static int kind_of(const char *category) {
    if (strcmp(category, "gather") == 0) return 3; /* of ZeRO: a sum's other half */
    if (strcmp(category, "fetch") == 0) return 0;
    static const char *const kinds[] = {"load", "forward", "backward", "sync", "update", "message", "step"};
    for (int i = 0; i < 7; i++)
        if (strcmp(kinds[i], category) == 0) return i;
    return 7;
}

/* Tenths of a microsecond are enough. */
static cJSON *time_of(double us) {
    return cJSON_CreateNumber(round(10 * us) / 10);
}

static void add_rows(cJSON *o, const gs_logged_trace *t) {
    cJSON *workers = cJSON_AddArrayToObject(o, "workers"), *rows = cJSON_AddArrayToObject(o, "rows");
    int worker = -1;
    for (size_t i = 0; i < t->rows; i++) {
        if (i == 0 || t->row[i].process != t->row[i - 1].process) {
            cJSON_AddItemToArray(workers, cJSON_CreateString(t->row[i].worker));
            worker++;
        }
        cJSON_AddItemToArray(rows, GS_JSON_ARRAY(GS_JSON(worker), GS_JSON(t->row[i].text)));
    }
}

static void add_event(cJSON *events, const gs_logged_event *e, int name) {
    cJSON_AddItemToArray(events, GS_JSON_ARRAY(GS_JSON(e->row), GS_JSON(kind_of(e->category)), GS_JSON(name),
                                               time_of(e->start), time_of(e->length), GS_JSON(e->step)));
}

/* Names that are used, numbered as they are met. place[n]: 1 + the number of name n. */
static void add_events(cJSON *o, const gs_logged_trace *t, size_t shown, int *place) {
    cJSON *names = cJSON_AddArrayToObject(o, "names"), *events = cJSON_AddArrayToObject(o, "events");
    int used = 0;
    for (size_t i = 0; i < shown; i++) {
        int n = t->event[i].name;
        if (place[n] == 0) {
            cJSON_AddItemToArray(names, cJSON_CreateString(t->name[n]));
            place[n] = ++used;
        }
        add_event(events, &t->event[i], place[n] - 1);
    }
}

/* Arrows that end while the shown events go on. */
static void add_flows(cJSON *o, const gs_logged_trace *t, size_t shown) {
    cJSON *flows = cJSON_AddArrayToObject(o, "flows");
    double end = 0;
    size_t added = 0;
    for (size_t i = 0; i < shown; i++) end = fmax(end, t->event[i].start + t->event[i].length);
    for (size_t i = 0; i < t->flows && added < shown; i++) {
        const gs_logged_flow *f = &t->flow[i];
        if (f->received > end) continue;
        cJSON_AddItemToArray(
            flows, GS_JSON_ARRAY(GS_JSON(f->from), time_of(f->sent), GS_JSON(f->to), time_of(f->received)));
        added++;
    }
}

/* {kinds: [name], samples: [[which of the workers, us, bytes of each kind]]}; of very many, each second or third. */
static void add_memory(cJSON *o, const gs_logged_trace *t, int of) {
    const size_t most = gs_report_room(ALL_SAMPLES, of, LEAST_EVENTS, ALL_SAMPLES);
    const gs_logged_table *m = &t->memory;
    if (m->rows == 0) return;
    cJSON *memory = cJSON_AddObjectToObject(o, "memory"), *kinds = cJSON_AddArrayToObject(memory, "kinds"),
          *samples = cJSON_AddArrayToObject(memory, "samples");
    for (int k = GS_LOGGED_MEMORY_KINDS; k < m->columns; k++)
        cJSON_AddItemToArray(kinds, cJSON_CreateString(m->column[k]));
    const size_t each = m->rows > most ? (m->rows + most - 1) / most : 1;
    for (size_t i = 0; i < m->rows; i += each) {
        int worker = -1;
        for (size_t w = 0; w < t->rows; w++) {
            worker += w == 0 || t->row[w].process != t->row[w - 1].process;
            if (t->row[w].process == (long)gs_logged_cell(m, i, GS_LOGGED_MEMORY_PID)) break;
        }
        cJSON *sample = GS_JSON_ARRAY(GS_JSON(worker), time_of(gs_logged_cell(m, i, GS_LOGGED_MEMORY_TIME)));
        for (int k = GS_LOGGED_MEMORY_KINDS; k < m->columns; k++)
            cJSON_AddItemToArray(sample, cJSON_CreateNumber(gs_logged_cell(m, i, k)));
        cJSON_AddItemToArray(samples, sample);
    }
}

gs_status gs_report_add_trace(cJSON *run, const gs_logged_trace *t, int of) {
    size_t most = gs_report_room(ALL_EVENTS, of, LEAST_EVENTS, MOST_EVENTS),
           shown = t->events < most ? t->events : most;
    int *place = calloc(t->names + 1, sizeof *place);
    if (!place) return gs_fail(GS_E_MEMORY, "no memory for the names of a timeline");
    cJSON *o = cJSON_AddObjectToObject(run, "trace");
    add_rows(o, t);
    add_events(o, t, shown, place);
    add_flows(o, t, shown);
    add_memory(o, t, of);
    cJSON_AddNumberToObject(o, "all", (double)t->events);
    free(place);
    return GS_OK;
}
