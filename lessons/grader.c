/* The grader of one lab: compiles the student's file, runs each task's checker, and reports the result.
 *
 *     grader --lab 07 --title all-reduce --source FILE --given FILE --folder DIR --checker PROGRAM --headers DIR
 *            [--kernels] [--json] [--sandbox] [--unchecked] [--no-program] [--seed N]
 *
 * Each lab's grader contains the lab's check.c, for the list of tasks; no student's code is part of the grader or of
 * the checker. make writes the script that calls it (lessons.mk), which sets LAB_PREPROCESS, LAB_COMPILE, LAB_SYMBOLS,
 * LAB_LINK and LAB_PROGRAM: shell commands in which $1 is the student's file and $2 the folder.
 *
 * Exit status: 0 graded, with any number of points; 1 it could not be graded; 2 wrong usage.
 */
#include "grader.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static gs_status grade_lab(const lab_grading *g, lab_grade *grade) {
    for (const lab_task *t = lab_tasks; t->number; t++) {
        if (grade->count == LAB_TASKS) gs_bug("lab %s has more than %d tasks", g->lab, LAB_TASKS);
        grade->count++;
        grade->of += t->points;
    }
    GS_TRY(lab_check_source(g->source));
    GS_TRY(lab_find_changes(g, grade));
    GS_TRY(lab_build(g, grade));
    return *grade->problem ? GS_OK : lab_run_tasks(g, grade);
}

static bool parse(int argc, char **argv, lab_grading *g, bool *sandbox) {
    const struct option options[] = {
        {"lab", required_argument, NULL, 'l'},     {"title", required_argument, NULL, 't'},
        {"source", required_argument, NULL, 's'},  {"given", required_argument, NULL, 'g'},
        {"folder", required_argument, NULL, 'f'},  {"checker", required_argument, NULL, 'c'},
        {"headers", required_argument, NULL, 'h'}, {"kernels", no_argument, NULL, 'k'},
        {"json", no_argument, NULL, 'j'},          {"sandbox", no_argument, NULL, 'b'},
        {"unchecked", no_argument, NULL, 'u'},     {"no-program", no_argument, NULL, 'p'},
        {"seed", required_argument, NULL, 'e'},    {0},
    };
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'l') g->lab = optarg;
        if (c == 't') g->title = optarg;
        if (c == 's') g->source = optarg;
        if (c == 'g') g->given = optarg;
        if (c == 'f') g->folder = optarg;
        if (c == 'c') g->checker = optarg;
        if (c == 'h') g->headers = optarg;
        if (c == 'k') g->kernels = true;
        if (c == 'j') g->json = true;
        if (c == 'b') *sandbox = true;
        if (c == 'u') g->unchecked = true;
        if (c == 'p') g->no_program = true;
        if (c == 'e') g->seed = optarg;
        if (c == '?') return false;
    }
    const char *seconds = getenv("LAB_SECONDS");
    double most = g->kernels ? 30 : 10; /* OpenCL compiles kernels when they are first called */
    g->seconds = seconds && *seconds ? strtod(seconds, NULL) : most;
    return g->lab && g->title && g->source && g->given && g->folder && g->checker && g->headers &&
           optind == argc && g->seconds >= 1 && g->seconds <= 3600;
}

int main(int argc, char **argv) {
    lab_grading g = {0};
    lab_sandbox room;
    static lab_grade grade;
    bool sandbox = false;
    if (!parse(argc, argv, &g, &sandbox)) {
        fprintf(stderr, "usage: see lessons/grader.c; LAB_SECONDS, if set: from 1 to 3600\n");
        return 2;
    }
    gs_status status = sandbox ? lab_sandbox_create(&room, g.folder, g.headers) : GS_OK;
    if (sandbox) g.sandbox = &room;
    if (status == GS_OK) status = grade_lab(&g, &grade);
    if (status == GS_OK) (g.json ? lab_print_json : lab_print)(&g, &grade);
    free(grade.messages);
    if (status == GS_OK) return 0;
    fprintf(stderr, "lab %s: %s\n", g.lab, gs_message());
    return 1;
}
