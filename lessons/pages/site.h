/* The lessons as pages for a browser: a folder of HTML files that needs no network and no server.
 *
 * It begins with the lessons. What a page names (a link, a picture, the path of a source file) is wanted, and becomes a
 * page itself, so that no link leads out of the folder.
 *
 * A picture that moves is a link to a still one, with a command as its title. gradsum makes its page, shown below it:
 *
 *     ![a ring of four workers](ring.svg "gradsum step --sync ring") */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include "core/error.h"

typedef struct site_page {
    char *source; /* in the tree: "lessons/07-all-reduce/README.md" */
    char *name;   /* in the site: "07-all-reduce.html" */
} site_page;

typedef struct site {
    const char *tree, *folder, *gradsum;
    cJSON *texts; /* for the search: [address, lesson, section, its words] of each section of the course */
    site_page *pages;
    size_t count, room, lessons; /* the first `lessons` pages are the course, its overview first */
} site;

/* ---- site.c ---- */

/* Write the pages of the tree into the folder. `gradsum`: the program that makes the moving pictures. GS_E_FILE: a file
 * cannot be read or written, or a picture's command fails. */
gs_status site_write(const char *tree, const char *folder, const char *gradsum);

/* The page of a file of the tree, which it will become if it is not one yet. NULL: there is no such file, or it is
 * nothing for readers (a solution, an answer). */
const char *site_want(site *, const char *source);

/* The file that `link` names in a page made of `source`: relative to it, to the tree or to src. false: none. */
bool site_find(const site *, const char *source, const char *link, char *found, size_t size);

/* "../../" for a page that lies two folders deep. */
void site_up(const char *name, char *up, size_t size);

/* Write a text to a file of the folder, whole or not at all. */
gs_status site_put(const site *, const char *name, const char *text, size_t bytes);

/* The text of a file of the tree; to be freed. */
gs_status site_read(const site *, const char *source, char **text, size_t *bytes);

void site_escape(FILE *to, const char *text, size_t bytes);

/* The head of a page and its way to the neighbours; and its end. */
void site_begin(const site *, FILE *to, const site_page *, const char *title);
void site_end(const site *, FILE *to, const site_page *);

/* ---- markdown.c, source.c: what is inside a page ---- */

gs_status site_markdown(site *, size_t page);
gs_status site_source(site *, size_t page);

/* A text as HTML, with comments, keywords and strings in colours. Commands stand beside their output. */
typedef enum site_language { SITE_PLAIN, SITE_C, SITE_SHELL, SITE_COMMANDS } site_language;
void site_code(FILE *, const char *text, site_language, bool numbered);
bool site_is_command(const char *line);
