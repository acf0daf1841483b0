/* The files of src/page/ as strings: step.html is gs_page_step_html. The Makefile makes them; gs_page_chart_js is
 * Chart.js, from Debian's package. */
#pragma once

extern const char gs_page_base_html[], gs_page_base_css[], gs_page_base_js[]; /* of all pages */

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
