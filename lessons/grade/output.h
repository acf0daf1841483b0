/* Where marks are written: to standard output, a file, or a folder with one file per student. */
#pragma once

#include "io/file.h"
#include "lessons/grade/format.h"

typedef struct gs_marks_output {
    const gs_format *format;
    const char *path; /* NULL: standard output */
    gs_labs labs;     /* the labs for which every student gets a mark */
    gs_file_writer file;
    cJSON *names; /* the names of the files so far, in lower case */
} gs_marks_output;

/* GS_E_USAGE: the format writes one file per student, and no folder is given. GS_E_FILE: it cannot be written. */
gs_status gs_marks_output_open(gs_marks_output *, const gs_format *, const char *path, const gs_labs *,
                               int students);
gs_status gs_marks_output_student(gs_marks_output *, const cJSON *marks);
/* status: the grading's status; a file is written only if it is GS_OK. Returns it, or the error of writing the file. */
gs_status gs_marks_output_close(gs_marks_output *, gs_status status);
