/* A page: one HTML file that holds all that it needs, so that it opens anywhere, without a network.
 *
 * Its frame is base.html, where a mark such as {{title}} stands for each member below. What is put in is not
 * searched for marks. The files of src/page/ are strings of the program (strings.h).
 */
#pragma once

#include <stdbool.h>

#include "core/error.h"

struct cJSON;

typedef struct gs_page {
    const char *title;     /* text for people: & < > " ' are escaped */
    const char *style[3];  /* CSS after base.css; NULL ends it */
    const char *body;      /* HTML */
    bool has_charts;       /* the page needs Chart.js */
    const char *script[8]; /* JavaScript after base.js; NULL ends it */
} gs_page;

/* Write the page to `path`: whole or not at all (io/file.h). `data` is what its scripts read, printed so that nothing
 * in it can end the script element. GS_E_FILE: it cannot be written; GS_E_MEMORY. A style or script that would end its
 * element is a gs_bug. */
gs_status gs_page_write(const char *path, const gs_page *, const struct cJSON *data);
