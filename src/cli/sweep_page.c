#include "cli/sweep_page.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "gradsum.h"
#include "page/report.h"

/* A row of the table: what report_sweep.js reads. */
static cJSON *json_run(const gs_sweep *w, const gs_sweep_run *r) {
    cJSON *o = cJSON_CreateObject();
    size_t an_epoch = (w->samples + r->batch - 1) / r->batch; /* steps */
    cJSON_AddNumberToObject(o, "batch", (double)r->batch);
    cJSON_AddItemToObject(o, "lr", gs_report_number(r->rates.scaled));
    cJSON_AddBoolToObject(o, "reached", r->reached);
    cJSON_AddBoolToObject(o, "diverged", r->diverged);
    if (r->reached) {
        cJSON_AddNumberToObject(o, "steps", (double)r->at.step);
        cJSON_AddItemToObject(o, "epochs", gs_report_number((double)r->at.step / (double)an_epoch));
        cJSON_AddItemToObject(o, "seconds", gs_report_number(r->at.seconds));
    }
    cJSON_AddItemToObject(o, "test_accuracy", gs_report_number(r->result.test_accuracy));
    cJSON_AddItemToObject(o, "samples_per_s", gs_report_number(r->result.samples_per_s));
    return o;
}

/* What a device of the list is: "cl:0.0/1of2" is a part of "cl:0.0", and "cl" is the first of its kind. */
static void add_device(cJSON *devices, int worker, const char *name, const gs_device_info *list, int known) {
    cJSON *device = cJSON_CreateObject();
    size_t length = strcspn(name, "/");
    char text[400];
    int k = 0;
    cJSON_AddNumberToObject(device, "worker", worker);
    cJSON_AddStringToObject(device, "device", name);
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
    cJSON *o = cJSON_CreateObject(), *optimizer = cJSON_CreateObject(), *ended = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "program", "gradsum " GRADSUM_VERSION);
    cJSON_AddNumberToObject(o, "host_cores", gs_cpu_cores());
    cJSON_AddStringToObject(o, "model", s->model ? s->model : "mlp");
    cJSON_AddStringToObject(o, "data", s->data);
    cJSON_AddNumberToObject(o, "global_batch", (double)r->batch);
    cJSON_AddNumberToObject(o, "epochs", s->epochs);
    cJSON_AddNumberToObject(o, "workers", r->result.workers);
    cJSON_AddStringToObject(o, "sync", s->sync);
    cJSON_AddNumberToObject(o, "seed", (double)s->seed);
    cJSON_AddItemToObject(o, "optimizer", optimizer);
    cJSON_AddItemToObject(optimizer, "lr", gs_report_number(r->rates.scaled));
    cJSON_AddItemToObject(optimizer, "momentum", gs_report_number((double)s->momentum));
    cJSON_AddStringToObject(optimizer, "lr_rule", gs_lr_rule_name(s->lr_rule));
    add_devices(o, s);
    cJSON_AddItemToObject(o, "ended", ended);
    cJSON_AddStringToObject(ended, "why", r->diverged ? "diverged" : "done");
    cJSON_AddNumberToObject(ended, "steps", (double)r->result.steps);
    cJSON_AddItemToObject(ended, "test_accuracy", gs_report_number(r->result.test_accuracy));
    return o;
}

static gs_status add_run(cJSON *report, const gs_sweep *w, const gs_sweep_run *r) {
    gs_logged log = gs_logged_empty();
    char name[40];
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
    if (status == GS_OK) status = gs_report_add(report, name, &log, w->count);
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
    for (int i = 0; i < w->count && status == GS_OK; i++) {
        if (!w->run[i].ran) continue;
        cJSON_AddItemToArray(runs, json_run(w, &w->run[i]));
        status = add_run(report, w, &w->run[i]);
    }
    if (status == GS_OK) status = gs_report_write(report, "gradsum: a sweep over the global batch", path);
    cJSON_Delete(report);
    return status;
}
