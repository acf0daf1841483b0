#include "cli/draw/compare_page.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "io/file.h"
#include "log/log.h"
#include "page/report.h"

enum { TRACE_FIRST = 4, TRACE_LAST = 7 };

gs_status gs_compare_page_open(gs_compare_page *p, const char *path, int argc, char *const *argv, int runs) {
    const char *place = getenv("TMPDIR");
    *p = (gs_compare_page){.path = path, .argc = argc, .argv = argv, .runs = runs};
    if (runs > GS_REPORT_MOST)
        return gs_fail(GS_E_USAGE, "%d sets of devices; a page takes at most %d", runs, GS_REPORT_MOST);
    GS_TRY(gs_file_check_target(path, GS_FILE_PAGE));
    snprintf(p->folder, sizeof p->folder, "%s/gradsum-compare-XXXXXX", place && *place ? place : "/tmp");
    if (!mkdtemp(p->folder)) {
        gs_status status =
            gs_fail(GS_E_FILE, "cannot make a folder for logs, %s: %s", p->folder, strerror(errno));
        p->folder[0] = 0;
        return status;
    }
    p->report = gs_report_create(argc, argv);
    return GS_OK;
}

static void keep_problem(void *context, const char *problem) {
    gs_compare_page *p = context;
    snprintf(p->problem, sizeof p->problem, "%s", problem);
}

static void folder_of_log(const gs_compare_page *p, char *folder, size_t size) {
    snprintf(folder, size, "%s/%d", p->folder, p->done);
}

gs_status gs_compare_page_train(gs_compare_page *p, const gs_settings *settings, gs_result *result) {
    char folder[sizeof p->folder + 16];
    gs_settings s = *settings;
    gs_log *log;
    s.record = s.measure = true;
    s.trace.first = TRACE_FIRST;
    s.trace.last = TRACE_LAST;
    folder_of_log(p, folder, sizeof folder);
    GS_TRY(gs_log_open(
        &(gs_log_options){
            .folder = folder, .argc = p->argc, .argv = p->argv, .tell = keep_problem, .context = p},
        &log));
    gs_observer observer = gs_log_observer(log);
    gs_status status = gs_train(&s, &observer, result);
    gs_log_end(log, status, result);
    gs_log_free(log);
    return status;
}

/* The numbers of the table take the place of those of the log, so that the page says what the terminal says. */
static void add_result(cJSON *run, const gs_result *r, double difference, int base) {
    double all = 0;
    cJSON *share = cJSON_CreateArray();
    for (int p = 0; p < GS_PHASES; p++) all += r->phase[p];
    for (int p = 0; p < GS_PHASES; p++) cJSON_AddItemToArray(share, gs_report_number(r->phase[p] / all));
    cJSON_ReplaceItemInObject(run, "samples_per_s", gs_report_number(r->samples_per_s));
    all > 0 ? (void)cJSON_ReplaceItemInObject(run, "share", share) : cJSON_Delete(share);
    cJSON_AddItemToObject(run, "difference", gs_report_number(difference));
    cJSON_AddNumberToObject(run, "base", base);
    if (r->overlap.buckets > 0)
        cJSON_AddItemToObject(run, "hidden", gs_report_number(gs_overlap_hidden(r->overlap)));
}

gs_status gs_compare_page_add(gs_compare_page *p, const char *name, const gs_result *result,
                              double difference, int base) {
    char folder[sizeof p->folder + 16];
    gs_logged log;
    folder_of_log(p, folder, sizeof folder);
    p->done++;
    GS_TRY(gs_logged_read(folder, &log));
    gs_status status = gs_report_add(p->report, name, &log, p->runs);
    gs_logged_free(&log);
    GS_TRY(status);
    add_result(gs_report_last(p->report), result, difference, base);
    return GS_OK;
}

gs_status gs_compare_page_write(gs_compare_page *p) {
    cJSON_AddTrueToObject(p->report, "compare");
    GS_TRY(gs_report_write(p->report, "gradsum: a comparison", p->path));
    return p->problem[0] ? gs_fail(GS_E_FILE, "%s is not whole: %s", p->path, p->problem) : GS_OK;
}

void gs_compare_page_free(gs_compare_page *p) {
    if (*p->folder) gs_file_remove_folder(p->folder);
    cJSON_Delete(p->report);
    *p = (gs_compare_page){0};
}
