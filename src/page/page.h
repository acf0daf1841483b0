/* A page: one HTML file that contains everything it needs, so that it opens anywhere, without a network.
 *
 * Its frame is base.html, which contains a mark such as {{title}} for each member below. Inserted text is not searched
 * for marks.
 */
#pragma once

#include "core/error.h"

struct cJSON;

/* The files of src/page/ as strings, made by the Makefile: step.html becomes gs_page_step_html. gs_page_chart_js is
 * Chart.js, from Debian's package. */
extern const char gs_page_base_html[], gs_page_base_css[], gs_page_base_js[]; /* used by all pages */

extern const char gs_page_step_html[], gs_page_step_css[];
extern const char gs_page_step_record_js[], gs_page_step_draw_js[], gs_page_step_js[];

extern const char gs_page_layout_html[], gs_page_layout_css[], gs_page_layout_js[];

extern const char gs_page_eval_html[], gs_page_eval_css[], gs_page_eval_js[];

extern const char gs_page_report_html[], gs_page_report_css[];
extern const char gs_page_report_runs_js[], gs_page_report_charts_js[], gs_page_report_sweep_js[],
    gs_page_report_memory_js[];
extern const char gs_page_report_timeline_js[], gs_page_report_js[];
extern const char gs_page_chart_js[];

extern const char gs_page_simulate_html[], gs_page_simulate_css[], gs_page_simulate_js[];

typedef struct gs_page {
    const char *title;     /* plain text: & < > " ' are escaped */
    const char *style[3];  /* CSS added after base.css; ends with NULL */
    const char *body;      /* HTML */
    bool has_charts;       /* the page needs Chart.js */
    const char *script[8]; /* JavaScript added after base.js; ends with NULL */
} gs_page;

/* Write the page to `path`, completely or not at all (io/file.h). The scripts read `data`, which is printed so that it
 * cannot end its script element. GS_E_FILE: `path` cannot be written; GS_E_MEMORY. A style or script that would end its
 * element is a gs_bug. */
gs_status gs_page_write(const char *path, const gs_page *, const struct cJSON *data);
