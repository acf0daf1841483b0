/* The grader of one lab: its input, its results, and its report. */
#pragma once

#include "contain.h"
#include "lab.h"
#include "sandbox.h"

enum { LAB_TASKS = 12 /* maximum number of tasks in a lab */, LAB_TEXT = 2400 };

/* Which file to grade, and how; from the command line (grader.c). */
typedef struct lab_grading {
    const char *lab;     /* "07" */
    const char *title;   /* "all-reduce" */
    const char *source;  /* the student's lab.c or lab.cl */
    const char *given;   /* the handed-out file */
    const char *folder;  /* where the program is built */
    const char *checker; /* the checker program */
    const char *headers; /* a copy of the tree that contains only the files that a lab may include */
    bool kernels;        /* the file is a lab.cl: also run it under Oclgrind */
    bool json;
    bool unchecked;       /* skip the source checks, to test what the sandbox alone prevents */
    bool no_program;      /* do not build gradsum with the student's functions: for tests of the points */
    lab_sandbox *sandbox; /* NULL: run it with the rights of the grading user */
    double seconds;       /* time limit of a task */
    const char *seed;     /* the seed of the checks' cases, as decimal text */
} lab_grading;

/* The result of one task. */
typedef struct lab_outcome {
    int points;
    char note[LAB_TEXT]; /* why points are missing; "" if none are */
    char hint[LAB_HINT]; /* where to look, or "" */
    double measured;     /* as in verdict.h */
    char unit[32];
} lab_outcome;

typedef struct lab_grade {
    char problem[600];      /* why nothing could be graded: "it does not compile"; "" if it was graded */
    char *messages;         /* the compiler's messages, or NULL */
    char changed[LAB_TEXT]; /* lines outside the blanks that differ from the handed-out file, or "" */
    const char *remark;     /* what could not be checked, or NULL */
    int count, points, of;
    lab_outcome outcome[LAB_TASKS];
} lab_grade;

/* ---- changed.c ---- */

gs_status lab_find_changes(const lab_grading *, lab_grade *);

/* ---- build.c ---- */

/* GS_E_FILE: the file is missing, not a regular file, too large, or unreadable. */
gs_status lab_check_source(const char *path);

/* Compiles, links, and checks the contents (source_check.h); if there is no program, grade->problem says why. */
gs_status lab_build(const lab_grading *, lab_grade *);

/* ---- tasks.c ---- */

/* Runs and judges all tasks. If Oclgrind is installed, kernel tasks that passed run again under it, with small shapes:
 * a race, an out-of-bounds access, a read of uninitialised memory, or too many loads cost all points. Without Oclgrind,
 * grade->remark says so. */
gs_status lab_run_tasks(const lab_grading *, lab_grade *);

/* ---- outcome.c ---- */

/* Describes how a task's process ended. `file` is the name of the student's file, without its folder. */
void lab_judge(const lab_grading *, const lab_task *, const lab_job *, const char *file, lab_outcome *);

/* ---- sanitizer.c ---- */

/* Shortens a sanitizer's report in `output` to "lab.c:57: in ring_sum: heap-buffer-overflow, ...". False: there is no
 * report. */
bool lab_sanitizer_report(const char *output, const char *file, char *text, size_t size);

/* Does the same with LeakSanitizer's report. */
bool lab_leak_report(const char *output, const char *file, char *text, size_t size);

/* ---- report.c ---- */

void lab_print(const lab_grading *, const lab_grade *);      /* in 80 columns */
void lab_print_json(const lab_grading *, const lab_grade *); /* one line */
