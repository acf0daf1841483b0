/* The grader of one lab: its input, its results, and its report. */
#pragma once

#include "contain.h"
#include "lab.h"
#include "sandbox.h"

enum { LAB_TASKS = 12 /* at most in a lab */, LAB_TEXT = 2400 };

/* The file to grade, and how, from the command line (grader.c). */
typedef struct lab_grading {
    const char *lab;     /* "07" */
    const char *title;   /* "all-reduce" */
    const char *source;  /* the student's lab.c or lab.cl */
    const char *given;   /* the handed-out file */
    const char *folder;  /* where the program is built */
    const char *checker; /* the program of the checks */
    const char *headers; /* a copy of the tree with only the files that a lab may include */
    bool kernels;        /* the file is a lab.cl: run it under Oclgrind too */
    bool json;
    bool unchecked;       /* skip the source checks: to test what the sandbox holds back */
    bool no_program;      /* build no gradsum with the student's functions: for tests of the points only */
    lab_sandbox *sandbox; /* NULL: run it with the grading user's rights */
    double seconds;       /* time limit of a task */
    const char *seed;     /* of the checks' cases, as decimal text */
} lab_grading;

/* The result of a task. */
typedef struct lab_outcome {
    int points;
    char note[LAB_TEXT]; /* why points are missing; "" if none are */
    char hint[LAB_HINT]; /* where to look; "" */
} lab_outcome;

typedef struct lab_grade {
    char problem[600];      /* why nothing could be graded: "it does not compile"; "": it was */
    char *messages;         /* of the compiler, or NULL */
    char changed[LAB_TEXT]; /* lines outside the blanks that differ from the handed-out file; "" */
    const char *remark;     /* what could not be checked, or NULL */
    int count, points, of;
    lab_outcome outcome[LAB_TASKS];
} lab_grade;

/* ---- changed.c ---- */

gs_status lab_find_changes(const lab_grading *, lab_grade *);

/* ---- build.c ---- */

/* GS_E_FILE: the file is missing, not a regular file, too large, or unreadable. */
gs_status lab_check_source(const char *path);

/* Compiles, links, and checks the contents (source_check.h); grade->problem says why there is no program. */
gs_status lab_build(const lab_grading *, lab_grade *);

/* ---- tasks.c ---- */

/* Runs and judges all tasks. If Oclgrind is installed, kernel tasks that have passed run again under it, with small
 * shapes: a race, an access out of bounds, a read of uninitialised memory, or too many counted loads cost all points.
 * Without Oclgrind grade->remark says so. */
gs_status lab_run_tasks(const lab_grading *, lab_grade *);

/* ---- outcome.c ---- */

/* Describes how a task's process ended. `file` is the name of the student's file without folders. */
void lab_judge(const lab_grading *, const lab_task *, const lab_job *, const char *file, lab_outcome *);

/* ---- sanitizer.c ---- */

/* Shortens a sanitizer's report in `output` to "lab.c:57: in ring_sum: heap-buffer-overflow, ...". False: there is
 * none. */
bool lab_sanitizer_report(const char *output, const char *file, char *text, size_t size);

/* The same for LeakSanitizer. */
bool lab_leak_report(const char *output, const char *file, char *text, size_t size);

/* ---- report.c ---- */

void lab_print(const lab_grading *, const lab_grade *);      /* in 80 columns */
void lab_print_json(const lab_grading *, const lab_grade *); /* one line */
