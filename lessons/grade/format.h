/* The formats of `gradsum grade`. A new format is a file format_NAME.c and a row in format.c. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "core/error.h"
#include "lessons/grade/labs.h"
#include "lessons/grade/mark.h"

typedef struct gs_format {
    const char *name;
    const char *what; /* for --help */
    /* Writes one file per student into the folder given by -o; a single student's file may go to standard output. */
    bool a_file_each;
    const char *extension; /* the extension of these files: ".json" */
    /* labs: the labs for which every student gets a mark. begin and end may be NULL. */
    void (*begin)(FILE *, const gs_labs *labs);
    /* marks: an array of this student's marks, at least one: first those for `labs`, in order, then any others. */
    void (*student)(FILE *, const gs_labs *labs, const cJSON *marks);
    void (*end)(FILE *);
} gs_format;

extern const gs_format gs_format_csv, gs_format_gradescope, gs_format_json, gs_format_junit, gs_format_moodle;

extern const gs_format *const gs_formats[]; /* ends with NULL; the first format is the default */

/* GS_E_USAGE: there is no format with this name. */
gs_status gs_format_find(const char *name, const gs_format **);

/* ---- shared by several formats ---- */

/* Writes a CSV field (RFC 4180), followed by a comma or the end of the line. A text that a spreadsheet would take for a
 * formula (it starts with =, +, -, @, tab or CR) gets an apostrophe in front, as OWASP advises ("CSV Injection"). Line
 * ends become spaces. */
void gs_csv_field(FILE *, const char *text, bool last);

/* Writes text for an attribute or element of XML 1.0; omits characters that XML does not allow. */
void gs_xml_text(FILE *, const char *text);
