/* One file of a training log, read and written to the page as `gradsum report` does. */
#pragma once

#include <cjson/cJSON.h>
#include <stdlib.h>
#include "fuzz.h"
#include "page/report.h"

static void read_log(fuzz_input *in, const char *name) {
    gs_logged log;
    if (gs_logged_read(fuzz_folder(name, 0, in->data, in->size), &log) != GS_OK) return;
    cJSON *report = gs_report_create(0, NULL);
    if (gs_report_add(report, "fuzz", &log, 1) != GS_OK) fuzz_wrong("report: %s", gs_message());
    char *text = cJSON_PrintUnformatted(report);
    cJSON *again = text ? cJSON_Parse(text) : NULL;
    if (!again) fuzz_wrong("the page's data are not JSON: %s", text ? text : "");
    cJSON_Delete(again);
    cJSON_free(text);
    cJSON_Delete(report);
    gs_logged_free(&log);
}
