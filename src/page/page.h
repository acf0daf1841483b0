/* A page: one HTML file that holds all that it needs, so that it opens anywhere, without a network.
 *
 * A template (base.html) has marks, and each part takes the place of its mark, wherever that stands; several of one
 * mark follow each other:
 *
 *     <title>{{title}}</title>                              GS_PAGE_TEXT
 *     <style>{{style}}</style>                              GS_PAGE_STYLE
 *     <script id="data" type="application/json">{{data}}</script>   GS_PAGE_JSON
 *     <script>{{script}}</script>                           GS_PAGE_SCRIPT
 *     <body>{{body}}</body>                                 GS_PAGE_HTML
 *
 * Templates, styles and scripts are files of src/page/, which the Makefile makes into strings of the program
 * (strings.h). What is put in is not searched for marks.
 */
#pragma once

#include "core/error.h"

struct cJSON;

typedef enum gs_page_kind {
    GS_PAGE_TEXT,   /* text for people: & < > " ' are escaped */
    GS_PAGE_HTML,   /* as it is */
    GS_PAGE_STYLE,  /* CSS, as it is */
    GS_PAGE_SCRIPT, /* JavaScript, as it is */
    GS_PAGE_JSON,   /* `json`, printed without blanks, and so that nothing in it can end the script element */
} gs_page_kind;

typedef struct gs_page_part {
    const char *mark; /* "title" for {{title}}; NULL ends a list */
    gs_page_kind kind;
    const char *text;         /* of all kinds but JSON */
    const struct cJSON *json; /* of JSON */
} gs_page_part;

/* Write the page to `path`: whole or not at all (io/file.h). GS_E_FILE: it cannot be written; GS_E_MEMORY.
 * A mark without a part, or a style or script that would end its element, is a gs_bug. */
gs_status gs_page_write(const char *path, const char *page, const gs_page_part *parts);
