/* The formats of `gradsum grade`. A new one is a file format_NAME.c and a row in format.c. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "core/error.h"
#include "lessons/grade/labs.h"
#include "lessons/grade/mark.h"

typedef struct gs_format {
    const char *name;
    const char *what; /* for --help */
    /* One file for each student, in the folder -o; that of a single student may go to standard output. */
    bool a_file_each;
    const char *extension; /* of these files: ".json" */
    /* labs: those that every student has a mark for. begin and end may be NULL. */
    void (*begin)(FILE *, const gs_labs *labs);
    /* marks: an array of this student's marks, one at least: those of `labs`, in their order, then others, if any. */
    void (*student)(FILE *, const gs_labs *labs, const cJSON *marks);
    void (*end)(FILE *);
} gs_format;

extern const gs_format gs_format_csv, gs_format_gradescope, gs_format_json, gs_format_junit, gs_format_moodle;

extern const gs_format *const gs_formats[]; /* NULL ends them; the first is the default */

/* GS_E_USAGE: there is none of this name. */
gs_status gs_format_find(const char *name, const gs_format **);

/* ---- for several formats ---- */

/* A field of CSV (RFC 4180), and a comma or the line's end. A text that a spreadsheet would take for a formula (it
 * begins with =, +, -, @, tab or CR) gets an apostrophe before it, as OWASP advises ("CSV Injection"). Line ends become
 * spaces. */
void gs_csv_field(FILE *, const char *text, bool last);

/* Text for an attribute or an element of XML 1.0: what it does not allow is left out. */
void gs_xml_text(FILE *, const char *text);
