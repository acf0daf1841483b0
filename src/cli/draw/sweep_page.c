#include "cli/draw/sweep_page.h"
#include "io/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "gradsum.h"
#include "page/report.h"

/* A figure of all seeds: the median (null: never), the least and the most. */
static cJSON *json_spread(gs_spread s) {
    return GS_JSON_ARRAY(gs_report_number(s.median), gs_report_number(s.least), gs_report_number(s.most));
}

/* A row of the table: what report_sweep.js reads. */
static cJSON *json_line(const gs_sweep_line *l) {
    return GS_JSON_OBJECT(
        GS_FIELD("batch", l->batch), GS_FIELD("lr", gs_report_number(l->rates.plan.scaled)),
        GS_FIELD("seeds", l->runs), GS_FIELD("seeds_reached", l->reached),
        GS_FIELD("seeds_diverged", l->diverged), GS_FIELD("reached", (bool)isfinite(l->steps.median)),
        GS_FIELD("steps", json_spread(l->steps)), GS_FIELD("epochs", json_spread(l->epochs)),
        GS_FIELD("seconds", json_spread(l->seconds)), GS_FIELD("test_accuracy", json_spread(l->accuracy)),
        GS_FIELD("samples_per_s", gs_report_number(l->samples_per_s.median)));
}

/* What a device of the list is: "cl:0.0/1of2" is a part of "cl:0.0", and "cl" is the first of its kind. */
static void add_device(cJSON *devices, int worker, const char *name, const gs_device_info *list, int known) {
    size_t length = strcspn(name, "/");
    char text[400];
    int k = 0;
    cJSON *device = GS_JSON_OBJECT(GS_FIELD("worker", worker), GS_FIELD("device", name));
    while (k < known && strncmp(list[k].name, name, length) != 0) k++;
    if (k < known) {
        snprintf(text, sizeof text, "%s, %s", list[k].description, list[k].note);
        cJSON_AddStringToObject(device, "name", text);
    }
    cJSON_AddItemToArray(devices, device);
}

static void add_devices(cJSON *about, const gs_settings *s) {
    cJSON *devices = cJSON_AddArrayToObject(about, "devices");
    gs_device_info *list = NULL;
    const char *problem;
    char name[48];
    int known = 0;
    if (gs_device_list(&list, &known, &problem) != GS_OK) known = 0;
    for (int i = 0; i < gs_devices_count(s->devices); i++)
        if (gs_devices_name(s->devices, i, name) == GS_OK) add_device(devices, i, name, list, known);
    free(list);
}

/* What a log's run.json would say. */
static cJSON *about(const gs_sweep *w, const gs_sweep_run *r) {
    const gs_settings *s = &w->settings;
    cJSON *optimizer =
        GS_JSON_OBJECT(GS_FIELD("lr", gs_report_number(r->rates.plan.scaled)),
                       GS_FIELD("momentum", gs_report_number((double)gs_settings_numbers(s).momentum)),
                       GS_FIELD("lr_rule", gs_lr_rule_name(s->lr_rule)));
    cJSON *ended =
        GS_JSON_OBJECT(GS_FIELD("why", r->diverged ? "diverged" : "done"), GS_FIELD("steps", r->result.steps),
                       GS_FIELD("test_accuracy", gs_report_number(r->result.test_accuracy)));
    cJSON *o = GS_JSON_OBJECT(GS_FIELD("program", "gradsum " GRADSUM_VERSION),
                              GS_FIELD("host_cores", gs_cpu_cores()),
                              GS_FIELD("model", s->model ? s->model : "mlp"), GS_FIELD("data", s->data),
                              GS_FIELD("global_batch", r->batch), GS_FIELD("epochs", s->epochs),
                              GS_FIELD("workers", r->result.workers), GS_FIELD("sync", s->sync),
                              GS_FIELD("seed", r->seed), GS_FIELD("optimizer", optimizer));
    add_devices(o, s);
    return GS_JSON_ADD(o, GS_FIELD("ended", ended));
}

static gs_status add_run(cJSON *report, const gs_sweep *w, const gs_sweep_run *r) {
    gs_logged log = gs_logged_empty();
    char name[64];
    gs_status status = GS_OK;
    for (size_t i = 0; i < r->count && status == GS_OK; i++) {
        double *row = gs_logged_row(&log.epochs);
        if (!row) {
            status = gs_fail(GS_E_MEMORY, "no memory for the curves of batch %zu", r->batch);
            break;
        }
        row[GS_LOGGED_STEP] = (double)r->tests[i].step;
        row[GS_LOGGED_TIME] = r->tests[i].seconds;
        row[GS_LOGGED_TEST_LOSS] = r->tests[i].loss;
        row[GS_LOGGED_TEST_ACCURACY] = r->tests[i].accuracy;
    }
    log.run = about(w, r);
    snprintf(name, sizeof name, "batch %zu", r->batch);
    if (w->seeds > 1) snprintf(name + strlen(name), sizeof name - strlen(name), ", seed %" PRIu64, r->seed);
    if (status == GS_OK) status = gs_report_add(report, name, &log, w->batches);
    gs_logged_free(&log);
    GS_TRY(status);
    cJSON_ReplaceItemInObject(gs_report_last(report), "samples_per_s",
                              gs_report_number(r->result.samples_per_s));
    return GS_OK;
}

gs_status gs_sweep_page(const gs_sweep *w, const char *path, int argc, char *const *argv) {
    cJSON *report = gs_report_create(argc, argv), *sweep = cJSON_AddObjectToObject(report, "sweep");
    cJSON *runs = cJSON_AddArrayToObject(sweep, "runs");
    gs_status status = GS_OK;
    cJSON_AddItemToObject(sweep, "target", gs_report_number(w->target));
    cJSON_AddItemToObject(sweep, "seeds", GS_JSON(w->seeds));
    for (int i = 0; i < w->batches && status == GS_OK; i++) {
        gs_sweep_line line = gs_sweep_line_of(w, i);
        if (line.runs == 0) continue;
        cJSON_AddItemToArray(runs, json_line(&line));
        status = add_run(report, w, line.middle); /* one curve a batch, or nothing could be seen */
    }
    if (status == GS_OK) status = gs_report_write(report, "gradsum: a sweep over the global batch", path);
    cJSON_Delete(report);
    return status;
}
