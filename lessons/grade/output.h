/* The destination of marks: standard output, a file, or a folder with a file for each student. */
#pragma once

#include "io/file.h"
#include "lessons/grade/format.h"

typedef struct gs_marks_output {
    const gs_format *format;
    const char *path; /* NULL: standard output */
    gs_labs labs;     /* those for which every student gets a mark */
    gs_file_writer file;
    cJSON *names; /* names of the files so far, in lower case */
} gs_marks_output;

/* GS_E_USAGE: one file per student, but no folder for them. GS_E_FILE: it cannot be written. */
gs_status gs_marks_output_open(gs_marks_output *, const gs_format *, const char *path, const gs_labs *,
                               int students);
gs_status gs_marks_output_student(gs_marks_output *, const cJSON *marks);
/* status: that of the grading; a file is written only if it is GS_OK. Returns it, or the error of writing the file. */
gs_status gs_marks_output_close(gs_marks_output *, gs_status status);
