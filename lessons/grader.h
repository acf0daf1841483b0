/* The grader of one lab: what it is told, what it finds, and how it says so. */
#pragma once

#include "contain.h"
#include "lab.h"
#include "sandbox.h"

enum { LAB_TASKS = 12 /* most of a lab */, LAB_TEXT = 2400 };

/* What is graded, as the command line says it (grader.c). */
typedef struct lab_grading {
    const char *lab;     /* "07" */
    const char *title;   /* "all-reduce" */
    const char *source;  /* the student's lab.c or lab.cl */
    const char *given;   /* the same as it was handed out */
    const char *folder;  /* where the program is built */
    const char *checker; /* the program of the checks */
    const char *headers; /* a copy of the tree with nothing but what a lab may include */
    bool kernels;        /* the file is a lab.cl: run it under Oclgrind too */
    bool json;
    bool unchecked;  /* what it contains is not looked at: for tests of what the sandbox holds */
    bool no_program; /* no gradsum with the student's functions in it: for tests that look at points alone */
    lab_sandbox *sandbox; /* NULL: run it with the rights of who grades */
    double seconds;       /* that a task may take */
    const char *seed;     /* of the checks' cases, as a number in a text */
} lab_grading;

/* What became of a task. */
typedef struct lab_outcome {
    int points;
    char note[LAB_TEXT]; /* why not all points; "" where there are all */
    char hint[LAB_HINT]; /* where to look; "" */
} lab_outcome;

typedef struct lab_grade {
    char problem[600];      /* why nothing could be graded: "it does not compile"; "": it was */
    char *messages;         /* of the compiler, or NULL */
    char changed[LAB_TEXT]; /* lines that differ from the file as handed out, outside of the blanks; "" */
    const char *remark;     /* what could not be looked at, or NULL */
    int count, points, of;
    lab_outcome outcome[LAB_TASKS];
} lab_grade;

/* ---- changed.c ---- */

gs_status lab_find_changes(const lab_grading *, lab_grade *);

/* ---- build.c ---- */

/* GS_E_FILE: it is missing, no file, too large, or cannot be read. */
gs_status lab_check_source(const char *path);

/* Compile and link, and look at what it contains (source_check.h); grade->problem says why there is no program. */
gs_status lab_build(const lab_grading *, lab_grade *);

/* ---- tasks.c ---- */

/* Run and judge all tasks. Those of kernels that have passed are run once more, where Oclgrind is installed, under it
 * and with small shapes: where it finds a race, an access out of bounds or a read of what nobody has written, or where
 * the check finds that it has counted too many loads, there are no points. Without Oclgrind grade->remark says so. */
gs_status lab_run_tasks(const lab_grading *, lab_grade *);

/* ---- outcome.c ---- */

/* What a task's process has come to, in words. `file` is the name of the student's file without folders. */
void lab_judge(const lab_grading *, const lab_task *, const lab_job *, const char *file, lab_outcome *);

/* ---- sanitizer.c ---- */

/* Shorten the report of a sanitizer in `output` to "lab.c:57: in ring_sum: heap-buffer-overflow, ...". False: there is
 * none. */
bool lab_sanitizer_report(const char *output, const char *file, char *text, size_t size);

/* The same for LeakSanitizer. */
bool lab_leak_report(const char *output, const char *file, char *text, size_t size);

/* ---- report.c ---- */

void lab_print(const lab_grading *, const lab_grade *);      /* in 80 columns */
void lab_print_json(const lab_grading *, const lab_grade *); /* one line */
