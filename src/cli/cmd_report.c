#include "cli/cli.h"
#include "page/report.h"

#include <cjson/cJSON.h>

/* "runs/ring" becomes "ring", unless another log would get the same name. */
static const char *name_of(char **folders, int count, int i) {
    const char *name = basename(folders[i]);
    for (int k = 0; k < count; k++)
        if (k != i && strcmp(basename(folders[k]), name) == 0) return folders[i];
    return name;
}

static gs_status add_all(cJSON *report, char **folders, int count) {
    for (int i = 0; i < count; i++) {
        gs_logged log;
        GS_TRY(gs_logged_read(folders[i], &log));
        for (int n = 0; n < log.notes; n++) gs_tell("report", "%s: %s", folders[i], log.note[n]);
        gs_status status = gs_report_add(report, name_of(folders, count, i), &log, count);
        gs_logged_free(&log);
        GS_TRY(status);
    }
    return GS_OK;
}

static gs_status report(char **folders, int count, const char *out) {
    char title[200];
    if (count == 0) return gs_fail(GS_E_USAGE, "a log is required: gradsum train --log DIR writes one");
    if (count > GS_REPORT_MOST)
        return gs_fail(GS_E_USAGE, "%d logs; a page takes at most %d", count, GS_REPORT_MOST);
    if (!out) return gs_fail(GS_E_USAGE, "-o FILE is required: where the page goes");
    GS_TRY(gs_file_check_target(out, GS_FILE_PAGE));
    for (int i = 0; i < count; i++)
        for (size_t n = strlen(folders[i]); n > 1 && folders[i][n - 1] == '/';) folders[i][--n] = 0;
    cJSON *data = gs_report_create(0, NULL);
    gs_status status = add_all(data, folders, count);
    snprintf(title, sizeof title, "gradsum: %s%s", basename(folders[0]), count > 1 ? " and others" : "");
    if (status == GS_OK) status = gs_report_write(data, title, out);
    cJSON_Delete(data);
    if (status == GS_OK)
        gs_print_line("%s: %d run%s; open it in a browser", out, count, count > 1 ? "s" : "");
    return status;
}

int gs_cmd_report(int argc, char **argv) {
    const char *out = NULL;
    int words, exit_status;
    const gs_option options[] = {
        {"out", GS_OPTION_TEXT, &out, 0, 0, "FILE", "the page (.html)"},
        {0},
    };
    const gs_help help = {"report DIR... -o FILE",
                          "Make a page of one run or several, from the logs that train --log DIR wrote:\n"
                          "loss and accuracy against steps and time, speed-up and efficiency, where a\n"
                          "step's time goes, a timeline of some steps, memory, commands and devices. It is\n"
                          "one file for any browser, and needs no network.",
                          "gradsum report run1 run2 -o report.html", NULL};
    if (!gs_options_taken(options, &help, argc, argv, &words, &exit_status)) return exit_status;
    return gs_exit_status("report", report(argv + 1, words, out));
}
