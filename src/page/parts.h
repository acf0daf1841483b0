/* The files of src/page/ as strings: step.html is gs_page_step_html. The Makefile makes them. */
#ifndef GS_PAGE_PARTS_H
#define GS_PAGE_PARTS_H

extern const char gs_page_step_html[], gs_page_step_css[];
extern const char gs_page_step_record_js[], gs_page_step_draw_js[], gs_page_step_js[];

#endif
