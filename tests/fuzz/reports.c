/* What workers send to rank 0 for the log and a run's last lines: their devices, speeds and timelines. */
#include <cjson/cJSON.h>
#include "train/timeline.c"
#include "fuzz.h"
#include "io/file.h"
#include "log/internal.h"
#include "train/worker_report.h"

enum { WORKERS = 3 };

static void make_worker(gs_worker *w) {
    static gs_device device = {.name = "cpu", .description = "here"};
    static gs_settings settings = {.trace.first = 1, .trace.last = 2};
    static gs_device_report reported[WORKERS] = {
        {.device = "cpu"}, {.device = "cl"}, {.device = "cl:0.0/1of2"}};
    const gs_model_config config = {.text = "linear 2, tanh", .in = {3, 1, 1, 0}};
    if (gs_model_create(NULL, &config, &w->model) != GS_OK) fuzz_wrong("no model: %s", gs_message());
    w->device = &device;
    w->settings = &settings;
    w->devices = reported;
}

/* Every trace that can be written must be readable by a viewer. */
static void timelines(gs_worker *w) {
    gs_rank_timeline *parts = calloc(WORKERS, sizeof *parts);
    gs_status status = GS_OK;
    for (int r = 1; r < WORKERS && status == GS_OK; r++) {
        status = move(w->comm, r, &parts[r]);
        if (status == GS_OK) status = check(w, r, &parts[r]);
    }
    if (status == GS_OK) {
        const char *path = fuzz_file("", 0);
        char *text;
        size_t bytes;
        if (gs_trace_write(path, w, parts) != GS_OK ||
            gs_file_read(path, SIZE_MAX - 1, &text, &bytes) != GS_OK)
            fuzz_wrong("no trace: %s", gs_message());
        cJSON *trace = cJSON_Parse(text);
        if (!trace) fuzz_wrong("the trace is not JSON: %s", text);
        cJSON_Delete(trace);
        free(text);
    }
    gs_rank_timelines_free(parts, WORKERS);
}

static void devices(gs_worker *w) {
    gs_device_report *all = NULL;
    if (gs_report_devices(w, &all) == GS_OK)
        for (int r = 0; r < WORKERS; r++)
            if (strlen(all[r].device) + strlen(all[r].description) + strlen(all[r].host) > sizeof *all)
                fuzz_wrong("a text of rank %d is not terminated", r);
    free(all);
}

static void speeds(gs_worker *w) {
    gs_busy busy = {0};
    gs_worker_report *all = NULL;
    if (gs_report_workers(w, &(gs_measured){0}, 1, &busy, &all) == GS_OK)
        for (int r = 0; r < WORKERS; r++)
            if (strlen(all[r].device) >= sizeof all->device) fuzz_wrong("rank %d: unterminated text", r);
    free(all);
}

FUZZ(in) {
    static gs_worker w;
    if (!w.model) make_worker(&w);
    uint8_t what = fuzz_byte(in);
    gs_comm fake = fuzz_comm(in, 0, WORKERS);
    w.comm = &fake;
    (what % 4 == 0 ? devices : what % 4 == 1 ? speeds : timelines)(&w);
}
