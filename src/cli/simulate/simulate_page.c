/* The page of `gradsum simulate -o FILE`: what --json says, drawn by simulate.js. */
#include <cjson/cJSON.h>

#include "cli/simulate/simulate.h"
#include "io/json.h"
#include "page/page.h"
#include "page/strings.h"

gs_status gs_simulate_page(const gs_simulate_answer *a, const char *path) {
    cJSON *data = gs_simulate_json(a, true);
    const gs_page_part parts[] = {
        {"title", GS_PAGE_TEXT, "gradsum: a cluster in virtual time", NULL},
        {"style", GS_PAGE_STYLE, gs_page_base_css, NULL},
        {"style", GS_PAGE_STYLE, gs_page_report_css, NULL},
        {"style", GS_PAGE_STYLE, gs_page_simulate_css, NULL},
        {"body", GS_PAGE_HTML, gs_page_simulate_html, NULL},
        {"data", GS_PAGE_JSON, NULL, data},
        {"chart", GS_PAGE_SCRIPT, gs_page_chart_js, NULL},
        {"script", GS_PAGE_SCRIPT, gs_page_base_js, NULL},
        {"script", GS_PAGE_SCRIPT, gs_page_simulate_js, NULL},
        {NULL, GS_PAGE_TEXT, NULL, NULL},
    };
    const gs_status status = gs_page_write(path, gs_page_base_html, parts);
    cJSON_Delete(data);
    return status;
}
